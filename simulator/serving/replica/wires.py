"""Links that a replica shares with others: what its iterations send runs on them as activities while others use them.

Alone on its links an iteration lasts what it costs, and many are fast-forwarded. From the instant at which somebody
joins, what the present iteration has not sent yet is an activity that shares links with what others send, after the
part in which nothing moves: kernels, the host, launches and hops. Alone, both take the same ticks.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from simulator.engine.tape import Activity

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch

Moves = Callable[[int, int], Sequence[Activity]]
"""(rows of an iteration, those of them that give a token) -> what it moves, one after the other, without latencies."""


class Wires:
    """The links of one user, a replica or a way of moved caches, and those who use any of them too."""

    __slots__ = ("active", "neighbours")

    def __init__(self) -> None:
        """Nobody is near."""
        self.active = 0
        """Uses at this moment."""
        self.neighbours: list[Wires] = []
        """Who could ask for more than a link has, together with this one."""

    def contended(self) -> bool:
        """Whether somebody else is on these links."""
        return any(other.active for other in self.neighbours)

    def enter(self) -> None:
        """Begin to use the links: those who are on them share from now on."""
        self.active += 1
        for other in self.neighbours:
            if other.active:
                other.share()

    def leave(self) -> None:
        """Use them no longer."""
        self.active -= 1

    def share(self) -> None:
        """Somebody joins."""


class ReplicaWires(Wires):
    """Those of a replica that runs one batch."""

    __slots__ = ("batch", "moves", "queue")

    def __init__(self, batch: "Batch", moves: Moves) -> None:
        """Idle."""
        super().__init__()
        self.batch, self.moves = batch, moves
        self.queue: deque[Activity] | None = None
        """What the present iteration is still to move; None while it runs in closed form."""

    def enter(self) -> None:
        """An iteration begins; the replica stays on its links until it is idle."""
        self.queue = None
        if not self.active:
            super().enter()

    def leave(self) -> None:
        """The replica is idle."""
        self.active = 0

    def share(self) -> None:
        """Put what the present iteration has not moved yet on the links; those before it in the stretch are over."""
        batch, stretch = self.batch, self.batch.stretch
        if not stretch.count or self.queue is not None:
            return
        now = batch.agenda.now
        done = stretch.done_by(now)
        if done and stretch.start + stretch.lasts(done) == now:
            if done < stretch.count:
                batch.shorten(done)  # the next one begins in this instant, and sees who is there
            return
        if stretch.count > 1:
            batch.split(done)
        decoding = batch.decodes.n + batch.decodes.rows if batch.work.decoding else 0
        moves = self.moves(decoding + batch.work.tokens, decoding + batch.work.ended)
        moved = now - (stretch.start + stretch.first - sum(move.work for move in moves))
        self.queue = deque(_after(moves, moved))
        if moved < 0:
            batch.appointment = batch.agenda.at(now - moved, self._begin)
        else:
            batch.appointment = None
            self._next()

    def _begin(self, appointment: object) -> None:
        """What comes before has ended."""
        if appointment is self.batch.appointment:
            self._next()

    def _next(self) -> None:
        """Move what comes next, or end the iteration."""
        batch = self.batch
        assert self.queue is not None
        if self.queue:
            batch.agenda.start(self.queue.popleft(), self._next)
            return
        now, stretch = batch.agenda.now, batch.stretch
        batch.replica.record.stalled += now - stretch.start - stretch.first
        stretch.first, stretch.growth = now - stretch.start, 0
        batch.appointment = batch.agenda.at(now, batch.ended)


def _after(moves: Sequence[Activity], moved: int) -> list[Activity]:
    """What is left of activities, one after the other, of which so many ticks are over."""
    left = []
    for move in moves:
        if move.work > max(moved, 0):
            left.append(move._replace(work=move.work - max(moved, 0)))
        moved -= move.work
    return left
