"""vLLM's V1 scheduler: running requests first, one token each, then prompts in order of arrival cut to the budget."""

from simulator.serving.policies.base import POLICIES, Decision, Policy
from simulator.serving.policies.view import View


@POLICIES.add("vllm-v1")
class VllmV1(Policy):
    """Decodes and pieces of prompts in one iteration, within a token budget."""

    def decide(self, view: View) -> Decision:
        """All sequences decode; prompts fill what they leave of the budget."""
        return Decision(self.fill(view, self.rules.token_budget - view.rows))
