"""Replicas that share experts: every layer exchanges tokens between them, so their iterations begin and end together.

An iteration of the group lasts as long as its longest; a replica with nothing to do passes an empty batch (vLLM's data
parallelism with expert parallelism). One that gets a request meanwhile begins with the next iteration of the group.
"""

from typing import TYPE_CHECKING

from simulator.engine.agenda import Agenda

if TYPE_CHECKING:
    from simulator.serving.batch import Batch
    from simulator.serving.replica import Replica


class Lockstep:
    """A group of replicas."""

    def __init__(self, agenda: Agenda, members: "list[Replica]") -> None:
        """Nothing runs; the members know of the group from now on."""
        self.agenda, self.members = agenda, members
        self.entered: list[tuple[Batch, int]] = []
        """Batches that begin in this instant, and what each would last alone."""
        for member in members:
            member.group = self
            member.leaps = False

    def enter(self, batch: "Batch", span: int) -> None:
        """A batch begins an iteration that would last so many ticks alone."""
        if not self.entered:
            self.agenda.finally_(self._settle)
        self.entered.append((batch, span))

    def _settle(self, _: object) -> None:
        """All that begin have: the longest decides."""
        entered, self.entered = self.entered, []
        span = max(own for _, own in entered)
        end = self.agenda.now + span
        for member in self.members:
            member.gate = end
        for batch, own in entered:
            batch.first, batch.growth = span, 0
            batch.replica.waited += span - own
            batch.appoint(end)
