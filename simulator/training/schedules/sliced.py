"""Sequences cut in slices: Seq1F1B, one slice forward and one backward in turn.

A slice of a microbatch needs the keys and values of those before it, so that slices go forward in order and backward in
reverse. Rank r runs p - r - 2 + k slices ahead where 1F1B runs p - r - 1 microbatches: the last one has to have all k
slices of a microbatch before it can begin the backward pass.

Source: arXiv:2406.03488; the order is that of seq1f1b.py in github.com/sail-sg/zero-bubble.
"""

import numpy as np

from simulator.errors import InputError, Problem
from simulator.program.schedule import Schedule
from simulator.training.schedules.base import SCHEDULES, ChunksError, Pipeline
from simulator.training.schedules.orders import B, F, Pass, from_rows

SLICES = 4
"""Slices of a microbatch where the pipeline says nothing."""


@SCHEDULES.add("seq1f1b")
def seq1f1b(pipeline: Pipeline) -> Schedule:
    """1F1B of slices of the sequence, four a microbatch by default; numbers are slices."""
    if pipeline.chunks != 1:
        message = f"schedule `seq1f1b` runs one chunk a rank, not {pipeline.chunks}"
        raise ChunksError(Problem(message, hint="write `vpp: 1`"))
    ranks, slices = pipeline.ranks, pipeline.slices or SLICES
    if slices < 2:
        raise InputError(Problem(f"schedule `seq1f1b` cuts a microbatch, and {slices} is no cut", hint="write `1f1b`"))
    backward = np.arange(pipeline.microbatches * slices).reshape(-1, slices)[:, ::-1].ravel().tolist()
    rows = [_row(rank, ranks - rank - 1 + slices, backward) for rank in range(ranks)]
    return from_rows(rows, slices)


def _row(rank: int, ahead: int, backward: list[int]) -> list[Pass]:
    """`ahead` forward passes, then a backward and a forward pass in turn, then what is left."""
    row: list[Pass] = [(F, rank, number) for number in range(min(ahead, len(backward)))]
    for turn, number in enumerate(backward, ahead):
        row.append((B, rank, number))
        if turn < len(backward):
            row.append((F, rank, turn))
    return row
