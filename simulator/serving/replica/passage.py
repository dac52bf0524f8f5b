"""Batches that pass the stages of a replica whose links others use too: stage by stage, as events.

On each stage a batch first computes, then moves what its collectives send; then it travels to the next stage, and waits
there for the batches before it. With no other user on the links an iteration takes what `Stages.pass_through` says.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from simulator.engine.tape import Activity
from simulator.engine.wires import Wires
from simulator.serving.replica.wires import Moves

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch
    from simulator.serving.replica.replica import Replica

Hop = Callable[[int], Activity]
"""Rows of an iteration -> their way to the next stage."""


class StageWires(Wires):
    """The links of a replica on whose stages batches take turns."""

    __slots__ = ("agenda", "hops", "job", "late", "moves", "replica", "stages", "turn", "under_way")

    def __init__(self, replica: "Replica", moves: Sequence[Moves], hops: Sequence[Hop], job: str) -> None:
        """Idle. `moves` is by stage, `hops` from each but the last; `job` is their name on the record of loads."""
        super().__init__()
        self.replica, self.agenda, self.job = replica, replica.agenda, job
        self.moves, self.hops = moves, hops
        self.stages: list[deque[Passage]] = [deque() for _ in moves]
        """Passages of each stage: the first is on it, the others wait for it."""
        self.late: list[Batch] = []
        """Batches that begin when the first stage is free."""
        self.under_way = 0
        self.turn = 0
        """How often all that was under way was lost."""

    def drop(self) -> None:
        """All iterations are lost; what they have on the links arrives nowhere."""
        for line in self.stages:
            line.clear()
        self.late = []
        self.turn += 1
        if self.under_way:
            self.under_way = 0
            self.leave()

    def waits(self, batch: "Batch") -> bool:
        """Whether a batch that would begin waits for the first stage."""
        if not self.stages[0]:
            return False
        self.late.append(batch)
        return True

    def begin(self, batch: "Batch", ticks: list[int], streams: bool) -> None:
        """An iteration begins that takes so many ticks on each stage alone; one that `streams` is over for its batch
        when it leaves the first stage."""
        if not self.under_way:
            self.enter()
        self.under_way += 1
        Passage(self, batch, ticks, streams).arrive()

    def over(self) -> None:
        """An iteration has passed all stages."""
        self.under_way -= 1
        if not self.under_way:
            self.leave()


class Passage:
    """An iteration on its way through the stages."""

    __slots__ = ("batch", "moves", "on", "rows", "sampled", "stage", "streams", "ticks", "turn", "wires")

    def __init__(self, wires: StageWires, batch: "Batch", ticks: list[int], streams: bool) -> None:
        """Before the first stage."""
        self.wires, self.batch, self.ticks, self.streams = wires, batch, ticks, streams
        self.turn = wires.turn
        self.rows, self.sampled = batch.rows()
        self.stage = 0
        self.on = 0
        """When it came onto the stage."""
        self.moves: deque[Activity] = deque()

    def arrive(self, _: object = None) -> None:
        """Here is the stage: go onto it, or wait."""
        if self.turn != self.wires.turn:
            return
        line = self.wires.stages[self.stage]
        line.append(self)
        if len(line) == 1:
            self._compute()

    def _compute(self) -> None:
        wires, agenda = self.wires, self.wires.agenda
        self.on = agenda.now
        self.moves = deque(wires.moves[self.stage](self.rows, self.sampled))
        still = self.ticks[self.stage] - sum(move.work for move in self.moves)
        agenda.at(agenda.now + max(still, 0), self._move)

    def _move(self, _: object = None) -> None:
        """Send what comes next, or leave the stage."""
        if self.turn != self.wires.turn:
            return
        if self.moves:
            self.wires.agenda.start(self.moves.popleft(), self._move, (self.wires.job, "collectives"))
        else:
            self._leave()

    def _leave(self) -> None:
        wires, stage, now = self.wires, self.stage, self.wires.agenda.now
        self._count(now - self.on - self.ticks[stage])
        line = wires.stages[stage]
        line.popleft()
        if line:
            line[0]._compute()
        elif stage == 0 and wires.late:
            late, wires.late = wires.late, []
            for batch in late:
                batch.appointment = wires.agenda.at(now, batch.begin)
        if stage == 0 and self.streams:
            self.batch.passed()
        if stage + 1 < len(wires.stages):
            self.stage += 1
            wires.agenda.start(wires.hops[stage](self.rows), self.arrive, (wires.job, "send pp"))
            return
        wires.over()
        if not self.streams:
            self.batch.passed()

    def _count(self, stalled: int) -> None:
        """Others made the stage longer by so much."""
        record, stages = self.wires.replica.record, len(self.wires.stages)
        record.stalled += stalled // stages
        record.busy += stalled // stages
