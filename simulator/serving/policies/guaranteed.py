"""In-flight batching that never evicts: a request joins when the cache has room for its longest answer.

TensorRT-LLM's GUARANTEED_NO_EVICT scheduler, its default (docs: Tuning Max Batch Size and Max Num Tokens, KV cache
scheduler policy). Prompts share iterations with decodes within max_num_tokens; they are not cut (context chunking is
off by default), and one that is longer than what is left waits for an iteration with room for all of it.

Where it is asked to (`batch_wait_timeout_iters`, `batch_wait_max_tokens_ratio`), prompts that could join wait beside
decodes until an iteration with them would have that share of the token budget, or so many iterations have passed
(tensorrt_llm/_torch/pyexecutor/py_executor.py, `_waiting_requests`). Attention ranks that share experts may let prompts
join all at once (`attention_dp_config` with `enable_balance`, the same file, `_balance_adp_requests`).
"""

from simulator.serving.policies.base import POLICIES, Decision, Policy, Rules
from simulator.serving.policies.view import View


@POLICIES.add("guaranteed")
class Guaranteed(Policy):
    """Decodes and prompts in one iteration within a token budget, memory for the longest answer taken at once."""

    reserve = "whole"
    chunked = False

    def __init__(self, rules: Rules) -> None:
        """No prompt is held back yet."""
        super().__init__(rules)
        self._waited = 0

    def decide(self, view: View) -> Decision:
        """All sequences decode; prompts fill what they leave of the budget, or wait for others."""
        rules, decodes = self.rules, view.rows
        chunks = self.fill(view, rules.token_budget - decodes)
        if not chunks or not decodes:
            return Decision(chunks)
        if rules.balance_iterations and not view.peers_admit(rules.balance_iterations, rules.balance_wait):
            return Decision(held=True)
        if not rules.wait_iterations:
            return Decision(chunks)
        tokens = decodes + sum(chunk for _, chunk in chunks)
        if tokens >= rules.wait_share * rules.token_budget or self._waited >= rules.wait_iterations:
            self._waited = 0
            return Decision(chunks)
        self._waited += 1
        return Decision(held=True)
