"""Zero bubble with one copy of the model: backward passes in two, of which W waits until nothing else can run.

ZB-H1 delays the W of rank r by r backward passes, so that all ranks keep as much as the first does under 1F1B. ZB-H2
runs forward passes further ahead, 2 (p - r) - 1 of them, and delays W by 2 r. With several chunks a rank ZB-H1 is the
interleaved order with delayed W, PyTorch's InterleavedZeroBubble.

Source: arXiv:2401.10241, sections 2 and 3.
"""

from simulator.errors import InputError, Problem
from simulator.program.schedule import Schedule
from simulator.training.schedules.base import SCHEDULES, Pipeline
from simulator.training.schedules.one_forward import forward_order
from simulator.training.schedules.orders import F, I, Pass, W, from_rows


@SCHEDULES.add("zb-h1")
def zb_h1(pipeline: Pipeline) -> Schedule:
    """Rank r has p - r forward passes ahead (and all earlier chunks of a group) and W r passes late."""
    ranks, chunks = pipeline.ranks, pipeline.chunks
    before = (chunks - 1) * ranks
    return from_rows([_row(pipeline, "zb-h1", rank, before + ranks - rank, rank) for rank in range(ranks)])


@SCHEDULES.add("zb-h2")
def zb_h2(pipeline: Pipeline) -> Schedule:
    """Rank r has 2 (p - r) - 1 forward passes ahead and W 2 r passes late."""
    if pipeline.chunks != 1:
        message = f"schedule `zb-h2` runs one chunk a rank, not {pipeline.chunks}"
        raise InputError(Problem(message, hint="write `zb-h1`, `zb-v` or `vpp: 1`"))
    ranks = pipeline.ranks
    return from_rows([_row(pipeline, "zb-h2", rank, 2 * (ranks - rank) - 1, 2 * rank) for rank in range(ranks)])


def _row(pipeline: Pipeline, name: str, rank: int, ahead: int, late: int) -> list[Pass]:
    """`ahead` forward passes, then I, a late W and a forward pass in turn, then what is left."""
    chunk, microbatch = forward_order(pipeline, name)
    forward = list(zip((chunk * pipeline.ranks + rank).tolist(), microbatch.tolist(), strict=True))
    last = pipeline.chunks - 1
    backward = list(zip(((last - chunk) * pipeline.ranks + rank).tolist(), microbatch.tolist(), strict=True))
    row: list[Pass] = [(F, *one) for one in forward[:ahead]]
    for turn, one in enumerate(backward):
        row.append((I, *one))
        if turn >= late:
            row.append((W, *backward[turn - late]))
        row += [(F, *next_one) for next_one in forward[ahead + turn : ahead + turn + 1]]
    return row + [(W, *one) for one in backward[max(len(backward) - late, 0) :]]
