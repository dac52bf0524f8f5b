"""The tape: what every lane does, in order, as columns.

The engine reads nothing else. An operation starts when its lane is free, the operations that it comes `after` have
ended and, where it belongs to a rendezvous, all other members are ready too. It then lasts `duration` ticks or, where
it names an activity on shared resources, as long as its share of them makes it last.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError

Ints = NDArray[np.int64]

NEVER = 1 << 62
"""Later than any tick: the end of what has not run. 53 days; what lasts longer is refused."""

RESERVED = math.inf
"""The flows of a use that is reserved: granted in full before the others share what is left."""


class Use(NamedTuple):
    """What an activity takes of one shared resource."""

    resource: int
    """Index of the resource."""
    rate: float
    """Units per tick while the activity runs at full speed; at most the capacity."""
    flows: float
    """Weight in the fair sharing of the resource: the number of flows that it stands for.

    `RESERVED` where it is not shared: as long as the activity works it keeps `rate`, however fast it is.
    """


class Activity(NamedTuple):
    """Something that takes time on shared resources: a latency, then work at a shared rate, then the phases after it.

    All phases are one operation: each starts at the end of the one before it.
    """

    latency: int
    """Ticks before the work starts; nothing is shared meanwhile."""
    work: int
    """Ticks that the work lasts when it is alone."""
    uses: tuple[Use, ...]
    """The resources that it needs."""
    then: "tuple[Activity, ...]" = ()
    """The phases that follow, which have none of their own."""

    @property
    def phases(self) -> "tuple[Activity, ...]":
        """All phases in order."""
        return (self._replace(then=()), *self.then) if self.then else (self,)

    @property
    def ticks(self) -> int:
        """How long it lasts alone."""
        return self.latency + self.work + sum(phase.latency + phase.work for phase in self.then)

    def on(self, resources: Sequence[int]) -> "Activity":
        """The same on other resources: `resources[i]` in the place of i."""
        uses = tuple(Use(resources[use.resource], use.rate, use.flows) for use in self.uses)
        return Activity(self.latency, self.work, uses, tuple(phase.on(resources) for phase in self.then))


def chain(phases: Sequence[Activity]) -> Activity:
    """One activity of several, one after the other; of none, one that lasts no time."""
    flat = [phase for activity in phases for phase in activity.phases]
    return flat[0]._replace(then=tuple(flat[1:])) if flat else Activity(0, 0, ())


@dataclass(frozen=True, slots=True)
class Tape:
    """Operations 0 .. n-1, lane after lane.

    Shapes: `lane_start` (lanes + 1,); `duration`, `rendezvous`, `activity` (n,); `after_start` (n + 1,); `after` (m,).
    """

    lane_start: Ints
    """Lane i holds the operations lane_start[i] .. lane_start[i + 1] - 1 in the order of execution."""
    duration: Ints
    """Ticks that each operation lasts; ignored where an activity is named."""
    after_start: Ints
    """Row pointers of `after`."""
    after: Ints
    """Operations of other lanes that must have ended before this one starts."""
    rendezvous: Ints
    """Rendezvous by any number, -1 for none: members start together and end together, as late as the longest needs.

    Members that name different activities run one activity together that needs what all of them need.
    """
    activity: Ints
    """Index into `activities`, -1 for none."""
    activities: tuple[Activity, ...] = ()
    """Distinct activities; several operations may name one (each runs its own copy, a rendezvous runs one)."""
    capacity: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """Units per tick of each shared resource."""
    lane_names: tuple[str, ...] = ()
    """For messages; one a lane, or empty."""
    names: Sequence[str] = ()
    """For messages; one an operation, or empty. Read only for a message."""

    def __len__(self) -> int:
        return len(self.duration)

    def lane_of(self, operation: int) -> int:
        """The lane that an operation belongs to."""
        return int(np.searchsorted(self.lane_start, operation, side="right")) - 1

    def lane_name(self, lane: int) -> str:
        """What to call a lane in a message."""
        return self.lane_names[lane] if self.lane_names else f"lane {lane}"

    def name(self, operation: int) -> str:
        """What to call an operation in a message."""
        return self.names[operation] if self.names else f"operation {operation}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """When each operation ran; both arrays have the shape (n,) and count ticks."""

    start: Ints
    end: Ints
    events: int = 0
    """Events that the executor processed."""

    @property
    def makespan(self) -> int:
        """Ticks from 0 to the last end."""
        return int(self.end.max(initial=0))


def clock_overflow() -> InputError:
    """The error for a program that runs past NEVER."""
    return InputError(f"the program lasts longer than {NEVER // (86_400 * 10**12)} days, more than the clock counts")


def verify(tape: Tape) -> None:
    """Refuse a tape that no executor could read; ValueError says what is wrong with its columns."""
    for wrong, message in _complaints(tape):
        if wrong:
            raise ValueError(f"malformed tape: {message}")


def _complaints(tape: Tape) -> Iterator[tuple[bool, str]]:
    """Checks in the order in which they build on each other, each with its message."""
    n = len(tape)
    yield not _are_pointers(tape.lane_start, n), "`lane_start` does not rise from 0 to the number of operations"
    yield len(tape.rendezvous) != n or len(tape.activity) != n, "columns differ in length"
    yield len(tape.after_start) != n + 1, "`after_start` has not one entry more than there are operations"
    yield not _are_pointers(tape.after_start, len(tape.after)), "`after_start` does not rise from 0 to len(after)"
    yield bool(np.any((tape.after < 0) | (tape.after >= n))), "`after` names an operation that is not there"
    yield bool(np.any((tape.duration < 0) & (tape.activity < 0))), "a duration is negative"
    yield bool(np.any(tape.activity >= len(tape.activities))), "an operation names an activity that is not there"
    for number, activity in enumerate(tape.activities):
        yield any(phase.then for phase in activity.then), f"a later phase of activity {number} has phases of its own"
        for phase in activity.phases:
            yield phase.latency < 0 or phase.work < 0, f"activity {number} lasts less than no time"
            for resource, rate, _ in phase.uses:
                yield not 0 <= resource < len(tape.capacity), f"activity {number} uses a resource that is not there"
                most = tape.capacity[resource] * (1 + 1e-9)
                yield not 0 <= rate <= most, f"activity {number} asks for more than resource {resource} has"


def _are_pointers(starts: Ints, last: int) -> bool:
    """Whether row pointers rise from 0 to `last`."""
    return len(starts) > 0 and starts[0] == 0 and starts[-1] == last and not np.any(np.diff(starts) < 0)
