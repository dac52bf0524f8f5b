"""What both executors say when lanes wait for each other for ever."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from simulator.engine.executor import execute
from simulator.engine.tape import Activity, Tape, Timeline, Use
from simulator.errors import DeadlockError
from simulator.program.maxplus import sweep
from tests.tapes import tape

Executor = Callable[[Tape], Timeline]
both = pytest.mark.parametrize("run", [execute, sweep])


@both
def test_every_stuck_lane_its_operation_and_what_it_waits_for(run: Executor) -> None:
    knot = tape([1, 2], [1, 2], [3], after={1: [3], 3: [1]})
    with pytest.raises(DeadlockError) as caught:
        run(replace(knot, lane_names=("left", "right", "free"), names=("0F0", "0B0", "1F0", "1B0", "2F0")))
    assert str(caught.value).splitlines() == [
        "deadlock: 2 of 3 lanes wait for ever",
        "they wait in a circle: left -> right -> left",
        "left: next is 0B0, which waits for 1B0 of right",
        "right: next is 1B0, which waits for 0B0 of left",
    ]
    assert caught.value.exit_code == 2


@both
def test_a_rendezvous_that_one_cannot_reach(run: Executor) -> None:
    with pytest.raises(DeadlockError) as caught:
        run(tape([1], [1], [1, 1], rendezvous=[[0, 1, 3]], after={2: [0]}))
    assert str(caught.value).splitlines()[1:] == [
        "they wait in a circle: lane 0 -> lane 2 -> lane 0",
        "lane 0: next is operation 0, which waits in rendezvous 0 for lane 2",
        "lane 1: next is operation 1, which waits in rendezvous 0 for lane 2",
        "lane 2: next is operation 2, which waits for operation 0 of lane 0",
    ]


@both
def test_a_lane_that_meets_itself(run: Executor) -> None:
    with pytest.raises(DeadlockError, match="lane 0: next is operation 0, which waits in rendezvous 0 for lane 0"):
        run(tape([1, 1], rendezvous=[[0, 1]]))


@both
def test_an_operation_that_waits_for_itself(run: Executor) -> None:
    with pytest.raises(DeadlockError, match="operation 0, which waits for operation 0 of lane 0"):
        run(tape([1], after={0: [0]}))


@both
def test_rendezvous_in_opposite_order(run: Executor) -> None:
    with pytest.raises(DeadlockError, match="2 of 2 lanes"):
        run(tape([1, 1], [1, 1], rendezvous=[[0, 3], [1, 2]]))


@both
def test_the_message_is_bounded(run: Executor) -> None:
    lanes = 1000
    knot = tape(*[[1]] * lanes, after={lane: [(lane + 1) % lanes] for lane in range(lanes)})
    with pytest.raises(DeadlockError) as caught:
        run(knot)
    lines = str(caught.value).splitlines()
    assert len(lines) == 23
    assert lines[-1] == "and 980 more lanes"
    assert "(993 more)" in lines[1]
    assert max(map(len, lines)) < 200


@both
def test_long_lists_of_waits_are_cut(run: Executor) -> None:
    with pytest.raises(DeadlockError, match=r"waits for operation 1 of lane 1, operation 2 of lane 2, \(4 more\)"):
        run(tape([1], *[[1]] * 8, after={0: list(range(1, 9)), **{op: [0] for op in range(1, 9)}}))


def test_an_activity_that_never_gets_a_share() -> None:
    stuck = tape([0], [0], runs={0: 0, 1: 0}, activities=[Activity(0, 5, (Use(0, 1.0, 1.0),))], capacity=[1.0])
    with pytest.raises(
        DeadlockError, match="lane 1: next is operation 1, which waits for its share of resource 0"
    ) as caught:
        execute(stuck, lambda uses, _: [0.0] * len(uses))
    assert "circle" not in str(caught.value)
