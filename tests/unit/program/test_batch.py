"""Many timings of a tape at once, against one sweep for each."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.tape import NEVER, Activity, Tape, Use
from simulator.errors import DeadlockError, InputError
from simulator.program.batch import makespans
from simulator.program.maxplus import sweep
from tests.effort import examples
from tests.tapes import tape, tapes


@examples(150)
@given(made=tapes(sound=True), seed=st.integers(0, 2**32))
def test_each_timing_is_a_sweep(made: Tape, seed: int) -> None:
    ticks = np.random.Generator(np.random.PCG64(seed)).integers(0, 50, (len(made), 4))
    expected = [sweep(replace(made, duration=column)).makespan for column in ticks.T]
    assert makespans(made, ticks).tolist() == expected


def test_nothing_to_do() -> None:
    assert makespans(tape(), np.zeros((0, 3), np.int64)).tolist() == [0, 0, 0]
    assert makespans(tape([], []), np.zeros((0, 2), np.int64)).tolist() == [0, 0]


def test_a_rendezvous_lasts_as_long_as_its_longest_member() -> None:
    made = tape([0, 0], [0, 0], rendezvous=[[1, 3]])
    assert makespans(made, np.array([[1, 5], [2, 0], [3, 1], [4, 1]])).tolist() == [7, 6]


def test_a_deadlock_names_the_lanes() -> None:
    made = tape([1, 1], [1], after={0: [2], 2: [1]})
    with pytest.raises(DeadlockError):
        makespans(made, np.ones((3, 2), np.int64))


def test_what_lasts_too_long_is_refused() -> None:
    with pytest.raises(InputError, match="longer than 53 days"):
        makespans(tape([1, 1]), np.full((2, 1), NEVER // 2 + 1))


def test_shared_resources_are_refused() -> None:
    made = tape([0], runs={0: 0}, activities=[Activity(0, 1, (Use(0, 1.0, 1.0),))], capacity=[1.0])
    with pytest.raises(ValueError, match="share resources"):
        makespans(made, np.ones((1, 1), np.int64))
