# my_policies.py
from simulator.serving.policies import POLICIES, Decision, Policy


@POLICIES.add("newest-first")
class NewestFirst(Policy):
    """The newest request goes first, prompts get half of the budget, and the oldest request loses its memory."""

    in_order = False

    def decide(self, view):
        return Decision(self.fill(view, min(self.rules.token_budget - view.decodes, self.rules.token_budget // 2)))

    def order(self, view):
        return reversed(view.waiting)

    def victim(self, view):
        return min((*view.partial, *view.decoding), key=view.arrival)
