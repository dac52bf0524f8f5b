"""The clock: one time, one queue of what is due, and the resources that all players share.

Each instant has three phases, so that what is decided in it does not depend on the order in which its events were
scheduled: first what ends (`at`), then whatever that sets off in no time (`at` with no delay), then what begins
(`begin`). Within a phase, calls come in the order in which they were asked for. Tapes are run on a clock by players.
See docs/decisions/0008-agenda.md and docs/decisions/0012-one-clock.md.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from simpy import Environment
from simpy.events import NORMAL

from simulator.engine.event import Appointment, Call
from simulator.engine.fluid import Fluid
from simulator.engine.load import Counts, Load
from simulator.engine.running import Running
from simulator.engine.speeds import Solver
from simulator.engine.tape import NEVER, Activity
from simulator.errors import DeadlockError

if TYPE_CHECKING:
    from simulator.engine.player import Player

Progress = Callable[[int], None]
"""Told the number of events processed so far, now and then."""

STRIDE = 1 << 14
"""Events between two reports of progress."""
LAST = 2
"""SimPy's priority of what begins: after the normal events of the instant."""
LISTED = 4
"""Players, and activities without a player, that the message of a deadlock names."""


class Clock:
    """Time in integer ticks: appointments, players, and activities on shared resources."""

    def __init__(self, capacity: Iterable[float] | None = None, solver: Solver | None = None) -> None:
        """Start at 0; `capacity` (units per tick by resource) and `solver` are for activities, see `fluid`."""
        self.env = Environment()
        self.fluid = Fluid(self.env, solver)
        """The resources and what runs on them."""
        for units in () if capacity is None else capacity:
            self.fluid.add(units)
        self.queue: list[tuple[int, int, int, Any]] = self.env._queue  # type: ignore[assignment]
        """SimPy's heap; its first entry is what comes next."""
        self.number = self.env._eid
        """SimPy's count of entries, which keeps those of one moment in order."""
        self.now = 0
        """The present tick."""
        self.players: dict[Player, None] = {}
        """Those that have not ended."""

    @property
    def events(self) -> int:
        """Events so far, activities included."""
        return int(self.env._eid.__reduce__()[1][0])

    def at(self, tick: int, call: Call) -> Appointment:
        """Call at a tick, not before now."""
        appointment = Appointment(call)
        heappush(self.queue, (tick, NORMAL, next(self.number), appointment))
        return appointment

    def begin(self, call: Call) -> Appointment:
        """Call at the end of this instant, when all that ends in it has ended."""
        appointment = Appointment(call)
        heappush(self.queue, (self.now, LAST, next(self.number), appointment))
        return appointment

    def end_of_instant(self, call: Call) -> Appointment:
        """Call at the end of this instant, when all that begins in it has begun."""
        appointment = Appointment(call)
        heappush(self.queue, (self.now, LAST + 1, next(self.number), appointment))
        return appointment

    def skip_to(self, tick: int) -> None:
        """Let time pass as if for an appointment then, before which nothing is due; counts as an event."""
        next(self.number)
        self.env._now = self.now = tick

    def alone(self) -> bool:
        """Whether nothing else is due in this instant, so that what begins may begin at once."""
        return not self.queue or self.queue[0][0] > self.now

    def add(self, capacity: float, name: str = "") -> int:
        """A new resource of so many units per tick; returns its number."""
        return self.fluid.add(capacity, name)

    def change(self, resource: int, capacity: float) -> None:
        """Give a resource another capacity from now on; at 0 what uses it stands still."""
        self.fluid.change(resource, capacity)

    def start(self, activity: Activity, finished: Callable[[], None], label: Hashable = None) -> Running:
        """Begin an activity now; `finished` is called when it is done, `label` is its name on the record of loads."""
        return self.fluid.start(self.fluid.speeds.phases(activity), finished, label)

    def stop(self, running: Running) -> None:
        """End an activity before its time; what it did stays done, and its `finished` is not called."""
        self.fluid.stop(running)

    def record(self, resources: Collection[int] | None = None, most: int = 256, counts: Counts | None = None) -> Load:
        """Write down from now on what resources carry, all or some; `most` bounds the intervals kept of each, `counts`
        is given each before it may be merged."""
        self.fluid.record = Load(self.fluid, resources, most, counts)
        return self.fluid.record

    def run(self, progress: Progress | None = None, stride: int = STRIDE) -> None:
        """Let time pass until nothing is due.

        Raises DeadlockError naming the lanes of all players, and the activities, that wait for ever, and OverflowError
        past the last tick that the clock counts.
        """
        # The loop of `Environment.step` without its care for failed events, of which there are none: a sixth faster.
        env, queue, processed = self.env, self.queue, 0
        while queue:
            for _ in range(stride):
                if not queue:
                    break
                tick, _, _, moment = heappop(queue)
                env._now = self.now = tick
                if isinstance(moment, Appointment):
                    moment.call(moment)
                    continue
                callbacks, moment.callbacks = moment.callbacks, None
                for call in callbacks:
                    call(moment)
            else:
                processed += stride
                if progress is not None:
                    progress(processed)
            if self.now >= NEVER:
                raise OverflowError("the run lasts longer than 53 days, more than the clock of the simulation counts")
        self._refuse_standing()

    def ran(self, now: int, events: int) -> None:
        """All that was due has been done elsewhere, until `now`; so many events in all."""
        self.queue.clear()
        self.env._now = self.now = now
        self.number = self.env._eid = count(events)

    def _refuse_standing(self) -> None:
        """DeadlockError where a player still waits although nothing is due any more."""
        standing: dict[Running, str] = dict(self.fluid.standing())
        stuck = list(self.players)
        lines = [line for player in stuck[:LISTED] for line in player.stuck(standing, len(stuck))]
        if len(stuck) > LISTED:
            lines.append(f"and {len(stuck) - LISTED} more programs")
        owned = {running for player in stuck for running in player.working.values()}
        free = [(running, lacks) for running, lacks in standing.items() if running not in owned]
        lines += [
            f"deadlock: {'an activity' if running.label is None else running.label} waits for its share of {lacks}"
            for running, lacks in free[:LISTED]
        ]
        if len(free) > LISTED:
            lines.append(f"and {len(free) - LISTED} more activities")
        if lines:
            raise DeadlockError(*lines)
