"""The ceiling of ranks where single runs were held up."""

import pytest

from benchmarks.held_up import ceiling, lines
from simulator.interop.rows.training import Row
from simulator.study.validate.training import Outcome
from tests.unit.interop.rows.test_unread import ROW


def run(number: int, tp: int, measured: float, simulated: float) -> Outcome:
    row = Row.model_validate(ROW | {"id": f"run-{number}", "source": "vtrain-multi", "tp": tp})
    return Outcome(row.id, row, measured_s=measured, predicted_s=simulated)


RUNS = [run(0, 8, 10, 11), run(1, 8, 12, 13.2), run(2, 8, 14, 15.4), run(3, 4, 11, 12.1), run(4, 4, 20, 14.85)]
"""All 10 % too slow but the last, which takes 13.5 on the level of the others and took 20."""


def test_a_run_that_took_longer_than_the_others_have_it_was_held_up() -> None:
    """In its place it would be the fourth of five: two places are exchanged, 1 - 6 x 2 / (5 x 24)."""
    found = ceiling(RUNS, 0.1, (2, 4))
    assert found.held == 1
    assert found.level == pytest.approx(0.9)
    assert found.ours == pytest.approx(1.0)  # as they are it is the slowest, as it was


def test_without_runs_held_up_all_is_right() -> None:
    assert ceiling(RUNS[:4], 0.06) == (pytest.approx(1.0), pytest.approx(1.0), 0)
    assert ceiling(RUNS, 0.5) == (pytest.approx(1.0), pytest.approx(1.0), 0)


def test_only_runs_of_so_many_cards_count() -> None:
    assert ceiling(RUNS, 0.1, (2,)).held == 0
    assert ceiling(RUNS, 0.1).held == 1


def test_the_page_says_what_is_reached_and_what_can_be() -> None:
    text = "\n".join(lines(RUNS))
    assert "Ours is 0.90." in text
    assert "| 6 % | 1 | 0.90 | 1.00 | 1 | 0.90 | 1.00 |" in text
    assert lines(RUNS, "another") == []
    assert lines([run(0, 4, 1, 1), run(1, 4, 2, 2)]) == []  # none with all cards of a node
