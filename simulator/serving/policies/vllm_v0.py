"""vLLM's V0 scheduler as it was by default: prompts go first, whole and alone, and the tokens of other requests
wait."""

from simulator.serving.policies.base import POLICIES, Decision, Policy
from simulator.serving.policies.view import View


@POLICIES.add("vllm-v0")
class VllmV0(Policy):
    """Iterations of whole prompts only, as long as any can be admitted; iterations of decodes otherwise."""

    reserve = "prompt"
    chunked = False
    spans = True

    def decide(self, view: View) -> Decision:
        """Prompts without decodes while there are any that fit."""
        return Decision(self.fill(view, self.rules.token_budget), decode=False)
