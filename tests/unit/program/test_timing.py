"""When passes run and what they keep, worked out by hand."""

import numpy as np
import pytest

from simulator.program.actions import Kind, parse
from simulator.program.schedule import from_actions
from simulator.program.timing import Costs, least_makespan, time_schedule
from simulator.training.schedules import Pipeline, one_f_one_b


def test_one_forward_one_backward_by_hand() -> None:
    """F 2, B 3 + 1, sends of 1: two ranks, two microbatches."""
    two, kept = np.full(2, 2, np.int64), np.ones(2)
    timing = time_schedule(one_f_one_b(Pipeline(2, 1, 2)), Costs(two, two + 1, two - 1, kept, kept, send=1))
    assert timing.start.tolist() == [0, 2, 10, 16, 3, 5, 9, 11]
    assert timing.makespan == 20
    assert timing.work.tolist() == [12, 12]
    assert timing.own_idle.tolist() == [8, 0]
    assert timing.peak.tolist() == [2, 1]
    assert timing.bubble == pytest.approx(8 / 20)


def test_what_weights_need_is_kept_until_their_gradients() -> None:
    made = from_actions([[parse(word) for word in ["0F0", "0F1", "0I0", "0I1", "0W0", "0W1"]]])
    one = np.ones(1, np.int64)
    costs = Costs(one, one, one, np.array([1.0]), np.array([0.25]))
    assert time_schedule(made, costs).peak.tolist() == [2.0]
    assert costs.released()[0, [Kind.F, Kind.I, Kind.W, Kind.B]].tolist() == [1.0, -0.75, -0.25, -1.0]


def test_least_makespan() -> None:
    """The last of four ranks starts after three F; a single microbatch goes there and back."""
    home = np.arange(4)
    assert least_makespan(Costs.equal(4), home, 8) == 3 + 8 * 3
    assert least_makespan(Costs.equal(4), home, 1) == 4 + 4 + 1


def test_least_makespan_of_two_copies_takes_the_costs_of_one() -> None:
    """Of eight microbatches a rank has four of each copy: its own stage and the mirrored one, as much as of eight."""
    home = np.array([0, 1, 2, 3, 3, 2, 1, 0])
    once, twice = (least_makespan(Costs.equal(stages), home, 8, copies=2) for stages in (4, 8))
    assert once == twice == 1 + 8 * 3
