"""An activity under way: what of its phases is done, at which speed it goes on, and what will end it.

Work left is an integer as long as the speed is 1, so that an activity that never has to share lasts exactly latency +
work ticks; shared, it ends at the nearest tick.
"""

from collections.abc import Callable, Collection, Hashable
from math import floor
from typing import NamedTuple

from simulator.engine.event import Appointment, Call
from simulator.engine.tape import NEVER, Use

ENDED = -1
"""End of what does not work: not yet, not just now, or not any more."""


def nearest(ticks: float) -> int:
    """The nearest whole number of ticks, of two the later one: the same moment wherever counting begins. Whole numbers
    stay as they are, however large."""
    return ticks if isinstance(ticks, int) else floor(ticks + 0.5)


class Needs(NamedTuple):
    """What a phase uses, once for all phases that use the same."""

    uses: tuple[Use, ...]
    number: int
    resources: tuple[int, ...]
    """Those of the uses."""
    reserved: dict[int, float]
    """Units per tick that are reserved, by resource."""
    single: bool
    """Whether there is one use."""


class Phase(NamedTuple):
    """A phase in the form of the fluid."""

    latency: int
    work: int
    needs: Needs


class Running:
    """A copy of an activity, from its start on."""

    __slots__ = (
        "end",
        "finished",
        "label",
        "left",
        "needs",
        "phase",
        "phases",
        "scarce",
        "since",
        "speed",
        "timer",
        "turn",
    )

    def __init__(self, phases: tuple[Phase, ...], finished: Callable[[], None], label: Hashable) -> None:
        """Start before the first phase."""
        self.phases = phases
        self.phase = phases[0]
        """The present one."""
        self.needs = self.phase.needs
        self.scarce: list[Use] | None = None
        """The uses of resources that are asked for more than they have; None where not known."""
        self.turn = 0
        """How many phases have begun."""
        self.finished = finished
        """To be called at the end."""
        self.label = label
        """What the record of loads calls it."""
        self.left: int | float = 0
        """Ticks of work at full speed that were left at `since`."""
        self.since = 0
        self.speed: float = 0.0
        self.end = ENDED
        """The tick at which the phase ends at the present speed, NEVER if it stands still."""
        self.timer: Timer | None = None
        """What will end it; older timers are void."""

    def advance(self) -> bool:
        """Turn to the next phase; False if there is none."""
        if self.turn == len(self.phases):
            return False
        self.phase = self.phases[self.turn]
        self.needs = self.phase.needs
        self.turn += 1
        return True

    def work(self, now: int) -> None:
        """Start to work, with all the work of the phase left."""
        self.left, self.since, self.speed, self.end, self.scarce = self.phase.work, now, 0.0, NEVER, None

    def unhindered(self) -> None:
        """Go on at full speed with all the work of the phase left."""
        self.speed, self.end = 1.0, self.since + self.phase.work

    def proceed(self, now: int, speed: float) -> None:
        """Book the work done so far and go on at another speed."""
        elapsed = now - self.since
        if elapsed:
            self.left -= elapsed if self.speed == 1.0 else self.speed * elapsed
            self.since = now
        self.speed = speed
        if speed == 1.0:
            self.end = now + max(0, nearest(self.left))
        elif self.left <= 0:
            self.end = now
        else:
            self.end = now + nearest(self.left / speed) if self.left < speed * NEVER else NEVER


class Timer(Appointment):
    """Ends the phases of a component that are due first."""

    __slots__ = ("component",)

    def __init__(self, call: Call, component: Collection[Running]) -> None:
        """For a component."""
        self.call = call
        self.component = component


class Joining(Appointment):
    """The end of a latency."""

    __slots__ = ("running",)

    def __init__(self, call: Call, running: Running) -> None:
        """For an activity."""
        self.call = call
        self.running = running
