"""Random activities on shared resources whose capacity changes: conservation, fairness, and an independent solver."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.clock import Clock
from simulator.engine.load import Load
from simulator.engine.player import Player
from simulator.engine.tape import RESERVED, Activity, Tape, Use, chain
from simulator.fabric.sharing import max_min
from tests.effort import simulations
from tests.tapes import tapes, times

SLACK = 1e-8


class Job(NamedTuple):
    """An activity and the tick at which it starts."""

    start: int
    activity: Activity


class Change(NamedTuple):
    """A new capacity of a resource."""

    tick: int
    resource: int
    capacity: float


class Scene(NamedTuple):
    """What happens on which resources."""

    jobs: list[Job]
    capacity: list[float]
    changes: list[Change]


@st.composite
def phases(draw: st.DrawFn, resources: int, reserved: bool) -> Activity:
    """One phase; on all that it shares it has one rate per flow, so that there is one fair solution."""
    per_flow = draw(st.floats(0.1, 0.5))
    uses = []
    for resource in sorted(draw(st.sets(st.integers(0, resources - 1), max_size=3))):
        flows = draw(st.sampled_from([1.0, 2.0]))
        keeps = reserved and draw(st.integers(0, 3)) == 0
        uses.append(
            Use(resource, draw(st.floats(0.1, 0.6)) if keeps else per_flow * flows, RESERVED if keeps else flows)
        )
    return Activity(draw(st.sampled_from([0, 0, 7, 90])), draw(st.integers(0, 3_000)), tuple(uses))


@st.composite
def scenes(draw: st.DrawFn, reserved: bool = True, together: bool = False) -> Scene:
    """Up to six activities of up to three phases on up to four resources, and changes that end with some capacity."""
    resources = draw(st.integers(1, 4))
    starts = st.just(0) if together else st.integers(0, 2_000)
    parts = st.lists(phases(resources, reserved), min_size=1, max_size=3)
    jobs = [Job(draw(starts), chain(draw(parts))) for _ in range(draw(st.integers(1, 6)))]
    capacity = draw(st.lists(st.floats(1.0, 3.0), min_size=resources, max_size=resources))
    places = st.tuples(st.integers(0, 4_000), st.integers(0, resources - 1), st.sampled_from([0.0, 0.3, 1.0, 5.0]))
    changes = [] if together else [Change(*place) for place in draw(st.lists(places, max_size=4))]
    last = [Change(5_000, resource, 1.5) for resource in sorted({change.resource for change in changes})]
    return Scene(jobs, capacity, [*changes, *last])


def run(scene: Scene, most: int = 1_000_000) -> tuple[list[int], Load]:
    """When each activity ends, and the record, by the number of the activity."""
    clock = Clock(scene.capacity, max_min)
    load, ends = clock.record(most=most), [-1] * len(scene.jobs)
    for number, job in enumerate(scene.jobs):

        def done(number: int = number) -> None:
            ends[number] = clock.now

        clock.at(job.start, lambda _, job=job, done=done, n=number: clock.start(job.activity, done, n))
    for change in scene.changes:
        clock.at(change.tick, lambda _, change=change: clock.change(change.resource, change.capacity))
    clock.run()
    return ends, load


def slack(scene: Scene) -> int:
    """Ticks by which rounding at the ends of phases may move another end: shares are at least a twentieth."""
    return 20 * sum(len(job.activity.phases) for job in scene.jobs)


@given(scenes())
@simulations(60)
def test_no_resource_ever_carries_more_than_it_has(scene: Scene) -> None:
    for most in (1_000_000, 5):
        load = run(scene, most)[1]
        for resource in range(len(scene.capacity)):
            spans = load.of(resource)
            assert all(span.load <= span.capacity * (1 + SLACK) for span in spans)
            assert all(one.stop == two.start for one, two in pairwise(spans))
            assert len(spans) <= most


@given(scenes(reserved=False))
@simulations(60)
def test_units_are_conserved(scene: Scene) -> None:
    """What the record says was carried for an activity is what it had to send, but for the ends at whole ticks."""
    for most in (1_000_000, 5):
        load = run(scene, most)[1]
        for number, job in enumerate(scene.jobs):
            for resource in range(len(scene.capacity)):
                rows = [(p.work, u.rate) for p in job.activity.phases for u in p.uses if u.resource == resource]
                carried = sum((s.stop - s.start) * s.by.get(number, 0.0) for s in load.of(resource))
                sent = sum(work * rate for work, rate in rows)
                assert carried == pytest.approx(sent, rel=1e-6, abs=0.5 * sum(rate for _, rate in rows) + 1e-6)


@given(scenes())
@simulations(60)
def test_nothing_is_faster_than_alone(scene: Scene) -> None:
    ends, _ = run(scene)
    assert all(end - job.start >= job.activity.ticks for end, job in zip(ends, scene.jobs, strict=True))


@given(scenes())
@simulations(60)
def test_alone_the_phases_add_up(scene: Scene) -> None:
    job = scene.jobs[0]
    ends, _ = run(Scene([job], [3.0] * len(scene.capacity), []))
    assert ends == [job.start + sum(phase.latency + phase.work for phase in job.activity.phases)]


@given(scenes(), st.data())
@simulations(60)
def test_an_activity_cut_in_size_changes_nothing(scene: Scene, data: st.DataObject) -> None:
    victim = data.draw(st.integers(0, len(scene.jobs) - 1))
    job = scene.jobs[victim]
    half = [
        phase._replace(uses=tuple(u._replace(rate=u.rate / 2, flows=u.flows / 2) for u in phase.uses))
        for phase in job.activity.phases
    ]
    halves = [Job(job.start, chain(half))] * 2
    cut = scene._replace(jobs=[*scene.jobs[:victim], *scene.jobs[victim + 1 :], *halves])
    whole, ends = run(scene)[0], run(cut)[0]
    expected = [*whole[:victim], *whole[victim + 1 :], whole[victim], whole[victim]]
    assert ends == pytest.approx(expected, abs=slack(scene))
    assert ends[-1] == ends[-2]


@given(scenes(), st.data())
@simulations(60)
def test_an_activity_cut_in_time_changes_nothing(scene: Scene, data: st.DataObject) -> None:
    victim = data.draw(st.integers(0, len(scene.jobs) - 1))
    job = scene.jobs[victim]
    first, *rest = job.activity.phases
    part = data.draw(st.integers(0, first.work))
    pieces = [first._replace(work=part), first._replace(latency=0, work=first.work - part), *rest]
    jobs = [*scene.jobs[:victim], Job(job.start, chain(pieces)), *scene.jobs[victim + 1 :]]
    assert run(scene._replace(jobs=jobs))[0] == pytest.approx(run(scene)[0], abs=slack(scene))


@given(scenes(together=True), st.sampled_from([2, 8]))
@simulations(60)
def test_slower_resources_slow_what_is_released_together(scene: Scene, factor: int) -> None:
    """All capacities divided alike: the same bytes take so many times as long."""

    def slower(activity: Activity) -> Activity:
        return chain(
            [
                Activity(0, phase.work * factor, tuple(u._replace(rate=u.rate / factor) for u in phase.uses))
                for phase in activity.phases
            ]
        )

    free = scene._replace(jobs=[Job(0, chain([p._replace(latency=0) for p in j.activity.phases])) for j in scene.jobs])
    scaled = Scene([Job(0, slower(job.activity)) for job in scene.jobs], [c / factor for c in scene.capacity], [])
    expected = [end * factor for end in run(free)[0]]
    assert run(scaled)[0] == pytest.approx(expected, abs=factor * slack(scene))


@given(scenes())
@simulations(60)
def test_same_scene_same_answers(scene: Scene) -> None:
    one, two = run(scene), run(scene)
    assert one[0] == two[0]
    assert all(one[1].of(r) == two[1].of(r) for r in range(len(scene.capacity)))


@given(scenes())
@simulations(150)
def test_an_independent_solver_agrees(scene: Scene) -> None:
    assert run(scene)[0] == pytest.approx(replayed(scene), abs=slack(scene) / 20)


BIG = (
    Activity(1, 7_000, (Use(0, 0.6, 1.0),)),
    Activity(0, 5_000, (Use(1, 1.0, 1.0), Use(0, 0.3, 2.0))),
    Activity(3, 6_000, ()),
)


@given(tapes(BIG, (1.0, 1.0), sound=True), tapes(BIG, (1.0, 1.0), sound=True), st.integers(0, 20))
def test_players_that_share_nothing_run_as_alone(one: Tape, two: Tape, start: int) -> None:
    alone = []
    for made in (one, two):
        clock = Clock(solver=max_min)
        alone.append(Player(clock, made))
        clock.run()
    clock = Clock(solver=max_min)
    both = [Player(clock, one), Player(clock, two, start)]
    clock.run()
    for together, apart, made in zip(both, alone, (one, two), strict=True):
        spans = np.array(times(together.timeline())), np.array(times(apart.timeline()))
        # What is left of work is rounded when others begin, so that an end between two ticks may be either.
        np.testing.assert_allclose(*spans, rtol=0, atol=len(made.duration))


@given(tapes(BIG, (1.0, 1.0), sound=True))
def test_players_alike_on_the_same_resources_end_together(made: Tape) -> None:
    clock = Clock(made.capacity, max_min)
    both = [Player(clock, made, resources=[0, 1]) for _ in range(2)]
    clock.run()
    assert times(both[0].timeline()) == times(both[1].timeline())


class _Work:
    """An activity of the independent solver: the phases to come, and what is left of the present one."""

    def __init__(self, job: Job) -> None:
        self.to_come = list(job.activity.phases)
        self.uses: tuple[Use, ...] = ()
        self.left, self.due, self.joins = 0.0, -1, False
        self.next(job.start)

    def next(self, now: int) -> None:
        """Wait for the latency of the next phase; one without work ends with it."""
        self.uses, self.left, self.joins = (), 0.0, False
        if self.to_come:
            phase = self.to_come.pop(0)
            self.due, self.joins, self.phase = now + phase.latency, True, phase
        else:
            self.due = -1

    def join(self) -> None:
        """Begin to work."""
        self.uses, self.left, self.joins = self.phase.uses, float(self.phase.work), False


def replayed(scene: Scene) -> list[int]:
    """When each activity ends: from event to event, all speeds found anew by raising all flows together."""
    works, capacity = [_Work(job) for job in scene.jobs], list(scene.capacity)
    ends, changes, now = [-1] * len(works), sorted(scene.changes, key=lambda change: change.tick), 0
    while True:
        for change in [change for change in changes if change.tick == now]:
            capacity[change.resource] = change.capacity
            changes.remove(change)
        while due := [work for work in works if work.due == now]:
            for work in due:
                if work.joins:
                    work.join()
                    work.due = now if work.left == 0 else -2
                else:
                    work.next(now)
                    ends[works.index(work)] = now if work.due < 0 else -1
        active = [work for work in works if work.left > 0]
        speeds = filled([work.uses for work in active], capacity)
        for work, speed in zip(active, speeds, strict=True):
            work.due = now + round(work.left / speed) if speed > 0 else -2
        if any(work.due == now for work in active):
            continue
        ahead = [work.due for work in works if work.due > now] + [change.tick for change in changes]
        if not ahead:
            return ends
        for work, speed in zip(active, speeds, strict=True):
            work.left = max(work.left - speed * (min(ahead) - now), 1e-9)
        now = min(ahead)


def filled(uses: Sequence[Sequence[Use]], capacity: Sequence[float]) -> list[float]:
    """Progressive filling: the flows of all rise together until a resource is full or they have what they want."""
    held = [
        sum(u.rate for each in uses for u in each if u.flows == RESERVED and u.resource == r)
        for r in range(len(capacity))
    ]
    left = [max(units - taken, 0.0) for units, taken in zip(capacity, held, strict=True)]
    limit = [
        min([1.0, *(capacity[u.resource] / held[u.resource] for u in each if u.flows == RESERVED)]) for each in uses
    ]
    shared = [[u for u in each if u.flows != RESERVED] for each in uses]
    want = [each[0].rate / each[0].flows * most if each else 0.0 for each, most in zip(shared, limit, strict=True)]
    level = {number: want[number] for number, each in enumerate(shared) if not each}
    while len(level) < len(uses):
        rising = [number for number in range(len(uses)) if number not in level]
        room = list(left)
        for number, each in enumerate(shared):
            for use in each:
                room[use.resource] -= use.flows * level.get(number, 0.0)
        flows = [sum(u.flows for n in rising for u in shared[n] if u.resource == r) for r in range(len(capacity))]
        tops = {r: max(room[r], 0.0) / flows[r] for r in range(len(capacity)) if flows[r]}
        height = min([*tops.values(), *(want[n] for n in rising)])
        full = {r for r, top in tops.items() if top <= height * (1 + 1e-12)}
        for n in rising:
            if want[n] <= height * (1 + 1e-12) or any(u.resource in full for u in shared[n]):
                level[n] = min(height, want[n])
    return [limit[n] if not each else level[n] * each[0].flows / each[0].rate for n, each in enumerate(shared)]
