"""Programs whose kernels take longer."""

import numpy as np
import pytest

from simulator.engine.rendezvous import lone_ticks
from simulator.engine.tape import Activity, Use, chain
from simulator.program.content import Content
from simulator.program.piece import HOST, Part, PieceBuilder, single
from simulator.run.simulate import run
from simulator.training.rescale import durations, rescaled, slowed
from tests import jobs
from tests.tapes import tape


def test_kernels_stretch_and_the_wait_for_the_host_shrinks_as_much() -> None:
    built = PieceBuilder([Part(HOST, Content(host=190))])
    built.run(Content(100, 50))
    piece = built.build()
    assert piece.lasts(np.array([1.0, 1.2, 2.0, 0.8])).tolist() == [190, 190, 300, 190]
    assert [piece.at(pace).content.host for pace in (1.0, 1.2, 2.0, 0.8)] == [40, 10, 0, 70]


def test_who_has_no_host_does_not_begin_to_wait_for_it() -> None:
    assert single(Content(100)).at(0.5).content == Content(50)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("zero", [0, 3])
def test_durations_are_those_of_the_prices(overlap: bool, zero: int) -> None:
    """At factor 1 nothing changes; at any other the tape and the price lists tell the same."""
    software = jobs.stack(overlap_gradients=overlap, overlap_parameters=overlap)
    found = run(jobs.scenario(tp=2, pp=2, zero=zero, software=software))
    program, lone = found.program, lone_ticks(found.program.tape)
    pace = np.ones((len(found.classes.costs), 2, 2))
    pace[:, :, 1] = [[1.25, 1.7]]
    ticks = durations(program, pace)
    np.testing.assert_array_equal(ticks[:, 0], lone)
    assert (ticks[:, 1] >= lone).all() and (ticks[:, 1] > lone).any()
    assert (ticks[:, 1] <= np.ceil(1.7 * lone) + 8).all()
    slow = slowed(program, rescaled(program.tape, ticks[:, 1]), pace[:, :, 1])
    lasting = np.array([lump.ticks for lump in slow.contents])[slow.columns.content]
    np.testing.assert_array_equal(lasting, ticks[:, 1])


def test_activities_work_longer() -> None:
    made = tape([0, 0], [7], runs={0: 0, 1: 0}, activities=[Activity(2, 8, (Use(0, 1.0, 1.0),))], capacity=[1.0])
    found = rescaled(made, np.array([10, 22, 9]))
    assert lone_ticks(found).tolist() == [10, 22, 9]
    assert [a.work for a in found.activities] == [8, 20]
    assert all(a.uses == made.activities[0].uses for a in found.activities)


def test_phases_of_an_activity_work_longer_alike() -> None:
    phases = chain([Activity(2, 8, (Use(0, 1.0, 1.0),)), Activity(1, 4, ()), Activity(0, 0, (Use(0, 0.5, 1.0),))])
    made = tape([0, 0, 0], runs=dict.fromkeys(range(3), 0), activities=[phases], capacity=[1.0])
    found = rescaled(made, np.array([15, 28, 8]))
    assert lone_ticks(found).tolist() == [15, 28, 8]
    longer = [found.activities[number] for number in found.activity]
    assert [[phase.work for phase in activity.phases] for activity in longer] == [[8, 4, 0], [17, 8, 0], [3, 2, 0]]
    assert longer[0] == phases
    assert all([p[2] for p in activity.phases] == [p[2] for p in phases.phases] for activity in longer)
