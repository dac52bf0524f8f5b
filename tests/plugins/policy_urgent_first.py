"""A batching policy as a plug-in: urgent prompts first, half of the budget for prompts, and the least urgent request
loses its memory where there is too little."""

from collections.abc import Iterable

from simulator.serving.policies import POLICIES, Decision, Policy, View


@POLICIES.add("urgent-first")
class UrgentFirst(Policy):
    """Of one class, the first to have come goes first and is the last to lose its memory."""

    in_order = False

    def decide(self, view: View) -> Decision:
        """All sequences decode beside prompts of half the budget."""
        return Decision(self.fill(view, min(self.rules.token_budget - view.decodes, self.rules.token_budget // 2)))

    def order(self, view: View) -> Iterable[int]:
        """By class, then by arrival."""
        return sorted(view.waiting, key=lambda request: (view.priority(request), view.arrival(request)))

    def victim(self, view: View) -> int:
        """The last by class and arrival."""
        here = (*view.partial, *view.decoding)
        return max(here, key=lambda request: (view.priority(request), view.arrival(request), request))
