"""The search for the largest load, with made-up outcomes whose answer is known."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from simulator.study.plan.search import FARTHEST, exceptions, in_order, largest


@dataclass(frozen=True)
class Tried:
    """One load."""

    rate: float
    meets: bool


class Planted:
    """Meets wherever it is told to, and counts how often it is asked."""

    def __init__(self, meets: Callable[[float], bool]) -> None:
        self.meets, self.rates = meets, list[float]()

    def __call__(self, rate: float) -> Tried:
        self.rates.append(rate)
        return Tried(rate, self.meets(rate))


@pytest.mark.parametrize("start", [0.001, 0.9, 1.0, 3.7, 5000.0])
@pytest.mark.parametrize("tolerance", [0.2, 0.01, 0.0001])
def test_a_planted_threshold_is_found(start: float, tolerance: float) -> None:
    planted = Planted(lambda rate: rate <= 2.5)
    found = largest(planted, start, tolerance)
    assert found.best is not None
    assert found.miss is not None
    assert found.best.rate <= 2.5 < found.miss.rate <= found.best.rate * (1 + tolerance)
    assert len(planted.rates) == len(set(planted.rates))
    assert found.tried == in_order(Tried(rate, rate <= 2.5) for rate in planted.rates)


def test_few_loads_are_tried() -> None:
    """Doubling from 1 to 4, then halving the logarithm of 2 until 1 % is left: 7 times."""
    planted = Planted(lambda rate: rate <= 2.5)
    largest(planted, 1.0, 0.01)
    assert len(planted.rates) == 3 + 7


def test_the_threshold_itself_may_be_the_start() -> None:
    found = largest(Planted(lambda rate: rate <= 2.0), 2.0, 0.01)
    assert found.best == Tried(2.0, True)


def test_where_nothing_can_meet_one_load_is_tried() -> None:
    planted = Planted(lambda rate: False)
    found = largest(planted, 8.0, 0.01, reachable=lambda: False)
    assert (found.best, found.miss) == (None, Tried(8.0, False))
    assert planted.rates == [8.0]


def test_the_way_down_ends() -> None:
    planted = Planted(lambda rate: False)
    assert largest(planted, 8.0, 0.01).best is None
    assert len(planted.rates) == 1 + FARTHEST


def test_the_way_up_ends_where_more_load_is_the_same_run() -> None:
    planted = Planted(lambda rate: True)
    found = largest(planted, 1.0, 0.01, exhausted=lambda tried: tried.rate > 30)
    assert (found.best, found.miss) == (Tried(32.0, True), None)
    assert len(planted.rates) == 6


def test_what_breaks_the_order_is_told() -> None:
    """Met up to 2.5, and again from 3.9 to 4.1; missed once below."""
    planted = Planted(lambda rate: (rate <= 2.5 and not 0.4 < rate < 0.6) or 3.9 < rate < 4.1)
    found = largest(planted, 1.0, 0.01)
    assert found.best is not None
    assert found.best.rate == pytest.approx(4.1, rel=0.01)  # the doubling passed over the first miss
    below, above = Tried(0.5, False), Tried(9.0, True)
    odd = exceptions((*found.tried, above, below, Tried(3.0, False)), found.best, found.miss)
    assert odd == (below, Tried(3.0, False), above)
    assert exceptions(found.tried, found.best, found.miss) == ()
    assert exceptions((Tried(99.0, True),), Tried(1.0, True), None) == ()
