"""1F1B with the vocabulary cut over all ranks: each scores its part of a microbatch (S) and has gradients of it (T).

In a period the last rank runs F, B, T and S. Broadcasts and sums of ranks travel beside the passes between: the output
of F beside B and T, what S gives beside the next F; where gradients of the input wait for T, what T gives beside a
period more. Each sum puts the backward passes off by a period, for which another microbatch is kept. Other ranks run S
and T behind a B in the same period of time, and B as much later as the gradient takes to come up, so that the places
of S and T among F and B follow from the costs. Interlaced ranks do not look ahead: all meet in S and T, between which
each runs one F and one B, neighbours the other way round.

Source: arXiv:2411.05288, sections 4 and 5; for interlaced passes arXiv:2301.06813.
"""

import numpy as np
from numpy.typing import NDArray

from simulator.errors import Problem
from simulator.program.actions import Kind
from simulator.program.schedule import Schedule
from simulator.training.schedules.base import SCHEDULES, ChunksError, Pipeline

Floats = NDArray[np.float64]
_KINDS = (Kind.F, Kind.B, Kind.T, Kind.S)
"""In the order of passes that would begin at once."""
ROUNDING = 1e-7
"""Relative difference of times that is none."""


@SCHEDULES.add("vocab-1")
def vocab_1(pipeline: Pipeline) -> Schedule:
    """1F1B with the vocabulary over all ranks, sums after S and after T (algorithm 1): p + 2 microbatches are kept."""
    return _in_periods(pipeline, "vocab-1", 2)


@SCHEDULES.add("vocab-2")
def vocab_2(pipeline: Pipeline) -> Schedule:
    """1F1B with the vocabulary over all ranks, one sum after S, which has gradients of its input too (algorithm 2):
    p + 1 microbatches are kept."""
    return _in_periods(pipeline, "vocab-2", 1)


@SCHEDULES.add("interlaced")
def interlaced(pipeline: Pipeline) -> Schedule:
    """The vocabulary over all ranks as tensor parallelism does: all stop for S and T; 3 p / 2 microbatches are kept."""
    _one_chunk(pipeline, "interlaced")
    turn = np.arange(pipeline.microbatches)
    times = []
    for rank in range(pipeline.ranks):
        after = pipeline.ranks - 1 - rank
        forward, backward = 4 * (turn - after // 2), 4 * (turn + 1 + after)
        times.append(np.stack([forward + 1 - after % 2, backward + after % 2, 4 * turn + 3, 4 * turn + 2]))
    return _by_time(np.array(times, np.float64))


def _in_periods(pipeline: Pipeline, name: str, sums: int) -> Schedule:
    """Passes in the order of when they would begin if every microbatch followed the one before by a period."""
    _one_chunk(pipeline, name)
    ranks, costs = pipeline.ranks, pipeline.known_costs
    forward, backward, scores, gradients = (
        costs.table()[:, kind].astype(np.float64) for kind in (Kind.F, Kind.B, Kind.S, Kind.T)
    )
    period = float((forward + backward + scores + gradients).max()) * (1 + ROUNDING) + ROUNDING
    turn, times = np.arange(pipeline.microbatches), []
    ways = _ways_up(pipeline, forward[-1], backward, scores + gradients, period)
    for rank, (up, within) in enumerate(ways):
        ahead = ranks - 1 - rank
        back = (turn + sums) * period + up
        first = (turn - ahead) * period
        ready = np.concatenate([first[: ahead + sums], back])[: len(turn)]
        after = turn * period + forward[-1] + within + period * ROUNDING / 10  # behind a B that takes no time
        times.append(np.stack([ready, back, after + period, after + gradients[rank]]))
    return _by_time(np.array(times))


def _ways_up(
    pipeline: Pipeline, begin: float, backward: Floats, vocabulary: Floats, period: float
) -> list[tuple[float, float]]:
    """When B of each rank begins in the period of its microbatch's B on the last one, which begins it at `begin`: as
    soon as the gradient is there, or so much later that T and S behind it do not lie across the beginning of a period
    of broadcasts and sums; and when in that period it ends."""
    ways = [(begin, float(backward[-1]) % period)]
    for rank in reversed(range(pipeline.ranks - 1)):
        room = period - vocabulary[rank]
        barrier = min(pipeline.known_costs.barrier, room / 2)
        most = ways[-1][0] + 0.999 * period  # later than that, and it would run F behind the rank that takes its output
        up = min(ways[-1][0] + backward[rank + 1] + pipeline.known_costs.send, most)
        within = (up + backward[rank] - begin) % period
        late = barrier - within if within < barrier else 0.0
        if within > (room - barrier) * (1 + ROUNDING):
            late = period + barrier - within
        if up + late > most:
            late = 0.0
        ways.append((float(up + late), float(barrier if late else within)))
    return ways[::-1]


def _by_time(times: Floats) -> Schedule:
    """The schedule of one chunk a rank; `times` (ranks, kinds, microbatches) in the order of `_KINDS`."""
    ranks, kinds, many = times.shape
    order = np.argsort(times.reshape(ranks, -1), axis=1, kind="stable")
    kind = np.array(_KINDS, np.int8)[order // many]
    stage = np.repeat(np.arange(ranks, dtype=np.int32), kinds * many)
    edges = np.arange(ranks + 1, dtype=np.int64) * kinds * many
    return Schedule(kind.ravel(), stage, (order % many).astype(np.int32).ravel(), edges)


def _one_chunk(pipeline: Pipeline, name: str) -> None:
    """InputError where ranks have several chunks."""
    if pipeline.chunks != 1:
        message = f"schedule `{name}` runs one chunk a rank, not {pipeline.chunks}"
        raise ChunksError(Problem(message, hint="write `vpp: 1`"))
