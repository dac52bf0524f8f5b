"""Several chunks a rank that loop or go to and fro: breadth first, depth first, waves.

Breadth first runs a chunk of all microbatches before the next chunk, and backwards in reverse, which gathers sharded
parameters least often. Depth first is Megatron's interleaving. Hanayo's chunks go down the ranks and back up, two of
them a wave, so that turns cost no send.

Sources: breadth first and depth first, arXiv:2211.05953, in the order of PyTorch's ScheduleLoopedBFS; waves,
arXiv:2308.15762, whose order comes from the list scheduler here.
"""

from collections.abc import Iterator
from math import inf

import numpy as np

from simulator.errors import Problem
from simulator.program.schedule import Schedule
from simulator.program.timing import time_schedule
from simulator.training.schedules.base import SCHEDULES, ChunksError, Pipeline
from simulator.training.schedules.greedy import Rules, arrange
from simulator.training.schedules.one_forward import interleaved
from simulator.training.schedules.orders import B, F, Pass, from_rows, wave_home


@SCHEDULES.add("breadth-first")
def breadth_first(pipeline: Pipeline) -> Schedule:
    """Forward passes chunk by chunk; backward passes chunk by chunk from the last, microbatches from the last."""
    ranks, turns = pipeline.ranks, range(pipeline.microbatches)
    rows: list[list[Pass]] = []
    for rank in range(ranks):
        stages = range(rank, pipeline.stages, ranks)
        forward = [(F, stage, one) for stage in stages for one in turns]
        rows.append(forward + [(B, stage, one) for stage in reversed(stages) for one in reversed(turns)])
    return from_rows(rows)


@SCHEDULES.add("depth-first")
def depth_first(pipeline: Pipeline) -> Schedule:
    """Groups of p microbatches visit chunk after chunk: `interleaved-1f1b` by its other name."""
    return interleaved(pipeline)


@SCHEDULES.add("hanayo")
def hanayo(pipeline: Pipeline) -> Schedule:
    """Waves: every stage keeps p microbatches at most, or as many more as it takes to be idle no longer than `1f1b`;
    the microbatch that is farthest along goes first, or backward passes do and then those that have only begun, or
    those of later stages, whichever takes least time."""
    if pipeline.chunks % 2:
        message = f"schedule `hanayo` runs two chunks a rank and wave, and {pipeline.chunks} are no multiple of two"
        raise ChunksError(Problem(message, hint="write `vpp: 2` for one wave, `vpp: 4` for two"))
    ranks, most, stages, costs = pipeline.ranks, pipeline.microbatches, pipeline.stages, pipeline.known_costs
    home, enough = wave_home(ranks, pipeline.chunks), _in_line(pipeline)

    def farthest(kind: int, stage: int) -> int:
        return -stage if kind == F else stage - 2 * stages

    def nearest(kind: int, stage: int) -> int:
        return stage if kind == F else -1

    numbers = sorted({min(many, most) for many in (ranks, ranks + 1, -(-3 * ranks // 2), 2 * ranks, most)})

    def shortest(kept: int, best: float) -> Iterator[tuple[int, Schedule]]:
        """Orders that keep so many, each shorter than those before it and no longer than `best`."""
        for urgency in (farthest, nearest, None):
            rules = Rules(np.full(stages, kept), split=False, urgency=urgency, until=best)
            made = arrange(home, most, costs, rules)
            if made is not None and (lasts := time_schedule(made, costs).makespan) <= best:
                yield lasts, made
                best = lasts - 1

    for kept in numbers:
        if found := list(shortest(kept, enough)):
            return found[-1][1]
    best: tuple[float, Schedule | None] = (inf, None)
    for kept in reversed(numbers):  # long orders first, beside which others are soon given up
        best = [best, *shortest(kept, best[0])][-1]
    assert best[1] is not None  # caps alone never stop a rank
    return best[1]


def _in_line(pipeline: Pipeline) -> float:
    """Ticks of `1f1b` on the same ranks, of which each had its share of the chunks in a row."""
    costs = pipeline.known_costs
    once = float((costs.forward + costs.whole_backward).sum()) / pipeline.ranks
    return (pipeline.microbatches + pipeline.ranks - 1) * once + 2 * (pipeline.ranks - 1) * costs.send
