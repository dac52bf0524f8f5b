"""The SimPy executor on tapes small enough to check by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from simulator.engine.clock import STRIDE
from simulator.engine.executor import execute
from simulator.engine.tape import Activity, Tape, Timeline, Use
from simulator.errors import InputError
from simulator.fabric.sharing import max_min
from simulator.program.maxplus import sweep
from tests.tapes import tape, times


def test_a_lane_runs_in_order() -> None:
    timeline = execute(tape([3, 4]))
    assert times(timeline) == [(0, 3), (3, 7)]
    assert timeline.makespan == 7


def test_nothing_to_do() -> None:
    assert execute(tape()).makespan == 0
    assert execute(tape([], [])).makespan == 0
    assert times(execute(tape([], [2], []))) == [(0, 2)]


def test_an_operation_waits_for_others() -> None:
    timeline = execute(tape([3, 4], [5, 6], after={3: [1]}))
    assert times(timeline) == [(0, 3), (3, 7), (0, 5), (7, 13)]


def test_an_operation_waits_for_the_last_of_several() -> None:
    assert times(execute(tape([3], [9], [5], [1], after={3: [0, 1, 2]})))[3] == (9, 10)


def test_it_may_wait_before_or_after_the_other_starts() -> None:
    early = execute(tape([5, 2], [1], after={2: [1]}))
    late = execute(tape([5, 2], [6, 1], after={3: [1]}))
    assert times(early)[2] == (7, 8)
    assert times(late)[3] == (7, 8)


def test_operations_that_last_no_time() -> None:
    timeline = execute(tape([0, 0, 4], [0, 1], after={3: [1], 4: [2]}))
    assert times(timeline) == [(0, 0), (0, 0), (0, 4), (0, 0), (4, 5)]


def test_no_time_after_a_wait() -> None:
    assert times(execute(tape([0], [3], [2], after={0: [1], 2: [0]}))) == [(3, 3), (0, 3), (3, 5)]


def test_members_of_a_rendezvous_start_and_end_together() -> None:
    timeline = execute(tape([3, 4], [7, 4], [4], rendezvous=[[1, 3, 4]]))
    assert times(timeline) == [(0, 3), (7, 11), (0, 7), (7, 11), (7, 11)]


def test_a_rendezvous_lasts_as_long_as_its_longest_member() -> None:
    assert times(execute(tape([3], [5], [1, 1], rendezvous=[[0, 1, 3]]))) == [(1, 6), (1, 6), (0, 1), (1, 6)]


def test_a_rendezvous_of_one() -> None:
    assert times(execute(tape([3, 4], rendezvous=[[1]]))) == [(0, 3), (3, 7)]


def test_others_wait_for_a_rendezvous() -> None:
    assert times(execute(tape([3], [5, 4], [1], rendezvous=[[0, 2]], after={3: [2]})))[3] == (9, 10)


def test_rendezvous_may_have_any_numbers() -> None:
    made = tape([3], [5], rendezvous=[[0, 1]])
    far = Tape(made.lane_start, made.duration, made.after_start, made.after, made.rendezvous + (1 << 60), made.activity)
    assert times(execute(far)) == times(execute(made))


def test_days_in_picoseconds_stay_exact() -> None:
    day = 86_400 * 10**12
    assert execute(tape([day, 1, day, 1])).end.tolist() == [day, day + 1, 2 * day + 1, 2 * day + 2]


@pytest.mark.parametrize("run", [execute, sweep])
def test_more_than_the_clock_counts_is_refused(run: Callable[[Tape], Timeline]) -> None:
    half = 1 << 61
    assert run(tape([half, half - 1])).makespan == 2 * half - 1
    for made in (tape([2 * half]), tape([half, half]), tape([half, half, 5, half], [1], after={4: [3]})):
        with pytest.raises(InputError, match="lasts longer than 53 days"):
            run(made)


def test_one_event_an_operation() -> None:
    lanes, operations = 4, 100
    timeline = execute(tape(*[[1] * operations] * lanes, after={350: [20], 250: [110, 30]}))
    assert timeline.events == lanes * operations + 2 * lanes + 1


def test_no_event_for_operations_that_last_no_time() -> None:
    assert execute(tape([0] * 50)).events == 3


def test_progress_is_told() -> None:
    seen: list[int] = []
    execute(tape([1] * (2 * STRIDE + 5)), progress=seen.append)
    assert seen == [STRIDE, 2 * STRIDE]


def test_a_mistake_of_the_solver_is_not_called_a_deadlock() -> None:
    def broken(*_: object) -> list[float]:
        raise RuntimeError("no speeds today")

    busy = tape([0], [0], runs={0: 0, 1: 0}, activities=[Activity(0, 5, (Use(0, 1.0, 1.0),))], capacity=[1.0])
    with pytest.raises(RuntimeError, match="no speeds today"):
        execute(busy, broken)


def test_activities_need_a_solver() -> None:
    with pytest.raises(ValueError, match="needs a solver"):
        execute(tape([0], runs={0: 0}, activities=[Activity(0, 5, ())]))


def test_same_tape_same_bytes() -> None:
    busy = tape(
        [3, 0, 4],
        [0, 2],
        [0],
        after={4: [1]},
        runs={1: 0, 3: 0, 5: 1},
        capacity=[1.0],
        activities=[Activity(1, 7, (Use(0, 0.8, 1.0),)), Activity(0, 9, (Use(0, 0.7, 3.0),))],
    )
    first, second = execute(busy, max_min), execute(busy, max_min)
    assert first.start.tobytes() == second.start.tobytes()
    assert first.end.tobytes() == second.end.tobytes()
    assert first.events == second.events


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lane_start": np.array([0, 3])}, "lane_start"),
        ({"lane_start": np.array([0, 2, 1, 2])}, "lane_start"),
        ({"rendezvous": np.array([-1])}, "columns differ"),
        ({"after_start": np.array([0, 0])}, "after_start"),
        ({"after_start": np.array([0, 1, 1])}, "after_start"),
        ({"after_start": np.array([0, 1, 1]), "after": np.array([7])}, "not there"),
        ({"duration": np.array([1, -1])}, "negative"),
        ({"activity": np.array([-1, 0])}, "not there"),
        ({"activities": (Activity(-1, 0, ()),)}, "less than no time"),
        ({"activities": (Activity(0, 0, (), (Activity(-1, 0, ()),)),)}, "less than no time"),
        ({"activities": (Activity(0, 0, (), (Activity(0, 0, (Use(0, 1.0, 1.0),)),)),)}, "not there"),
        ({"activities": (Activity(0, 0, (), (Activity(0, 0, (), (Activity(0, 0, ()),)),)),)}, "phases of its own"),
        ({"activities": (Activity(0, 0, (Use(0, 1.0, 1.0),)),)}, "not there"),
        ({"activities": (Activity(0, 0, (Use(0, 2.0, 1.0),)),), "capacity": np.ones(1)}, "more than resource 0 has"),
    ],
)
def test_malformed_tapes_are_refused(change: dict[str, object], message: str) -> None:
    good = tape([1, 2])
    columns = {name: getattr(good, name) for name in Tape.__dataclass_fields__}
    with pytest.raises(ValueError, match=message):
        execute(Tape(**{**columns, **change}))
