"""Links that a replica shares with others: what its iterations send runs on them as activities while others use them.

Alone on its links an iteration lasts what it costs, and many are fast-forwarded. From the instant at which another user
joins, what the present iteration has not sent yet is an activity that shares links with what others send, after the
part in which nothing moves: kernels, the host, launches and hops. Alone, both take the same ticks.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from simulator.engine.agenda import Agenda
from simulator.engine.tape import Activity
from simulator.engine.wires import Wires

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch
    from simulator.serving.replica.lockstep import Lockstep

Moves = Callable[[int, int], Sequence[Activity]]
"""(rows of an iteration, those of them that give a token) -> what it moves, one after the other, without latencies."""


class MovingWires(Wires):
    """Those of a user whose iterations end with bytes that move."""

    __slots__ = ("_turn", "agenda", "job", "moves", "queue")

    def __init__(self, agenda: Agenda, moves: Moves, job: str) -> None:
        """Idle; `job` is its name on the record of loads."""
        super().__init__()
        self.agenda, self.moves, self.job = agenda, moves, job
        self.queue: deque[Activity] | None = None
        """What the present iteration is still to move; None while it runs in closed form."""
        self._turn = 0
        """Of iterations whose bytes were put on the links, the present one."""

    def drop(self) -> None:
        """The present iteration is lost, and what it moves with it."""
        self._turn += 1
        self.queue = None
        self.active = 0

    def _put(self, end: int, moves: Sequence[Activity]) -> None:
        """Put on the links what an iteration that would end then has not moved yet."""
        moved = self.agenda.now - end + sum(move.work for move in moves)
        self.queue = deque(_after(moves, moved))
        self._turn += 1
        following = partial(self._next, self._turn)
        if moved < 0:
            self.agenda.at(self.agenda.now - moved, lambda _: following())
        else:
            following()

    def _next(self, turn: int) -> None:
        """Move what comes next, or end the iteration; nothing where it was lost."""
        if turn != self._turn:
            return
        assert self.queue is not None
        if self.queue:
            self.agenda.start(self.queue.popleft(), partial(self._next, turn), (self.job, "collectives"))
        else:
            self._over()

    @abstractmethod
    def _over(self) -> None:
        """All has moved: the iteration ends now."""


class ReplicaWires(MovingWires):
    """Those of a replica that runs one batch."""

    __slots__ = ("batch",)

    def __init__(self, batch: "Batch", moves: Moves, job: str = "") -> None:
        """Idle."""
        super().__init__(batch.agenda, moves, job)
        self.batch = batch

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
        done = stretch.done_by(self.agenda.now)
        if done and stretch.start + stretch.lasts(done) == self.agenda.now:
            if done < stretch.count:
                batch.shorten(done)  # the next one begins in this instant, and sees the others
            return
        if stretch.count > 1:
            batch.split(done)
        batch.appointment = None
        moves = self.moves(*batch.rows())
        self._put(stretch.start + stretch.first, moves)

    def _over(self) -> None:
        self.batch.end_now()


class GroupWires(MovingWires):
    """Those of replicas in step: they exchange the rows of all at the end of an iteration."""

    __slots__ = ("group",)

    def __init__(self, group: "Lockstep", moves: Moves, job: str = "") -> None:
        """Idle."""
        super().__init__(group.agenda, moves, job)
        self.group = group

    @property
    def active(self) -> int:
        """Whether an iteration is under way: no event says that one is over."""
        return int(self.queue is not None or self.group.end > self.group.agenda.now)

    @active.setter
    def active(self, uses: int) -> None:
        """What is known anyway is not kept."""

    def enter(self) -> None:
        """An iteration begins."""
        self.queue = None
        super().enter()
        if self.contended():
            self.share()

    def leave(self) -> None:
        """It is over."""
        self.queue = None

    def share(self) -> None:
        """Put what the present iteration has not moved yet on the links."""
        if self.queue is None and self.group.end > self.agenda.now:
            end = self.group.end
            self.group.hold()
            self._put(end, self.moves(*self.group.rows))

    def _over(self) -> None:
        self.leave()
        self.group.release()


def _after(moves: Sequence[Activity], moved: int) -> Sequence[Activity]:
    """What is left of activities, one after the other, of which so many ticks are over."""
    if moved <= 0:
        return moves
    left = []
    for move in moves:
        if move.work > moved:
            left.append(move._replace(work=move.work - moved) if moved else move)
        moved = max(moved - move.work, 0)
    return left
