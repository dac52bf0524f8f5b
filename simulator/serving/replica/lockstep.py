"""Replicas that share experts: every layer exchanges tokens between them, so their iterations begin and end together.

Before each exchange all wait for the one with the most work of its own (attention, dense layers, host); then all work
on the rows of all. So an iteration of the group lasts

    max over replicas of own time + time of experts and exchanges for the sum of their rows

(where each row is sent to its experts only, an exchange ends with the last row of the replica that has most).

A replica with nothing to do passes a dummy batch (vLLM's data parallelism, SGLang's attention data parallelism), whose
row, if there is one, is not counted. Engines that pad give all batches, dummy ones too, the rows of the largest: vLLM
in every iteration where it captures graphs at all, SGLang in those that replay one; others run what is there. A replica
that gets a request meanwhile begins with the next iteration of the group.
"""

from typing import TYPE_CHECKING

from simulator.engine.agenda import Agenda

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch
    from simulator.serving.replica.replica import Replica
    from simulator.serving.replica.wires import GroupWires


class Lockstep:
    """A group of replicas."""

    def __init__(self, agenda: Agenda, members: "list[Replica]", padded: float = 0.0) -> None:
        """Nothing runs; the members know of the group from now on.

        Up to `padded` rows of the largest member, all pass as many as that one.
        """
        self.agenda, self.members, self.padded = agenda, members, padded
        self.entered: list[tuple[Batch, int, int, int]] = []
        """Batches that begin in this instant: ticks of their own work, rows, and rows that give a token."""
        self.running: list[Batch] = []
        """Batches of the present iteration."""
        self.rows = 0, 0
        """Rows of all, and those of them that give a token."""
        self.end = 0
        """When the present iteration ends, as far as is known."""
        self.wires: GroupWires | None = None
        """Links that the group shares with others; None where nobody could come into its way."""
        self.late: list[Batch] | None = None
        """Batches that wait for the end of an iteration which shares its links; None where its end is known."""
        for member in members:
            member.group = self
            member.fast_forwards = False

    def enter(self, batch: "Batch", own: int, rows: int, sampled: int) -> None:
        """A batch begins an iteration of so many ticks of work of its own and so many rows, of which `sampled` give a
        token."""
        if not self.entered:
            self.agenda.end_of_instant(self._settle)
        self.entered.append((batch, own, rows, sampled))

    def _rows(self, entered: list[int]) -> int:
        """Rows that the experts of the group work on, for those of each batch that begins."""
        most = max(entered)
        return len(self.members) * most if most <= self.padded else sum(entered)

    def _settle(self, _: object) -> None:
        """All that begin have: the longest decides, and the rows of all are worked on together."""
        entered, self.entered = self.entered, []
        slowest, longest, most, _ = max(entered, key=lambda entry: entry[1])
        shared = self.rows = self._rows([rows for _, _, rows, _ in entered]), sum(sampled for *_, sampled in entered)
        cost = self.members[0].stages.costs[0]
        saved = cost.saved(most, slowest.work.attention, shared[0], slowest.work.reading)
        sent = cost.exchanged(max(rows for _, _, rows, _ in entered), shared[0])
        span = longest + cost.together(*shared) + sent - saved
        end = self.end = self.agenda.now + span
        self.running = [batch for batch, *_ in entered]
        for member in self.members:
            member.stages.gate = end
        for batch, own, _, _ in entered:
            batch.stretch.first, batch.stretch.growth = span, 0
            batch.replica.record.meet(shared, longest - own, sent)
            batch.replica.record.saved += saved
            batch.schedule_end(end)
        if self.wires is not None:
            self.wires.enter()

    # Links that others use --------------------------------------------------------------------------------------------

    def waits(self, batch: "Batch") -> bool:
        """Whether a batch that would begin waits for the end of an iteration that shares its links."""
        if self.late is None:
            return False
        self.late.append(batch)
        return True

    def hold(self) -> None:
        """Nobody knows any longer when the iteration ends."""
        self.late = []
        for batch in self.running:
            batch.appointment = None

    def release(self) -> None:
        """It ends now."""
        now, late = self.agenda.now, self.late or ()
        self.late, self.end = None, now
        for member in self.members:
            member.stages.gate = now
        for batch in self.running:
            batch.end_now()
        for batch in late:
            batch.appointment = self.agenda.at(now, batch.begin)
