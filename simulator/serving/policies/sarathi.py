"""Sarathi's chunked prefill: decodes ride along with one budget of prompt rows, cut to whole tiles
(arXiv:2308.16369)."""

from simulator.serving.policies.base import POLICIES, Decision, Policy, Rules
from simulator.serving.policies.view import View


@POLICIES.add("sarathi")
class Sarathi(Policy):
    """Decode-maximal batching: rows of decodes and prompts together fill whole tiles of the matrix products."""

    def __init__(self, rules: Rules) -> None:
        """Take the numbers of the scenario."""
        super().__init__(rules)
        budget, tile = rules.token_budget, rules.tile
        self.whole = budget - budget % tile if budget > tile else budget
        """Rows of an iteration: the budget in whole tiles."""

    def decide(self, view: View) -> Decision:
        """All sequences decode; prompts fill what is left of the budget, rounded down to whole tiles."""
        return Decision(self.fill(view, self.whole - view.rows))
