"""Priority classes with ageing: urgent requests go first, and waiting makes urgent, so that no request waits for
ever."""

from collections.abc import Iterable

from simulator.serving.policies.base import POLICIES
from simulator.serving.policies.view import View
from simulator.serving.policies.vllm_v1 import VllmV1


@POLICIES.add("priority")
class Priority(VllmV1):
    """As `vllm-v1`, but waiting requests are looked at by class; each `ageing` of waiting raises one by a class."""

    time_invariant = False

    def order(self, view: View) -> Iterable[int]:
        """By class less the classes gained by waiting, then by arrival."""
        now, ageing = view.now, self.rules.ageing

        def rank(request: int) -> tuple[int, int, int]:
            came = view.arrival(request)
            gained = (now - came) // ageing if ageing else 0
            return view.priority(request) - gained, came, request

        return sorted(view.waiting, key=rank)
