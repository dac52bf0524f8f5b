"""In-flight batching that never evicts: a request joins when the cache has room for its longest answer.

TensorRT-LLM's GUARANTEED_NO_EVICT scheduler, its default (docs: Tuning Max Batch Size and Max Num Tokens, KV cache
scheduler policy). Prompts share iterations with decodes within max_num_tokens; they are not cut (context chunking is
off by default), and one that is longer than what is left waits for an iteration with room for all of it.
"""

from simulator.serving.policies.base import POLICIES, Decision, Policy
from simulator.serving.policies.view import View


@POLICIES.add("guaranteed")
class Guaranteed(Policy):
    """Decodes and prompts in one iteration within a token budget, memory for the longest answer taken at once."""

    reserve = "whole"
    chunked = False

    def decide(self, view: View) -> Decision:
        """All sequences decode; prompts fill what they leave of the budget."""
        return Decision(self.fill(view, self.rules.token_budget - view.rows))
