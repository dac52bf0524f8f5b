"""Request-level batching as in FasterTransformer: a batch enters together, and the next one when the last is done."""

from typing import TYPE_CHECKING

from simulator.serving.policies.base import POLICIES, Chunks, Policy, fill

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch

UNBOUNDED = 1 << 62


@POLICIES.add("static")
class Static(Policy):
    """Prompts of a whole batch first, then its decodes; rows of members that are done are computed until all are."""

    reserve = "whole"
    static_batch = True
    chunked = False

    def decide(self, batch: "Batch", room: int, now: int) -> tuple[Chunks, bool]:
        """A new batch when the device is free, otherwise decodes."""
        if batch.running:
            return [], True
        return fill(self, batch, UNBOUNDED, room, self.order(batch, now)), False
