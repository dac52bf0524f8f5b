"""How rows are shared out among processes."""

import json

import pytest

from simulator.interop.rows.jsonl import Line
from simulator.study.validate import published
from simulator.study.validate.shares import MOST, shares


def line(number: int, **row: object) -> Line:
    """A line with these keys."""
    return Line("rows.jsonl", number, json.dumps({"id": f"r{number}", **row}))


def test_rows_of_a_system_are_together_and_the_longest_are_first() -> None:
    rows = [
        line(1, model="a", concurrency=4),
        line(2, model="b", concurrency=4000),
        line(3, model="a", concurrency=8),
        Line("rows.jsonl", 4, "not a row"),
        line(5, model="b", concurrency=1, parallelism={"tp": 8}),
    ]
    assert shares(rows) == [[1], [0, 2], [4], [3]]


def test_no_share_is_too_large_and_none_is_left_out() -> None:
    rows = [line(number, model="a", concurrency=number) for number in range(1, 2 * MOST + 5)]
    parts = shares(rows)
    assert max(map(len, parts)) == MOST
    assert sorted(place for part in parts for place in part) == list(range(len(rows)))


@pytest.mark.parametrize("jobs", [1, 2])
def test_outcomes_come_in_the_order_of_the_lines(jobs: int) -> None:
    rows = [line(number, model="ab"[number % 2], concurrency=number) for number in range(6)]
    outcomes = published.KINDS["serving"].validate(rows, jobs)
    assert [outcome.id for outcome in outcomes] == [f"r{number}" for number in range(6)]
