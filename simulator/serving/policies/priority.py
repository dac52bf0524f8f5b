"""Priority classes with ageing: urgent requests go first, and waiting makes urgent, so that nobody waits for ever."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.serving.policies.base import POLICIES
from simulator.serving.policies.vllm_v1 import VllmV1

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch


@POLICIES.add("priority")
class Priority(VllmV1):
    """As `vllm-v1`, but waiting requests are looked at by class; each `ageing` of waiting raises one by a class."""

    time_invariant = False

    def order(self, batch: "Batch", now: int) -> Iterable[int]:
        """By class less the classes gained by waiting, then by arrival."""
        ledger, ageing = batch.replica.ledger, self.rules.ageing
        arrival, priority = ledger.arrival, ledger.priority

        def rank(request: int) -> tuple[int, int, int]:
            gained = (now - arrival[request]) // ageing if ageing else 0
            return priority[request] - gained, arrival[request], request

        return sorted(batch.replica.waiting, key=rank)
