"""Marks of axes: round numbers of one unit at their places."""

from itertools import pairwise

import pytest

from simulator.report.text.scales import MOST, Mark, around, marks, words


@pytest.mark.parametrize(
    ("low", "high", "dimension", "texts"),
    [
        (0, 105.8, "time", "0 s, 20 s, 40 s, 60 s, 80 s, 100 s"),
        (0, 180, "time", "0.0 min, 0.5 min, 1.0 min, 1.5 min, 2.0 min, 2.5 min, 3.0 min"),
        (0, 7000, "time", "0 min, 30 min, 60 min, 90 min"),
        (0, 87e9, "bytes", "0 GB, 20 GB, 40 GB, 60 GB, 80 GB"),
        (0.31, 0.547, "fraction", "35 %, 40 %, 45 %, 50 %"),
        (1.2e9, 2.5e9, "bytes", "1.25 GB, 1.50 GB, 1.75 GB, 2.00 GB, 2.25 GB, 2.50 GB"),
        (104.123, 104.125, "time", "104.1230 s, 104.1235 s, 104.1240 s, 104.1245 s, 104.1250 s"),
        (0, 4000, "", "0, 1,000, 2,000, 3,000, 4,000"),
        (0, 0, "time", "0 s"),
    ],
)
def test_marks_are_round_and_of_one_unit(low: float, high: float, dimension: str, texts: str) -> None:
    assert ", ".join(mark.text for mark in marks(low, high, dimension)) == texts


@pytest.mark.parametrize("end", [0.0017, 0.33, 1.0, 2.35, 9.99, 61.0, 119.0, 121.0, 7300.0, 3e5, 4e7])
def test_marks_stand_where_they_say_and_reach_near_the_end(end: float) -> None:
    found = marks(0.0, end, "time")
    assert found[0].share == 0 and 2 <= len(found) <= MOST + 1
    assert found[-1].share > 1 - 1 / (len(found) - 1)
    gaps = {round(b.share - a.share, 9) for a, b in pairwise(found)}
    assert len(gaps) == 1


def test_a_unit_that_is_no_dimension_and_metrics_in_milliseconds() -> None:
    assert [mark.text for mark in marks(0, 6.3, word="/s")] == ["0/s", "2/s", "4/s", "6/s"]
    assert [mark.text for mark in marks(0, 2000, "time", scale=1e-3)][-1] == "2.0 s"


def test_axes_around_values_begin_at_zero_only_where_it_is_near() -> None:
    assert around([0.31, 0.52]) == pytest.approx((0.3016, 0.5284))
    assert around([1.0, 10.0])[0] == 0.0
    low, high = around([5.0, 5.0])
    assert low < 5.0 < high
    low, high = around([0.0, 0.0])
    assert low < 0.0 < high


def test_words_stand_evenly() -> None:
    assert words("a", "b", "c") == [Mark(0.0, "a"), Mark(0.5, "b"), Mark(1.0, "c")]


def test_the_step_is_that_of_the_length_of_an_axis() -> None:
    """Six steps of 1 from 100 to 106, as many as there may be."""
    assert [mark.text for mark in marks(100, 106)] == ["100", "101", "102", "103", "104", "105", "106"]
    assert marks(5, 5) == [Mark(0.0, "5")]


def test_an_axis_around_a_single_value() -> None:
    """From 0 to twice a positive one, 1 to both sides of others, and 4 % of that more."""
    assert around([5.0]) == pytest.approx((0.0, 10.4))
    assert around([0.0]) == pytest.approx((-1.08, 1.08))
    assert around([-5.0]) == pytest.approx((-6.08, -3.92))
