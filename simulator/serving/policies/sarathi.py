"""Sarathi's chunked prefill: decodes ride along with one budget of prompt rows, cut to whole tiles
(arXiv:2308.16369)."""

from typing import TYPE_CHECKING

from simulator.serving.policies.base import POLICIES, Chunks, Policy, fill

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch


@POLICIES.add("sarathi")
class Sarathi(Policy):
    """Decode-maximal batching: rows of decodes and prompts together fill whole tiles of the matrix products."""

    def decide(self, batch: "Batch", room: int, now: int) -> tuple[Chunks, bool]:
        """All sequences decode; prompts fill what is left of the budget, rounded down to whole tiles."""
        budget, tile = self.rules.token_budget, self.rules.tile
        whole = budget - budget % tile if budget > tile else budget
        return fill(self, batch, whole - batch.decodes.n, room, self.order(batch, now)), True
