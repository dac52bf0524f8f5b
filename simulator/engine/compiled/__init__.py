"""Tapes alone on a clock in one compiled function over arrays, which gives the same answers."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from simulator.machine_code import is_kept

if TYPE_CHECKING:
    from simulator.engine.clock import Progress
    from simulator.engine.load import Load
    from simulator.engine.score import Score
    from simulator.engine.speeds import Solver
    from simulator.engine.tape import Timeline

LEAST = 50_000
"""Operations that run activities or meet from which compiled code is loaded, and made where there is none yet."""
LEAST_KEPT = 10_000
"""The same where it is there: to load it takes as long as to run so many on the clock."""
LEAST_LOADED = 1_000
"""The same where an earlier tape has loaded it: below, a tape takes longer to lay out than to run."""
MOST_NODES = 1 << 25
"""Lanes times resources that an activity uses above which a tape is left to the clock."""


def large(score: "Score") -> bool:
    """Whether a tape is worth loading the code."""
    if not is_worth(score.duration.count(-1)):
        return False
    most = max((len(phase.uses) for own in score.rendezvous.activities for phase in own.phases), default=0)
    return most * len(score.tape.lane_start) <= MOST_NODES


def is_worth(operations: int) -> bool:
    """Whether so many operations that run activities or meet take longer on the clock than to load the code, if any."""
    if operations >= LEAST or operations < LEAST_LOADED:
        return operations >= LEAST
    from simulator.engine.compiled import machine

    if machine.compiled.cache_info().currsize:
        return True
    return operations >= LEAST_KEPT and is_kept(machine.__file__)


def played(score: "Score", solver: "Solver | None", progress: "Progress | None") -> "Timeline | None":
    """The timeline of a tape; None where it is left to the clock: without numba, or to say why lanes wait for ever.
    OverflowError past the last tick of the clock."""
    from simulator.engine.compiled import machine, takeover

    advance = machine.compiled()
    return None if advance is None else takeover.run(score, solver, progress, advance)


def recorded(
    score: "Score",
    solver: "Solver",
    progress: "Progress | None",
    resources: Collection[int],
    names: Sequence[str],
    most: int,
) -> "tuple[Timeline, Load] | None":
    """The same with the record of what some resources carried."""
    from simulator.engine.compiled import machine, takeover

    advance = machine.compiled()
    if advance is None:
        return None
    recording = takeover.Recording(score.tape.capacity.tolist(), resources, most, names)
    timeline = takeover.run(score, solver, progress, advance, recording)
    return None if timeline is None else (timeline, recording.load)
