"""Sarathi's chunked prefill: decodes ride along with one budget of prompt rows, cut to whole tiles
(arXiv:2308.16369)."""

from simulator.serving.policies.base import POLICIES, Decision, Policy
from simulator.serving.policies.view import View


@POLICIES.add("sarathi")
class Sarathi(Policy):
    """Decode-maximal batching: rows of decodes and prompts together fill whole tiles of the matrix products."""

    def decide(self, view: View) -> Decision:
        """All sequences decode; prompts fill what is left of the budget, rounded down to whole tiles."""
        budget, tile = self.rules.token_budget, self.rules.tile
        whole = budget - budget % tile if budget > tile else budget
        return Decision(self.fill(view, whole - view.rows))
