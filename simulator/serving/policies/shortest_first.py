"""Shortest prompt first: short questions overtake long ones, which may wait for ever under load."""

from collections.abc import Iterable

from simulator.serving.policies.base import POLICIES
from simulator.serving.policies.view import View
from simulator.serving.policies.vllm_v1 import VllmV1


@POLICIES.add("shortest-first")
class ShortestFirst(VllmV1):
    """As `vllm-v1`, but waiting requests are looked at by the tokens that their prompts still need."""

    in_order = False

    def order(self, view: View) -> Iterable[int]:
        """By tokens left, then by arrival."""
        return sorted(view.waiting, key=lambda request: (view.remaining(request), request))
