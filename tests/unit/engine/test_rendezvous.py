"""Rendezvous whose members do different things."""

import numpy as np

from simulator.engine.executor import execute
from simulator.engine.rendezvous import gather, lone_ticks
from simulator.engine.tape import RESERVED, Activity, Use, chain
from simulator.fabric.sharing import max_min
from simulator.program.maxplus import sweep
from tests.tapes import tape, times

LEFT = Activity(2, 10, (Use(0, 0.5, 1.0),))
RIGHT = Activity(3, 5, (Use(1, 0.5, 2.0), Use(0, 0.2, 1.0)))


def test_without_rendezvous() -> None:
    rendezvous = gather(tape([1, 2]))
    assert rendezvous.number.tolist() == [-1, -1]
    assert len(rendezvous.size) == 0


def test_members_that_do_the_same_run_it_once() -> None:
    rendezvous = gather(tape([0], [0], rendezvous=[[0, 1]], runs={0: 0, 1: 0}, activities=[LEFT], capacity=[1.0]))
    assert rendezvous.activities == (LEFT,)
    assert rendezvous.activity.tolist() == [0]
    assert rendezvous.ticks.tolist() == [12]


def test_members_that_differ_bring_their_needs_together() -> None:
    mixed = tape(
        [0], [0], [4], rendezvous=[[0, 1, 2]], runs={0: 0, 1: 1}, activities=[LEFT, RIGHT], capacity=[1.0, 1.0]
    )
    rendezvous = gather(mixed)
    assert rendezvous.activity.tolist() == [2]
    together = rendezvous.activities[2]
    assert (together.latency, together.work) == (3, 10)
    assert [use.resource for use in together.uses] == [0, 1]
    np.testing.assert_allclose([use.rate * together.work for use in together.uses], [0.5 * 10 + 0.2 * 5, 0.5 * 5])
    assert [use.flows for use in together.uses] == [2.0, 2.0]
    assert times(execute(mixed, max_min)) == times(sweep(mixed)) == [(0, 13)] * 3


def test_a_plain_member_may_be_the_longest() -> None:
    mixed = tape([0], [40], rendezvous=[[0, 1]], runs={0: 0}, activities=[LEFT], capacity=[1.0])
    assert times(execute(mixed, max_min)) == times(sweep(mixed)) == [(0, 42)] * 2


def test_lone_ticks() -> None:
    mixed = tape([7, 0], [9], runs={1: 0}, activities=[LEFT], capacity=[1.0])
    assert lone_ticks(mixed).tolist() == [7, 12, 9]


def test_members_of_several_phases_meet_phase_by_phase() -> None:
    """The left has two phases, the right three; each lasts as long as the longer of the two."""
    left = chain([LEFT, Activity(0, 4, (Use(1, 0.5, 1.0),))])
    right = chain([RIGHT, Activity(1, 4, (Use(1, 0.25, 1.0),)), Activity(2, 6, (Use(0, 1.0, 1.0),))])
    both = {0: 0, 1: 1}
    mixed = tape([0], [0], rendezvous=[[0, 1]], runs=both, activities=[left, right], capacity=[1.0, 1.0])
    rendezvous = gather(mixed)
    first, second, third = rendezvous.activities[2].phases
    assert [phase[:2] for phase in (first, second, third)] == [(3, 10), (1, 4), (2, 6)]
    np.testing.assert_allclose([use.rate * 10 for use in first.uses], [0.5 * 10 + 0.2 * 5, 0.5 * 5])
    assert second.uses == (Use(1, 0.75, 2.0),)
    assert third.uses == (Use(0, 1.0, 1.0),)
    assert rendezvous.ticks.tolist() == [26]
    assert times(execute(mixed, max_min)) == times(sweep(mixed)) == [(0, 26)] * 2


def test_a_plain_member_holds_up_the_last_phase() -> None:
    phases = chain([LEFT, Activity(1, 4, (Use(0, 0.5, 1.0),))])
    for ticks, ends in ((9, 17), (30, 33)):
        mixed = tape([0], [ticks], rendezvous=[[0, 1]], runs={0: 0}, activities=[phases], capacity=[1.0])
        assert times(execute(mixed, max_min)) == times(sweep(mixed)) == [(0, ends)] * 2


def test_what_a_member_reserves_stays_reserved() -> None:
    keeps = Activity(0, 10, (Use(0, 0.3, RESERVED),))
    shares = Activity(0, 10, (Use(0, 0.4, 2.0),))
    mixed = tape([0], [0], rendezvous=[[0, 1]], runs={0: 0, 1: 1}, activities=[keeps, shares], capacity=[1.0])
    assert gather(mixed).activities[2].uses == (Use(0, 0.3, RESERVED), Use(0, 0.4, 2.0))


def test_lone_ticks_of_phases_add_up() -> None:
    phases = chain([LEFT, RIGHT, Activity(1, 0, ())])
    assert lone_ticks(tape([0], runs={0: 0}, activities=[phases], capacity=[1.0, 1.0])).tolist() == [21]


def test_what_members_reserve_all_along_does_not_hang_on_how_they_are_cut() -> None:
    """One is cut after 2 of 10 ticks, the other after 8 of 12: together 8 and 8, over which both reserve evenly."""
    link = Use(2, 0.5, 1.0)

    def cut(device: int, rate: float, first: int, second: int) -> Activity:
        own = Use(device, rate, RESERVED)
        return chain([Activity(0, first, (own,)), Activity(0, second, (own, link))])

    parts = [cut(0, 0.4, 2, 8), cut(1, 0.2, 8, 4)]
    mixed = tape([0], [0], rendezvous=[[0, 1]], runs={0: 0, 1: 1}, activities=parts, capacity=[1.0, 1.0, 1.0])
    phases = gather(mixed).activities[2].phases
    assert [phase.work for phase in phases] == [8, 8]
    for phase in phases:
        reserved = {use.resource: use.rate for use in phase.uses if use.flows == RESERVED}
        assert reserved == {0: 0.4 * 10 / 16, 1: 0.2 * 12 / 16}
    assert phases[1].uses[-1] == Use(2, 0.5 * 8 / 8 + 0.5 * 4 / 8, 2.0)
