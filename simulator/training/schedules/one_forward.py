"""Forward passes ahead, then one forward and one backward in turn: GPipe, 1F1B, interleaved 1F1B.

Chunk c of rank r is stage c p + r, as in Megatron-LM.

Sources: GPipe, arXiv:1811.06965; 1F1B, PipeDream-flush, arXiv:2006.09503; interleaving, arXiv:2104.04473 section
2.2 and Megatron-LM, megatron/core/pipeline_parallel/schedules.py.
"""

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem
from simulator.program.actions import Kind
from simulator.program.schedule import Schedule
from simulator.training.schedules.base import SCHEDULES, ChunksError, Pipeline

Ints = NDArray[np.int64]
SIZES_ONLY = frozenset(("gpipe", "1f1b", "interleaved-1f1b", "seq1f1b"))
"""Names of schedules that are the same whatever passes cost."""


@SCHEDULES.add("gpipe")
def gpipe(pipeline: Pipeline) -> Schedule:
    """All forward passes, then all backward passes; with several chunks, chunk after chunk (breadth first)."""
    ranks, microbatches = pipeline.ranks, pipeline.microbatches
    total = pipeline.chunks * microbatches
    place = np.arange(total) // microbatches, np.arange(total) % microbatches
    return _one_forward_one_backward(ranks, pipeline.chunks, np.full(ranks, total), *place)


@SCHEDULES.add("1f1b")
def one_f_one_b(pipeline: Pipeline) -> Schedule:
    """Rank r runs p - r - 1 forward passes, then one forward and one backward in turn: at most p - r in flight."""
    ranks, microbatches = pipeline.ranks, pipeline.microbatches
    if pipeline.chunks != 1:
        message = f"schedule `1f1b` runs one chunk a rank, not {pipeline.chunks}"
        raise ChunksError(Problem(message, hint="write `interleaved-1f1b` or `vpp: 1`"))
    ahead = ranks - 1 - np.arange(ranks)
    return _one_forward_one_backward(ranks, 1, ahead, np.zeros(microbatches, np.int64), np.arange(microbatches))


@SCHEDULES.add("interleaved-1f1b")
def interleaved(pipeline: Pipeline) -> Schedule:
    """Megatron's interleaved 1F1B: groups of p microbatches visit chunk after chunk.

    Rank r runs 2 (p - r - 1) + (v - 1) p forward passes ahead. With one chunk it is plain 1F1B.
    """
    ranks, chunks = pipeline.ranks, pipeline.chunks
    if chunks == 1:
        return one_f_one_b(pipeline)
    ahead = 2 * (ranks - 1 - np.arange(ranks)) + (chunks - 1) * ranks
    return _one_forward_one_backward(ranks, chunks, ahead, *forward_order(pipeline, "interleaved-1f1b"))


def forward_order(pipeline: Pipeline, name: str) -> tuple[Ints, Ints]:
    """Chunk and microbatch of the forward passes of a rank, in order: groups of p microbatches visit chunk after chunk.

    InputError where microbatches do not make whole groups; `name` is the schedule's. With one chunk any number will do.
    """
    ranks, chunks, microbatches = pipeline.ranks, pipeline.chunks, pipeline.microbatches
    if chunks == 1:
        return np.zeros(microbatches, np.int64), np.arange(microbatches)
    if microbatches % ranks:
        raise InputError(_not_a_multiple(name, ranks, microbatches))
    turn = np.arange(chunks * microbatches)
    group, within = np.divmod(turn, ranks * chunks)
    return within // ranks, group * ranks + turn % ranks


def _not_a_multiple(name: str, ranks: int, microbatches: int) -> Problem:
    """Why interleaving refuses a number of microbatches, and which one is near."""
    below = microbatches // ranks * ranks
    near = below if below and microbatches - below <= below + ranks - microbatches else below + ranks
    return Problem(
        f"schedule `{name}` moves microbatches in groups of {ranks} (the pipeline ranks), "
        f"and {microbatches} microbatches are no multiple of it",
        hint=f"the nearest number is {near}",
    )


def _one_forward_one_backward(ranks: int, chunks: int, ahead: Ints, chunk: Ints, microbatch: Ints) -> Schedule:
    """Forward passes ahead, then a forward and a backward in turn, then the backward passes that are left.

    `ahead` (ranks,) counts the first; `chunk` and `microbatch` (t,) give the order of the forward passes of a rank.
    Backward passes follow the same order with the chunks reversed.
    """
    total = len(chunk)
    turn = np.arange(total)[None, :]
    rank = np.arange(ranks)[:, None]
    first = np.minimum(ahead, total)[:, None]
    forward = np.where(turn < first, turn, 2 * turn - first)
    backward = np.where(turn < total - first, first + 2 * turn + 1, total + turn)
    kind = np.empty((ranks, 2 * total), np.int8)
    stage = np.empty((ranks, 2 * total), np.int32)
    number = np.empty((ranks, 2 * total), np.int32)
    kind[rank, forward], kind[rank, backward] = Kind.F, Kind.B
    stage[rank, forward] = chunk * ranks + rank
    stage[rank, backward] = (chunks - 1 - chunk) * ranks + rank
    number[rank, forward] = number[rank, backward] = microbatch
    return Schedule(kind.ravel(), stage.ravel(), number.ravel(), np.arange(ranks + 1) * 2 * total)
