"""The critical path of a step: what the operations that nothing but their predecessor delayed consist of.

Operations on the path follow each other without a gap from the start of the step to its end, so that their parts add up
to the step time. A send or collective on it is exposed by definition: the step waited for it, whatever ran beside it
elsewhere. Where several paths are critical one is named; the choice is the same in every run.
"""

import numpy as np

from simulator import units
from simulator.engine.tape import Timeline
from simulator.program.critical import critical_path
from simulator.results.result import CriticalPath
from simulator.run.parts import PARTS, busy
from simulator.training.lowering import LANES, Prices, Program


def summary(program: Program, timeline: Timeline, prices: tuple[Prices, ...], pp: int) -> CriticalPath:
    """The critical path by part of the step and by device class (chain x `pp` + rank).

    `prices` has one list a chain. Only parts that are on the path are named. Whatever of the step time no operation of
    the path explains would be called `wait`; `program.critical` leaves nothing of it.
    """
    path = critical_path(program.tape, timeline)
    device = program.columns.lane[path] // len(LANES)
    ticks: list[dict[str, int]] = [{} for _ in range(len(prices) * pp)]
    for index in np.unique(device).tolist():
        ticks[index] = busy(program.columns, timeline, prices[index // pp], path[device == index])
    total = {part: sum(one.get(part, 0) for one in ticks) for part in PARTS}
    total["wait"] = timeline.makespan - sum(total.values())
    return CriticalPath(_seconds(total), tuple(_seconds(one) for one in ticks), path.astype(np.int64))


def _seconds(ticks: dict[str, int]) -> dict[str, float]:
    """The parts that are there, in seconds."""
    return {part: units.to_seconds(value) for part, value in ticks.items() if value}
