"""From what each rank runs to a schedule: makers that write orders out pass by pass share this."""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from simulator.errors import Problem
from simulator.program.actions import Kind
from simulator.program.schedule import Paths, Schedule
from simulator.program.timing import Ints
from simulator.training.schedules.base import ChunksError, Pipeline

F, B, I, W = (int(kind) for kind in (Kind.F, Kind.B, Kind.I, Kind.W))  # noqa: E741 - the field's names
"""Codes as plain numbers, which fill large columns faster than members of an enumeration."""

Pass = tuple[int, int, int]
"""Kind, stage and microbatch."""


def from_rows(rows: Sequence[Sequence[Pass]], slices: int = 1, paths: Paths = (), backward: bool = True) -> Schedule:
    """The schedule in which rank r runs `rows[r]` in order.

    Numbers count `slices` of each microbatch, which goes by its path if there are any; `backward` says whether it comes
    back.
    """
    count = sum(map(len, rows))
    flat = np.fromiter(_numbers(rows), np.int32, 3 * count).reshape(count, 3)
    edges = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
    return Schedule(
        flat[:, 0].astype(np.int8),
        flat[:, 1].copy(),
        flat[:, 2].copy(),
        edges,
        slices=slices,
        paths=paths,
        backward=backward,
    )


def loop_home(ranks: int, chunks: int) -> Ints:
    """Rank of each stage of a model that goes down the ranks again and again; shape (p v,)."""
    return np.tile(np.arange(ranks), chunks)


def wave_home(ranks: int, chunks: int) -> Ints:
    """Rank of each stage of a model that goes down the ranks and back up, in a V where chunks are two; shape (p v,)."""
    down = np.arange(ranks)
    return np.concatenate([down[::-1] if chunk % 2 else down for chunk in range(chunks)])


def two_chunks(pipeline: Pipeline, name: str) -> None:
    """InputError unless each rank holds the two chunks that a V has there."""
    if pipeline.chunks != 2:
        message = (
            f"schedule `{name}` runs two chunks a rank, stage s on rank min(s, 2 p - 1 - s), not {pipeline.chunks}"
        )
        raise ChunksError(Problem(message, hint="write `vpp: 2`"))


def _numbers(rows: Sequence[Sequence[Pass]]) -> Iterable[int]:
    return chain.from_iterable(chain.from_iterable(rows))
