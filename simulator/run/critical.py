"""The critical path of a step: what the operations that nothing but their predecessor delayed consist of.

Operations on the path follow each other without a gap from the start of the step to its end, so that their parts add up
to the step time. A send or collective on it is exposed by definition: the step waited for it, whatever ran beside it
elsewhere. Where several paths are critical one is named; the choice is the same in every run.
"""

from itertools import chain

import numpy as np

from simulator import units
from simulator.engine.tape import Timeline
from simulator.program.critical import critical_path
from simulator.results.result import CriticalPath
from simulator.run.parts import PARTS, busy
from simulator.run.reasons import Reasons
from simulator.training.chains import ChainClasses
from simulator.training.job import Job
from simulator.training.passes.program import Program


def summary(
    program: Program, timeline: Timeline, classes: ChainClasses, job: Job, links: tuple[str, ...]
) -> CriticalPath:
    """The critical path by part of the step, by device class (chain x pp + rank), by operation, link and roof.

    `links` names the kinds of link. Only parts that are on the path are named. Whatever of the step time no operation
    of the path explains would be called `wait`; `program.critical` leaves nothing of it.
    """
    path = critical_path(program.tape, timeline)
    device = program.device(path)
    ticks: list[dict[str, int]] = [{} for _ in range(len(classes.costs) * job.pp)]
    for index in np.flatnonzero(np.bincount(device)).tolist():
        ticks[index] = busy(program, timeline, path[device == index])
    total = {part: sum(one.get(part, 0) for one in ticks) for part in dict.fromkeys([*PARTS, *chain(*ticks)])}
    total["wait"] = timeline.makespan - sum(total.values())
    reasons = Reasons(program, timeline, classes, links)
    reasons.explain(path)
    return CriticalPath(
        _seconds(total),
        tuple(_seconds(one) for one in ticks),
        path.astype(np.int64),
        by_operation=_ordered(reasons.operations),
        by_link=_ordered(reasons.links),
        by_roof=_ordered(reasons.roofs),
    )


def _seconds(ticks: dict[str, int]) -> dict[str, float]:
    """The parts that are there, in seconds."""
    return {part: units.to_seconds(value) for part, value in ticks.items() if value}


def _ordered(ticks: dict[str, float]) -> dict[str, float]:
    """Seconds of what is there, the longest first."""
    named = sorted(ticks.items(), key=lambda item: (-item[1], item[0]))
    return {name: value / units.TICKS_PER_SECOND for name, value in named if value > 0}
