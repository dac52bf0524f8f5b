"""Several chunks a rank that loop or go to and fro: breadth first, depth first, waves.

Breadth first runs a chunk of all microbatches before the next chunk, and backwards in reverse, which gathers sharded
parameters least often. Depth first is Megatron's interleaving. Hanayo's chunks go down the ranks and back up, two of
them a wave, so that turns cost no send.

Sources: breadth first and depth first, arXiv:2211.05953, in the order of PyTorch's ScheduleLoopedBFS; waves,
arXiv:2308.15762, whose order comes from the list scheduler here.
"""

import numpy as np

from simulator.errors import InputError, Problem
from simulator.program.schedule import Schedule
from simulator.program.timing import time_schedule
from simulator.training.schedules.base import SCHEDULES, Pipeline
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
    """Waves: every stage keeps at most p microbatches; whoever is farthest along goes first, or backward passes do and
    then those that have only begun, whichever takes less time."""
    if pipeline.chunks % 2:
        message = f"schedule `hanayo` runs two chunks a rank and wave, and {pipeline.chunks} are no multiple of two"
        raise InputError(Problem(message, hint="write `vpp: 2` for one wave, `vpp: 4` for two"))
    home, stages = wave_home(pipeline.ranks, pipeline.chunks), pipeline.stages
    caps, costs = np.full(stages, pipeline.ranks), pipeline.known_costs

    def farthest(kind: int, stage: int) -> int:
        return -stage if kind == F else stage - 2 * stages

    def nearest(kind: int, stage: int) -> int:
        return stage if kind == F else -1

    tried = [Rules(caps, split=False, urgency=urgency) for urgency in (farthest, nearest)]
    made = [arrange(home, pipeline.microbatches, costs, rules) for rules in tried]
    return min(filter(None, made), key=lambda one: time_schedule(one, costs).makespan)
