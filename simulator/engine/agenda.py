"""A clock for those who decide as they go: calls at times that are not known in advance.

Each instant has three phases, so that what is decided in it does not depend on the order in which its events were
scheduled: first what ends (`at`), then whatever that sets off in no time (`at` with no delay), then what begins
(`begin`). Within a phase, calls come in the order in which they were asked for.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray
from simpy import Environment
from simpy.events import NORMAL

from simulator.engine.fluid import Fluid, Solver
from simulator.engine.tape import NEVER, Activity

Call = Callable[[Any], None]
"""What is called; it is told the moment, by which an old appointment is known from a newer one."""

LAST = 2
"""SimPy's priority of what begins: after the normal events of the instant."""


class Appointment:
    """An entry of SimPy's queue: less than an event, as nobody waits for it."""

    __slots__ = ("callbacks",)

    def __init__(self, call: Call) -> None:
        """To be kept."""
        self.callbacks = (call,)


class Agenda:
    """Appointments in integer ticks, and activities on shared resources beside them."""

    def __init__(self, capacity: NDArray[np.float64] | None = None, solver: Solver | None = None) -> None:
        """Start at 0; `capacity` (units per tick by resource) and `solver` are for activities, see `fluid`."""
        self._env = Environment()
        self._activities: list[Activity] = []
        self._numbers: dict[Activity, int] = {}
        resources = np.zeros(0) if capacity is None else capacity
        self._fluid = Fluid(self._env, self._activities, resources, solver)  # type: ignore[arg-type]  # a list grows
        self.queue: list[tuple[int, int, int, Any]] = self._env._queue  # type: ignore[assignment]
        """SimPy's heap; its first entry is what comes next."""
        self._number = self._env._eid
        self.now = 0
        """The present tick."""

    @property
    def events(self) -> int:
        """Events so far, activities included."""
        return int(self._env._eid.__reduce__()[1][0])

    def at(self, tick: int, call: Call) -> Appointment:
        """Call at a tick, not before now."""
        appointment = Appointment(call)
        heappush(self.queue, (tick, NORMAL, next(self._number), appointment))
        return appointment

    def begin(self, call: Call) -> Appointment:
        """Call at the end of this instant, when all that ends in it has ended."""
        appointment = Appointment(call)
        heappush(self.queue, (self.now, LAST, next(self._number), appointment))
        return appointment

    def end_of_instant(self, call: Call) -> Appointment:
        """Call at the end of this instant, when all that begins in it has begun."""
        appointment = Appointment(call)
        heappush(self.queue, (self.now, LAST + 1, next(self._number), appointment))
        return appointment

    def alone(self) -> bool:
        """Whether nothing else is due in this instant, so that what begins may begin at once."""
        return not self.queue or self.queue[0][0] > self.now

    def start(self, activity: Activity, finished: Callable[[], None]) -> None:
        """Begin an activity on shared resources; `finished` is called when it is done."""
        number = self._numbers.setdefault(activity, len(self._activities))
        if number == len(self._activities):
            self._activities.append(activity)
        self._fluid.start(number, finished)

    def run(self, progress: Callable[[int], None] | None = None, stride: int = 1 << 14) -> None:
        """Let time pass until no appointment is left; OverflowError past the last tick that the clock counts."""
        # The loop of `Environment.step` without its care for failed events, of which there are none: a sixth faster.
        env, queue = self._env, self.queue
        while queue:
            for _ in range(stride):
                if not queue:
                    break
                tick, _, _, moment = heappop(queue)
                env._now = self.now = tick
                for call in moment.callbacks:
                    call(moment)
            if progress is not None:
                progress(self.events)
            if self.now > NEVER:
                raise OverflowError("the run lasts longer than 53 days, more than the clock of the simulation counts")
