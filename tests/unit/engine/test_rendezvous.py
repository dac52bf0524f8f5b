"""Rendezvous whose members do different things."""

import numpy as np

from simulator.engine.executor import execute
from simulator.engine.rendezvous import gather, lone_ticks
from simulator.engine.tape import Activity, Use
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
