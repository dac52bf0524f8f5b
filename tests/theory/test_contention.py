"""Flows that meet on links, against cases worked out by hand. Links carry units per tick; flows are given in units."""

from collections.abc import Sequence

import pytest

from simulator.engine.clock import Clock
from simulator.engine.tape import RESERVED, Activity, Use, chain
from simulator.fabric.sharing import max_min


def flow(units: int, *links: int, rate: int = 1) -> Activity:
    """So many units over links, at most `rate` a tick."""
    return Activity(0, units // rate, tuple(Use(link, float(rate), 1.0) for link in links))


def ends(
    *flows: tuple[int, Activity], capacity: Sequence[float], changes: Sequence[tuple[int, int, float]] = ()
) -> list[int]:
    """When flows released at ticks end, on links whose capacity changes: (tick, link, units per tick)."""
    clock, found = Clock(capacity, max_min), dict.fromkeys(range(len(flows)), -1)
    for number, (tick, activity) in enumerate(flows):

        def done(number: int = number) -> None:
            found[number] = clock.now

        clock.at(tick, lambda _, activity=activity, done=done: clock.start(activity, done))
    for tick, link, units in changes:
        clock.at(tick, lambda _, link=link, units=units: clock.change(link, units))
    clock.run()
    return list(found.values())


def test_two_equal_flows_on_one_link_take_twice_as_long() -> None:
    assert ends((0, flow(50, 0)), (0, flow(50, 0)), capacity=[1.0]) == [100, 100]


def test_three_flows_on_two_links() -> None:
    """The first crosses both. Link 0 gives 1/2 to each of two; what the first leaves of link 1, 3/2, is the third's.

    At 20 the first two are done, the third has sent 30 of its 40 units and goes on at 2 a tick.
    """
    first, second, third = flow(10, 0, 1), flow(10, 0), flow(40, 1, rate=2)
    assert ends((0, first), (0, second), (0, third), capacity=[1.0, 2.0]) == [20, 20, 25]


def test_one_that_joins_and_leaves_in_the_middle() -> None:
    """Alone for 10 ticks; half each until 20 units of the second are through at 50; 70 units alone."""
    assert ends((0, flow(100, 0)), (10, flow(20, 0)), capacity=[1.0]) == [120, 50]


def test_a_capacity_that_halves_in_the_middle() -> None:
    assert ends((0, flow(100, 0)), capacity=[1.0], changes=[(40, 0, 0.5)]) == [160]
    assert ends((0, flow(100, 0)), capacity=[1.0], changes=[(40, 0, 0.5), (100, 0, 1.0)]) == [130]


def test_it_halves_for_all_that_share_it() -> None:
    """50 units of each are left to go at 20, at 1/4 a tick; the one that also crosses a free link is no different."""
    assert ends((0, flow(60, 0)), (0, flow(60, 0, 1)), capacity=[1.0, 9.0], changes=[(20, 0, 0.5)]) == [220, 220]


def test_more_of_a_link_that_was_scarce_sets_all_free() -> None:
    assert ends((0, flow(60, 0)), (0, flow(60, 0)), capacity=[1.0], changes=[(20, 0, 5.0)]) == [70, 70]


def test_what_was_remembered_of_speeds_ends_with_the_capacity() -> None:
    """The same pair meets before, while and after a link is slow: 20, 40 and 20 ticks."""
    pairs = [(tick, flow(10, 0)) for tick in (0, 0, 100, 100, 200, 200)]
    changes = [(50, 0, 0.5), (150, 0, 1.0)]
    assert ends(*pairs, capacity=[1.0], changes=changes) == [20, 20, 140, 140, 220, 220]


def test_a_link_that_is_down_for_a_while() -> None:
    outage = [(20, 0, 0.0), (70, 0, 1.0)]
    assert ends((0, flow(60, 0)), (0, flow(40, 1)), (30, flow(5, 0)), capacity=[1.0, 1.0], changes=outage) == [
        115,
        40,
        80,
    ]


def test_phases_are_on_one_link_after_the_other() -> None:
    """The first phase has its link alone until 10, the second shares until the rival is through at 25."""
    phases = chain([flow(10, 0), Activity(5, 20, (Use(1, 1.0, 1.0),)), flow(10, 0)])
    assert ends((0, phases), (15, flow(5, 1)), capacity=[1.0, 1.0]) == [50, 25]
    assert ends((0, phases), capacity=[1.0, 1.0]) == [45]


@pytest.mark.parametrize(("reserved", "speed"), [(0.3, 0.7), (0.5, 0.5), (0.0, 1.0)])
def test_kernels_beside_a_collective_have_the_multiprocessors_that_are_left(reserved: float, speed: float) -> None:
    """A collective that a slow link holds back keeps its multiprocessors all the time."""
    collective = Activity(0, 100, (Use(0, reserved, RESERVED), Use(1, 1.0, 1.0)))
    kernel = Activity(0, 70, (Use(0, 1.0, 1.0),))
    assert ends((0, kernel), (0, collective), capacity=[1.0, 0.5]) == [round(70 / speed), 200]


def test_what_is_left_of_a_reservation_is_shared() -> None:
    kernel, collective = Activity(0, 70, (Use(0, 1.0, 1.0),)), Activity(0, 1000, (Use(0, 0.3, RESERVED),))
    assert ends((0, kernel), (0, kernel), (0, collective), capacity=[1.0]) == [200, 200, 1000]


def test_more_reservations_than_there_is_are_granted_in_proportion() -> None:
    """0.9 and 0.6 of 1: each runs at 2/3 until the second ends at 45; kernels wait for that, and have 0.1 until 75."""
    kernel = Activity(0, 10, (Use(0, 1.0, 1.0),))
    big, small = Activity(0, 60, (Use(0, 0.9, RESERVED),)), Activity(0, 30, (Use(0, 0.6, RESERVED),))
    assert ends((0, kernel), (0, big), (0, small), capacity=[1.0]) == [82, 75, 45]
