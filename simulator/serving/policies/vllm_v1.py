"""vLLM's V1 scheduler: running requests first, one token each, then prompts in order of arrival cut to the budget."""

from typing import TYPE_CHECKING

from simulator.serving.policies.base import POLICIES, Chunks, Policy, fill

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch


@POLICIES.add("vllm-v1")
class VllmV1(Policy):
    """Decodes and pieces of prompts in one iteration, within a token budget."""

    def decide(self, batch: "Batch", room: int, now: int) -> tuple[Chunks, bool]:
        """All sequences decode; prompts fill what they leave of the budget."""
        return fill(self, batch, self.rules.token_budget - batch.decodes.n, room, self.order(batch, now)), True
