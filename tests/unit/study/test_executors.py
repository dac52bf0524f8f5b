"""Work on many items, in this process and in several."""

import os

import pytest

from simulator.study.executors import cores, each


def square(number: int) -> tuple[int, int]:
    """A number's square, and who worked it out."""
    return number * number, os.getpid()


@pytest.mark.parametrize(("jobs", "items", "here"), [(1, 5, True), (2, 5, False), (8, 1, True), (8, 0, True)])
def test_results_come_in_order_and_are_counted(jobs: int, items: int, here: bool) -> None:
    """One item, or one process, needs no worker."""
    told: list[int] = []
    found = list(each(square, range(items), jobs, told.append))
    assert [value for value, _ in found] == [number * number for number in range(items)]
    assert told == list(range(1, items + 1))
    assert all((worker == os.getpid()) == here for _, worker in found)


def test_there_is_at_least_one_core() -> None:
    assert cores() >= 1
