"""The exhaustive search of small pipelines."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from simulator.program.timing import Costs, time_schedule
from simulator.program.validate import validate
from simulator.training.schedules import Pipeline, auto
from simulator.training.schedules.exhaustive import is_small, shortest
from tests.orders import lines


def test_the_shortest_of_two_stages() -> None:
    made = shortest(Pipeline(2, 1, 2), inf, inf)
    assert made is not None
    assert time_schedule(validate(made), Costs.equal(2)).makespan == 7


def test_room_is_made_before_others_are_served() -> None:
    """Stages of 3, 2 and 1 layers, of which the first keeps two microbatches: its W comes before its next I."""
    layers = np.array([3, 2, 1], np.int64)
    costs = Costs(layers, layers, layers, layers.astype(np.float64), layers.astype(np.float64))
    made = shortest(Pipeline(3, 1, 3, costs=costs), inf, 6)
    assert made is not None
    assert lines(made)[0] == "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2"
    assert time_schedule(made, costs).makespan == 30


@pytest.mark.parametrize("send", [0, 1, 3])
def test_sends_take_their_time(send: int) -> None:
    """One microbatch goes all the way and back: F and I of three stages, four sends, one W."""
    costs = replace(Costs.equal(3, 2, 2, 2), send=send)
    made = shortest(Pipeline(3, 1, 1, costs=costs), inf, inf)
    assert made is not None
    assert time_schedule(made, costs).makespan == 14 + 4 * send


def test_nothing_is_shorter_than_the_shortest() -> None:
    pipeline = Pipeline(3, 1, 4)
    least = time_schedule(auto(pipeline), Costs.equal(3)).makespan
    assert shortest(pipeline, least, inf) is None
    assert shortest(pipeline, least + 1, inf) is not None


def test_no_room_no_order() -> None:
    assert shortest(Pipeline(2, 1, 2), inf, 0.5) is None


def test_a_search_that_grows_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.training.schedules.exhaustive.MOST_STATES", 5)
    assert shortest(Pipeline(3, 1, 4), inf, inf) is None


def test_what_is_small() -> None:
    assert is_small(Pipeline(3, 1, 4))
    assert not is_small(Pipeline(4, 1, 4))
    assert not is_small(Pipeline(3, 1, 5))
    assert not is_small(Pipeline(3, 2, 4))
    assert not is_small(Pipeline(3, 1, 4, costs=Costs.equal(3, 1, 1, 0)))
    assert not is_small(Pipeline(3, 1, 4, barrier=False))
    assert not is_small(Pipeline(3, 1, 4, split=False))
