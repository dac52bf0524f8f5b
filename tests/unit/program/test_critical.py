"""The critical path on tapes small enough to check by hand."""

import numpy as np
import pytest

from simulator.engine.executor import execute
from simulator.engine.tape import Activity, Tape, Timeline, Use
from simulator.fabric.sharing import max_min
from simulator.program.critical import critical_path
from simulator.program.maxplus import sweep
from tests.tapes import tape


def path(made: Tape) -> list[int]:
    return critical_path(made, sweep(made)).tolist()


def test_nothing() -> None:
    assert path(tape()) == []


def test_one_lane() -> None:
    assert path(tape([3, 4])) == [0, 1]


def test_across_lanes() -> None:
    assert path(tape([3, 4, 1], [5, 6], after={4: [1]})) == [0, 1, 4]


def test_the_last_of_several() -> None:
    assert path(tape([3], [9], [5], [1], after={3: [0, 1, 2]})) == [1, 3]


def test_the_lane_comes_first_in_a_tie() -> None:
    assert path(tape([5, 1], [5], after={1: [2]})) == [0, 1]


def test_of_a_rendezvous_the_last_member() -> None:
    assert path(tape([3, 4, 2], [7, 4], rendezvous=[[1, 4]])) == [3, 4, 2]


def test_contention_is_on_the_path() -> None:
    busy = Activity(0, 10, (Use(0, 1.0, 1.0),))
    made = tape([0, 1], [0], runs={0: 0, 2: 0}, activities=[busy], capacity=[1.0])
    assert critical_path(made, execute(made, max_min)).tolist() == [0, 1]


def test_another_tapes_timeline() -> None:
    made = tape([3, 4])
    with pytest.raises(ValueError, match="nothing ends at tick 5, when operation 1 starts"):
        critical_path(made, Timeline(np.array([0, 5]), np.array([3, 9])))
