"""Several tapes on one clock."""

import numpy as np
import pytest

from simulator.engine.clock import Clock
from simulator.engine.executor import execute
from simulator.engine.player import Player
from simulator.engine.score import score
from simulator.engine.tape import Activity, Tape, Timeline, Use
from simulator.errors import DeadlockError
from simulator.fabric.sharing import max_min
from tests.tapes import tape, times

BUSY = Activity(1, 10, (Use(0, 0.8, 1.0),))
KNOT = tape([1, 2], [1, 2], after={1: [3], 3: [1]})


def pair(lanes: int = 2, capacity: float = 1.0) -> Tape:
    """Lanes that compute and then use one resource at once."""
    return tape(*[[3, 0]] * lanes, runs={2 * i + 1: 0 for i in range(lanes)}, activities=[BUSY], capacity=[capacity])


def test_on_resources_of_their_own_each_runs_as_alone() -> None:
    clock = Clock(solver=max_min)
    players = [Player(clock, pair(lanes), start) for lanes, start in ((2, None), (3, 7), (1, 4))]
    clock.run()
    assert [player.start for player in players] == [0, 7, 4]
    assert [times(player.timeline()) for player in players] == [times(execute(pair(n), max_min)) for n in (2, 3, 1)]
    assert all(player.ended for player in players)


def test_two_that_are_equal_get_equal_shares_of_one_resource() -> None:
    clock = Clock([1.0], max_min)
    first, second = (Player(clock, pair(1), resources=[0]) for _ in range(2))
    clock.run()
    assert times(first.timeline()) == times(second.timeline()) == [(0, 3), (3, 20)]  # 1 and 2 x 0.8 x 10


def test_one_that_comes_later_shares_from_then_on() -> None:
    """Alone from 0 to 6, at half speed until 8 ticks each are done, then the other alone: by hand."""
    whole = tape([0], runs={0: 0}, activities=[Activity(0, 10, (Use(0, 1.0, 1.0),))], capacity=[1.0])
    clock = Clock([1.0], max_min)
    first, second = Player(clock, whole, resources=[0]), Player(clock, whole, 6, resources=[0])
    clock.run()
    assert times(first.timeline()) == [(0, 14)]
    assert times(second.timeline()) == [(0, 14)]  # 6 .. 20 on the clock: half speed for 8 ticks, then 6 alone


def test_resources_are_mapped() -> None:
    clock = Clock([1.0, 1.0, 0.8], max_min)
    players = [Player(clock, pair(1), resources=[number]) for number in (2, 1, 2)]
    clock.run()
    assert [player.timeline().makespan for player in players] == [24, 14, 24]


def test_the_end_of_one_may_start_the_next() -> None:
    clock, steps = Clock([1.0], max_min), score(pair(1))
    ends: list[int] = []

    def again(_: Player) -> None:
        ends.append(clock.now)
        if len(ends) < 5:
            Player(clock, steps, resources=[0], on_end=again)

    Player(clock, steps, resources=[0], on_end=again)
    clock.run()
    assert ends == [14, 28, 42, 56, 70]


def test_steps_slow_down_while_another_is_there() -> None:
    """Steps of 10 ticks on one resource; a foreigner of 10 ticks comes at 13 and takes half until 33."""
    whole = tape([0], runs={0: 0}, activities=[Activity(0, 10, (Use(0, 1.0, 1.0),))], capacity=[1.0])
    clock, ends = Clock([1.0], max_min), []

    def again(_: Player) -> None:
        ends.append(clock.now)
        if len(ends) < 4:
            Player(clock, whole, resources=[0], on_end=again)

    Player(clock, whole, resources=[0], on_end=again)
    other = Player(clock, whole, 13, resources=[0])
    clock.run()
    assert ends == [10, 27, 40, 50]
    assert other.timeline().makespan == 20


def test_a_tape_of_nothing_ends_when_it_starts() -> None:
    clock, ends = Clock(), []
    Player(clock, tape(), 5, on_end=lambda player: ends.append((clock.now, times(player.timeline()))))
    clock.run()
    assert ends == [(5, [])]


def test_appointments_go_on_beside_it() -> None:
    clock, heard = Clock([1.0], max_min), []
    Player(clock, pair(1), resources=[0], on_end=lambda _: heard.append(("player", clock.now)))
    clock.at(4, lambda _: clock.start(Activity(0, 5, (Use(0, 1.0, 1.0),)), lambda: heard.append(("other", clock.now))))
    clock.run()
    assert heard == [("other", 14), ("player", 18)]  # 6.25 of 10 done at 14


