"""Paths of microbatches: what is refused, and orders as CSV."""

from dataclasses import replace
from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.program.csv_form import read_csv, write_csv
from simulator.program.schedule import Paths, from_actions
from simulator.program.validate import validate
from simulator.training.schedules import Pipeline, skippipe
from tests.orders import lines


def test_two_paths() -> None:
    assert lines(skippipe(Pipeline(3, 1, 3, paths=((0, 2), (0, 1))))) == [
        "0F0 0F1 0F2 0B0 0B1 0B2",
        "1F1 1B1",
        "2F0 2B0 2F2 2B2",
    ]


def test_an_order_with_its_paths_comes_back_from_csv(tmp_path: Path) -> None:
    """Without the paths, passes that are skipped are missed."""
    paths = ((0, 2, 1), (0, 1))
    made = skippipe(Pipeline(3, 1, 6, paths=paths))
    write_csv(made.actions(), tmp_path / "order.csv")
    back = from_actions(read_csv(tmp_path / "order.csv"))
    assert lines(validate(replace(back, paths=paths))) == lines(made)
    with pytest.raises(InputError, match="lacks 2F1, 2F3, 2F5"):
        validate(back)
    with pytest.raises(InputError, match="2F0 is not on the path of its microbatch"):
        validate(replace(back, paths=((0, 1), (0, 1))))


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (((0, 0, 1, 2),), "path `0-0-1-2` is none through 3 stages"),
        (((0, 3),), "path `0-3` is none through 3 stages"),
        (((0, 1, 2), ()), "path `` is none through 3 stages"),
        (((0, 1),), "no microbatch goes through stage 2"),
    ],
)
def test_refused(paths: Paths, message: str) -> None:
    with pytest.raises(InputError, match=message):
        skippipe(Pipeline(3, 1, 4, paths=paths))
