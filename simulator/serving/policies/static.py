"""Request-level batching as in FasterTransformer: a batch enters together, and the next one when the last is done."""

from simulator.serving.policies.base import POLICIES, Decision, Policy
from simulator.serving.policies.view import View

UNBOUNDED = 1 << 62


@POLICIES.add("static")
class Static(Policy):
    """Prompts of a whole batch first, then its decodes; rows of members that are done are computed until all are."""

    reserve = "whole"
    static_batch = True
    chunked = False

    def decide(self, view: View) -> Decision:
        """A new batch when the device is free, otherwise decodes."""
        if view.running:
            return Decision()
        return Decision(self.fill(view, UNBOUNDED), decode=False)
