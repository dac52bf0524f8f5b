"""Orca's iteration-level scheduling: whole prompts join the running batch, with memory for the whole answer."""

from typing import TYPE_CHECKING

from simulator.serving.policies.base import POLICIES, Chunks, Policy, fill

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch

UNBOUNDED = 1 << 62


@POLICIES.add("orca")
class Orca(Policy):
    """Prompts and decodes in one iteration (selective batching); only slots and memory limit it (OSDI 2022)."""

    reserve = "whole"
    chunked = False

    def decide(self, batch: "Batch", room: int, now: int) -> tuple[Chunks, bool]:
        """All sequences decode beside every prompt that finds a slot."""
        return fill(self, batch, UNBOUNDED, room, self.order(batch, now)), True
