"""The max-plus sweep, where it differs from the SimPy executor: contention. (What they share is a property test.)"""

import pytest

from simulator.engine.tape import Activity, Use, chain
from simulator.program.maxplus import NotExact, sweep
from tests.tapes import tape, times


def share(latency: int, work: int, rate: float, resource: int = 0) -> Activity:
    return Activity(latency, work, (Use(resource, rate, 1.0),))


def test_nothing_to_do() -> None:
    assert sweep(tape()).makespan == 0
    assert sweep(tape([], [])).makespan == 0


def test_several_dependencies_and_rendezvous() -> None:
    made = tape([3], [9], [5], [1, 2], [], [4], after={3: [0, 1, 2]}, rendezvous=[[4, 5]])
    assert times(sweep(made)) == [(0, 3), (0, 9), (0, 5), (9, 10), (10, 14), (10, 14)]


def test_activities_that_fit_are_exact() -> None:
    half, whole = share(1, 9, 0.5), share(2, 9, 1.0, 1)
    made = tape([0], [0], [0], runs={0: 0, 1: 0, 2: 1}, activities=[half, whole], capacity=[1.0, 1.0])
    assert times(sweep(made)) == [(0, 10), (0, 10), (0, 11)]


@pytest.mark.parametrize("first", [share(0, 10, 0.6), share(3, 10, 0.6), share(9, 1, 0.6)])
def test_activities_that_contend_are_refused(first: Activity) -> None:
    made = tape([0], [0], runs={0: 0, 1: 1}, activities=[first, share(0, 10, 0.6)], capacity=[1.0])
    with pytest.raises(NotExact, match=r"shares resource 0, of which it would take 1\.2 times"):
        sweep(made)


def test_one_after_the_other_is_no_contention() -> None:
    made = tape([0], [10, 0], runs={0: 0, 2: 0}, activities=[share(0, 10, 1.0)], capacity=[1.0])
    assert sweep(made).makespan == 20


def test_latency_and_work_of_no_length_are_no_contention() -> None:
    made = tape([0], [0], runs={0: 0, 1: 1}, activities=[share(0, 10, 1.0), share(10, 0, 1.0)], capacity=[1.0])
    assert sweep(made).makespan == 10


def test_a_rendezvous_counts_once() -> None:
    made = tape([0], [0], rendezvous=[[0, 1]], runs={0: 0, 1: 0}, activities=[share(0, 10, 0.8)], capacity=[1.0])
    assert sweep(made).makespan == 10


def test_loads_are_relative_to_each_capacity() -> None:
    tiny, huge = share(0, 10, 1e-9), share(0, 10, 1e15, 1)
    made = tape([0], [0], [0], runs={0: 0, 1: 1, 2: 0}, activities=[tiny, huge], capacity=[1e-9, 1e15])
    with pytest.raises(NotExact, match="resource 0, of which it would take 2 times"):
        sweep(made)


def test_phases_ask_for_their_resources_in_their_turn() -> None:
    phases = chain([share(1, 9, 1.0), share(2, 8, 1.0, 1), share(0, 5, 1.0)])
    made = tape([0], [10, 0], runs={0: 0, 2: 1}, activities=[phases, share(0, 10, 1.0)], capacity=[1.0, 1.0])
    assert times(sweep(made)) == [(0, 25), (0, 10), (10, 20)]
    late = tape([0], [11, 0], runs={0: 0, 2: 1}, activities=[phases, share(0, 10, 1.0)], capacity=[1.0, 1.0])
    with pytest.raises(NotExact, match="resource 0, of which it would take 2 times"):
        sweep(late)
    second = tape([0], [11, 0], runs={0: 0, 2: 1}, activities=[phases, share(0, 3, 0.5, 1)], capacity=[1.0, 1.0])
    with pytest.raises(NotExact, match=r"resource 1, of which it would take 1\.5 times"):
        sweep(second)