def test_it_cannot_start_in_the_past() -> None:
    clock = Clock()
    clock.at(5, lambda _: Player(clock, tape([1]), 4))
    with pytest.raises(ValueError, match="cannot start at tick 4: it is 5 already"):
        clock.run()


def test_each_resource_of_the_tape_needs_one_of_the_clock() -> None:
    with pytest.raises(ValueError, match="the tape has 1 resources, the player was given 2"):
        Player(Clock([1.0, 1.0], max_min), pair(), resources=[0, 1])


def test_events_of_one_alone_are_those_of_the_clock() -> None:
    clock = Clock(solver=max_min)
    player = Player(clock, pair(3))
    clock.run()
    assert player.timeline().events + clock.fluid.events == clock.events == execute(pair(3), max_min).events


def test_who_has_ended_does_not_hide_who_waits() -> None:
    clock = Clock()
    Player(clock, tape([1], [2]), name="sound")
    Player(clock, KNOT, 1, name="knot")
    with pytest.raises(DeadlockError) as caught:
        clock.run()
    assert str(caught.value).splitlines() == [
        "deadlock in knot: 2 of 2 lanes wait for ever",
        "they wait in a circle: lane 0 -> lane 1 -> lane 0",
        "lane 0: next is operation 1, which waits for operation 3 of lane 1",
        "lane 1: next is operation 3, which waits for operation 1 of lane 0",
    ]


@pytest.mark.parametrize("count", [2, 3, 30])
def test_all_that_wait_are_named_or_counted(count: int) -> None:
    clock, wide = Clock(), tape(*[[1]] * 100, after={lane: [(lane + 1) % 100] for lane in range(100)})
    for number in range(count):
        Player(clock, wide, name=f"job {number}")
    with pytest.raises(DeadlockError) as caught:
        clock.run()
    lines = str(caught.value).splitlines()
    assert sum(line.startswith("deadlock in job") for line in lines) == min(count, 4)
    assert ("and 26 more programs" in lines) == (count == 30)
    assert not any("more problems" in line for line in lines)


def test_who_waits_for_a_resource_is_told_which() -> None:
    clock = Clock(solver=max_min)
    link = clock.add(1.0, "the link")
    meets = tape([0], [0], rendezvous=[[0, 1]], runs={0: 0, 1: 0}, activities=[BUSY], capacity=[1.0])
    Player(clock, meets, resources=[link], name="training")
    clock.at(5, lambda _: clock.change(link, 0.0))
    clock.at(9, lambda _: clock.start(BUSY, lambda: None, "a cache"))
    with pytest.raises(DeadlockError) as caught:
        clock.run()
    assert str(caught.value).splitlines() == [
        "deadlock in training: 2 of 2 lanes wait for ever",
        "lane 0: next is operation 0, which waits for its share of the link",
        "lane 1: next is operation 1, which waits for its share of the link",
        "deadlock: a cache waits for its share of the link",
    ]


def test_a_mistake_in_a_callback_is_not_called_a_deadlock() -> None:
    def broken(_: Player) -> None:
        raise KeyError("on the way")

    clock = Clock()
    Player(clock, KNOT)
    Player(clock, tape([1]), on_end=broken)
    with pytest.raises(KeyError, match="on the way"):
        clock.run()


def test_a_mistake_in_a_lane_is_raised_as_it_is() -> None:
    clock = Clock([1.0], max_min)
    Player(clock, pair(1), resources=[0], label={}.__getitem__)
    with pytest.raises(KeyError, match="1"):
        clock.run()


def test_no_more_than_a_few_events_an_activity_that_shares() -> None:
    """End of the latency, settling and timer when it joins, the same when the other leaves, and its end."""
    clock, operations = Clock([1.0], max_min), 100
    made = tape([0] * operations, runs=dict.fromkeys(range(operations), 0), activities=[BUSY], capacity=[1.0])
    for start in (0, 5):
        Player(clock, made, start, resources=[0])
    clock.run()
    assert clock.events <= 2 * operations * 6 + 2 * 4


def test_same_players_same_bytes() -> None:
    def run() -> list[Timeline]:
        clock = Clock([1.0], max_min)
        players = [Player(clock, pair(lanes), start, resources=[0]) for lanes, start in ((2, 0), (3, 7), (1, 4))]
        clock.run()
        return [player.timeline() for player in players]

    for one, two in zip(run(), run(), strict=True):
        assert np.array_equal(one.start, two.start) and np.array_equal(one.end, two.end) and one.events == two.events
