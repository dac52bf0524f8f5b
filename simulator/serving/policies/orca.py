"""Orca's iteration-level scheduling: whole prompts join the running batch, with memory for the whole answer."""

from simulator.serving.policies.base import POLICIES, Decision, Policy
from simulator.serving.policies.view import View

UNBOUNDED = 1 << 62


@POLICIES.add("orca")
class Orca(Policy):
    """Prompts and decodes in one iteration (selective batching); only slots and memory limit it (OSDI 2022)."""

    reserve = "whole"
    chunked = False

    def decide(self, view: View) -> Decision:
        """All sequences decode beside every prompt that finds a slot."""
        return Decision(self.fill(view, UNBOUNDED))
