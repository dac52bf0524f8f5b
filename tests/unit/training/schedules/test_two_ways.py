"""Microbatches from both ends: sound, in and out as text, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from simulator.errors import DeadlockError, InputError
from simulator.program.actions import Action, parse
from simulator.program.csv_form import read_csv, write_csv
from simulator.program.passes import add_communication
from simulator.program.timing import Costs, time_schedule
from simulator.program.validate import validate
from simulator.training.schedules import Maker, Pipeline, chimera, dualpipe, dualpipev
from tests.orders import lines

SIZES = [(dualpipe, 2, 1, 4), (dualpipe, 6, 1, 14), (chimera, 4, 1, 12), (dualpipev, 3, 2, 7), (dualpipev, 1, 2, 2)]


@pytest.mark.parametrize(("maker", "ranks", "chunks", "microbatches"), SIZES)
def test_sound(maker: Maker, ranks: int, chunks: int, microbatches: int) -> None:
    schedule = validate(maker(Pipeline(ranks, chunks, microbatches)))
    assert (schedule.ranks, schedule.depth, schedule.microbatches) == (ranks, ranks * chunks, microbatches)


@pytest.mark.parametrize("communication", [False, True])
@pytest.mark.parametrize(("maker", "ranks", "chunks", "microbatches"), SIZES)
def test_csv_shows_the_stages_of_the_model(
    maker: Maker, ranks: int, chunks: int, microbatches: int, communication: bool, tmp_path: Path
) -> None:
    made = maker(Pipeline(ranks, chunks, microbatches))
    actions = made.actions()
    write_csv(add_communication(actions) if communication else actions, tmp_path / "s.csv")
    read = validate(read_csv(tmp_path / "s.csv"), "s.csv")
    assert lines(read.passes()) == lines(made)
    assert (read.copies, read.stages) == (made.copies, made.stages)
    costs = Costs.equal(made.stages, 2, 3, 1)
    assert time_schedule(read, costs).makespan == time_schedule(made, costs).makespan


def read(*rows: str) -> list[list[Action]]:
    return [[parse(cell) for cell in row.split(",")] for row in rows]


def test_passes_side_by_side_begin_and_end_together() -> None:
    """The gradient of microbatch 0 comes at tick 4, so that neither begins before; 0F1 is sent when both have ended."""
    made = validate(read("0F0,(0F1;0B0)OVERLAP_F_B,0B1", "1F0,1B0,1F1,1B1"))
    for pair, ends in ((None, 7), (2, 6)):
        timing = time_schedule(made, replace(Costs.equal(2), pair=pair))
        assert timing.start.tolist() == [0, 4, 4, ends + 3, 1, 2, ends, ends + 1]
        assert timing.end.tolist()[1:3] == [ends, ends]
        assert timing.work.tolist() == [6 if pair is None else 5, 6]


@pytest.mark.parametrize(
    ("maker", "sizes", "message"),
    [
        (dualpipe, (5, 1, 10), "`dualpipe` needs an even number of ranks .its two copies meet in the middle., not 5"),
        (dualpipe, (4, 1, 9), "`dualpipe` runs an even number of microbatches, 8 or more, not 9; write 10"),
        (dualpipe, (4, 1, 6), "`dualpipe` runs an even number of microbatches, 8 or more, not 6; write 8"),
        (dualpipe, (4, 2, 8), "`dualpipe` runs one chunk a rank and copy, not 2; write `vpp: 1`"),
        (dualpipev, (4, 2, 7), "`dualpipev` needs 8 microbatches or more, not 7"),
        (dualpipev, (4, 1, 8), "write `vpp: 2`"),
        (chimera, (3, 1, 6), "`chimera` needs an even number of ranks .its two copies meet in the middle., not 3"),
        (chimera, (4, 1, 6), "`chimera` runs units of 4 microbatches, and 6 are no multiple of it; write 8"),
    ],
)
def test_refusals(maker: Maker, sizes: tuple[int, int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        maker(Pipeline(*sizes))


def test_a_circle_of_passes_side_by_side_is_told() -> None:
    with pytest.raises(DeadlockError, match="rank 0: next is 0F0"):
        validate(read("(0F0;0B0)OVERLAP_F_B", "1F0,1B0"))
