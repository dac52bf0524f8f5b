"""vLLM's V0 scheduler as it was by default: prompts go first, whole and alone, and everybody else's tokens wait."""

from typing import TYPE_CHECKING

from simulator.serving.policies.base import POLICIES, Chunks, Policy, fill

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch


@POLICIES.add("vllm-v0")
class VllmV0(Policy):
    """Iterations of whole prompts only, as long as any can be admitted; iterations of decodes otherwise."""

    reserve = "prompt"
    chunked = False
    spans = True

    def decide(self, batch: "Batch", room: int, now: int) -> tuple[Chunks, bool]:
        """Prompts without decodes while there are any that fit."""
        return fill(self, batch, self.rules.token_budget, room, self.order(batch, now)), False
