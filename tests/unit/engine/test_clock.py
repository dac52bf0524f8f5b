"""Appointments: three phases of an instant, calls of a phase in the order in which they were asked for."""

import numpy as np
import pytest

from simulator.engine.clock import Clock
from simulator.engine.tape import Activity, Use
from simulator.fabric.sharing import max_min


def test_calls_come_at_their_ticks() -> None:
    clock, heard = Clock(), []
    for tick in (30, 10, 20):
        clock.at(tick, lambda _: heard.append(clock.now))
    clock.run()
    assert heard == [10, 20, 30]
    assert clock.events == 3


def test_an_instant_has_three_phases() -> None:
    """What ends, what that sets off in no time, what begins: whoever asked first."""
    clock, heard = Clock(), []

    def ends(name: str) -> None:
        heard.append(f"{name} ends")
        clock.begin(lambda _: heard.append(f"{name} begins"))
        clock.at(clock.now, lambda _: heard.append(f"{name} sets off"))

    clock.at(5, lambda _: ends("a"))
    clock.at(5, lambda _: ends("b"))
    clock.run()
    assert heard == ["a ends", "b ends", "a sets off", "b sets off", "a begins", "b begins"]


def test_what_a_begin_sets_off_still_belongs_to_the_instant() -> None:
    clock, heard = Clock(), []
    clock.at(5, lambda _: clock.begin(lambda _: clock.at(5, lambda _: heard.append(clock.now))))
    clock.at(6, lambda _: heard.append(clock.now))
    clock.run()
    assert heard == [5, 6]


def test_calls_of_an_instant_come_in_the_order_of_asking() -> None:
    clock, heard = Clock(), []
    for name in "dacb":
        clock.at(7, lambda _, name=name: heard.append(name))
    clock.run()
    assert "".join(heard) == "dacb"


def test_alone_says_whether_anything_else_is_due_now() -> None:
    clock, heard = Clock(), []
    for tick in (5, 5, 6):
        clock.at(tick, lambda _: heard.append(clock.alone()))
    clock.run()
    assert heard == [False, True, True]


def test_a_call_learns_which_appointment_it_is() -> None:
    clock, heard = Clock(), []
    moment = clock.at(3, heard.append)
    clock.run()
    assert heard == [moment]


def test_activities_share_and_appointments_go_on_beside_them() -> None:
    clock, heard = Clock(np.array([1.0]), max_min), []

    def done(name: str) -> None:
        heard.append((name, clock.now))

    clock.at(0, lambda _: clock.start(Activity(0, 10, (Use(0, 1.0, 1.0),)), lambda: done("first")))
    clock.at(4, lambda _: clock.start(Activity(0, 10, (Use(0, 1.0, 1.0),)), lambda: done("second")))
    clock.at(9, lambda _: done("call"))
    clock.run()
    assert heard == [("call", 9), ("first", 16), ("second", 20)]


def test_the_same_activity_may_run_twice_at_once() -> None:
    clock, heard = Clock(np.array([1.0]), max_min), []
    same = Activity(0, 10, (Use(0, 1.0, 1.0),))
    for _ in range(2):
        clock.at(0, lambda _: clock.start(same, lambda: heard.append(clock.now)))
    clock.run()
    assert heard == [20, 20]


def test_progress_is_told_every_stride() -> None:
    clock, told = Clock(), []
    for tick in range(10):
        clock.at(tick, lambda _: None)
    clock.run(told.append, stride=4)
    assert told == [4, 8]


def test_a_run_that_lasts_too_long_is_refused() -> None:
    clock = Clock()

    def on(_: object) -> None:
        clock.at(clock.now + (1 << 60), on)

    clock.at(0, on)
    with pytest.raises(OverflowError, match="longer than 53 days"):
        clock.run(stride=8)
