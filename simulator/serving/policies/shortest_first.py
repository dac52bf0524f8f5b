"""Shortest prompt first: short questions overtake long ones, which may wait for ever under load."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.serving.policies.base import POLICIES
from simulator.serving.policies.vllm_v1 import VllmV1

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch


@POLICIES.add("shortest-first")
class ShortestFirst(VllmV1):
    """As `vllm-v1`, but waiting requests are looked at by the tokens that their prompts still need."""

    in_order = False

    def order(self, batch: "Batch", now: int) -> Iterable[int]:
        """By tokens left, then by arrival."""
        remaining = batch.replica.ledger.remaining_tokens
        return sorted(batch.replica.waiting, key=lambda request: (remaining[request], request))
