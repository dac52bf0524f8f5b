"""Appointments: three phases of an instant, calls of a phase in the order in which they were asked for."""

import numpy as np
import pytest

from simulator.engine.agenda import Agenda
from simulator.engine.tape import Activity, Use
from simulator.fabric.sharing import max_min


def test_calls_come_at_their_ticks() -> None:
    agenda, heard = Agenda(), []
    for tick in (30, 10, 20):
        agenda.at(tick, lambda _: heard.append(agenda.now))
    agenda.run()
    assert heard == [10, 20, 30]
    assert agenda.events == 3


def test_an_instant_has_three_phases() -> None:
    """What ends, what that sets off in no time, what begins: whoever asked first."""
    agenda, heard = Agenda(), []

    def ends(name: str) -> None:
        heard.append(f"{name} ends")
        agenda.begin(lambda _: heard.append(f"{name} begins"))
        agenda.at(agenda.now, lambda _: heard.append(f"{name} sets off"))

    agenda.at(5, lambda _: ends("a"))
    agenda.at(5, lambda _: ends("b"))
    agenda.run()
    assert heard == ["a ends", "b ends", "a sets off", "b sets off", "a begins", "b begins"]


def test_what_a_begin_sets_off_still_belongs_to_the_instant() -> None:
    agenda, heard = Agenda(), []
    agenda.at(5, lambda _: agenda.begin(lambda _: agenda.at(5, lambda _: heard.append(agenda.now))))
    agenda.at(6, lambda _: heard.append(agenda.now))
    agenda.run()
    assert heard == [5, 6]


def test_calls_of_an_instant_come_in_the_order_of_asking() -> None:
    agenda, heard = Agenda(), []
    for name in "dacb":
        agenda.at(7, lambda _, name=name: heard.append(name))
    agenda.run()
    assert "".join(heard) == "dacb"


def test_alone_says_whether_anything_else_is_due_now() -> None:
    agenda, heard = Agenda(), []
    for tick in (5, 5, 6):
        agenda.at(tick, lambda _: heard.append(agenda.alone()))
    agenda.run()
    assert heard == [False, True, True]


def test_a_call_learns_which_appointment_it_is() -> None:
    agenda, heard = Agenda(), []
    moment = agenda.at(3, heard.append)
    agenda.run()
    assert heard == [moment]


def test_activities_share_and_appointments_go_on_beside_them() -> None:
    agenda, heard = Agenda(np.array([1.0]), max_min), []

    def done(name: str) -> None:
        heard.append((name, agenda.now))

    agenda.at(0, lambda _: agenda.start(Activity(0, 10, (Use(0, 1.0, 1.0),)), lambda: done("first")))
    agenda.at(4, lambda _: agenda.start(Activity(0, 10, (Use(0, 1.0, 1.0),)), lambda: done("second")))
    agenda.at(9, lambda _: done("call"))
    agenda.run()
    assert heard == [("call", 9), ("first", 16), ("second", 20)]


def test_the_same_activity_may_run_twice_at_once() -> None:
    agenda, heard = Agenda(np.array([1.0]), max_min), []
    same = Activity(0, 10, (Use(0, 1.0, 1.0),))
    for _ in range(2):
        agenda.at(0, lambda _: agenda.start(same, lambda: heard.append(agenda.now)))
    agenda.run()
    assert heard == [20, 20]


def test_progress_is_told_every_stride() -> None:
    agenda, told = Agenda(), []
    for tick in range(10):
        agenda.at(tick, lambda _: None)
    agenda.run(told.append, stride=4)
    assert len(told) >= 2 and set(told) == {10}  # events are counted when they are asked for


def test_a_run_that_lasts_too_long_is_refused() -> None:
    agenda = Agenda()

    def on(_: object) -> None:
        agenda.at(agenda.now + (1 << 60), on)

    agenda.at(0, on)
    with pytest.raises(OverflowError, match="longer than 53 days"):
        agenda.run(stride=8)
