"""Sequences cut in slices: the order of the authors' code, what is refused, and the rules of slices."""

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.program.actions import Kind
from simulator.program.csv_form import read_csv, write_csv
from simulator.program.schedule import from_actions
from simulator.program.timing import Costs, time_schedule
from simulator.program.validate import validate
from simulator.training.schedules import Pipeline, seq1f1b
from tests.orders import lines

TWO_SLICES = """
0F0 0F1 0F2 0F3 0F4 0B1 0F5 0B0 0F6 0B3 0F7 0B2 0B5 0B4 0B7 0B6
1F0 1F1 1F2 1F3 1B1 1F4 1B0 1F5 1B3 1F6 1B2 1F7 1B5 1B4 1B7 1B6
2F0 2F1 2F2 2B1 2F3 2B0 2F4 2B3 2F5 2B2 2F6 2B5 2F7 2B4 2B7 2B6
3F0 3F1 3B1 3F2 3B0 3F3 3B3 3F4 3B2 3F5 3B5 3F6 3B4 3F7 3B7 3B6
"""
"""Order of seq1f1b.py in sail-sg/zero-bubble-pipeline-parallelism at p = 4, m = 4; slices are numbered through."""


def test_order_of_the_authors() -> None:
    assert lines(seq1f1b(Pipeline(4, 1, 4, slices=2))) == TWO_SLICES.split("\n")[1:-1]


@pytest.mark.parametrize(("ranks", "microbatches", "slices"), [(1, 1, 2), (2, 1, 3), (4, 2, 4), (7, 3, 8)])
def test_sound_and_whole_as_csv(tmp_path: object, ranks: int, microbatches: int, slices: int) -> None:
    made = validate(seq1f1b(Pipeline(ranks, 1, microbatches, slices=slices)))
    assert (made.slices, made.microbatches, made.ranks) == (slices, slices * microbatches, ranks)
    assert made.only([Kind.F]).slices == slices
    path = f"{tmp_path}/order.csv"
    write_csv(made.actions(), path)
    back, costs = validate(read_csv(path)), Costs.equal(ranks, 3, 2, 1)
    assert time_schedule(back, costs).makespan == time_schedule(made, costs).makespan


def test_slices_out_of_order_are_refused() -> None:
    made = seq1f1b(Pipeline(2, 1, 2, slices=2))
    number = made.microbatch.copy()
    number[made.kind == Kind.F] ^= 1  # the second slice of each microbatch first
    with pytest.raises(InputError, match="rank 0: 0F0 follows 0F1, another slice"):
        validate(type(made)(made.kind, made.stage, number, made.rank_start, slices=2))
    assert np.all(from_actions(made.actions()).microbatch == made.microbatch)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (Pipeline(4, 2, 8), "runs one chunk a rank, not 2; write `vpp: 1`"),
        (Pipeline(4, 1, 8, slices=1), "cuts a microbatch, and 1 is no cut; write `1f1b`"),
    ],
)
def test_refused(sizes: Pipeline, message: str) -> None:
    with pytest.raises(InputError, match=message):
        seq1f1b(sizes)
