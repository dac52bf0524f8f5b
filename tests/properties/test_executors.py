"""Both executors read the same tape: they agree to the tick, or one of them says why it cannot."""

from itertools import pairwise

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from simulator.engine.executor import execute
from simulator.engine.rendezvous import gather, lone_ticks
from simulator.engine.tape import RESERVED, Activity, Tape, Use, chain
from simulator.errors import DeadlockError
from simulator.fabric.sharing import max_min
from simulator.program.critical import critical_path
from simulator.program.maxplus import NotExact, sweep
from tests.tapes import tape, tapes

SMALL = (
    Activity(2, 3, (Use(0, 0.2, 1.0), Use(1, 0.1, 2.0))),
    Activity(0, 4, (Use(1, 0.15, 1.0),)),
    Activity(1, 0, ()),
    chain([Activity(1, 4, (Use(1, 0.2, 1.0),)), Activity(0, 0, ()), Activity(0, 3, (Use(0, 0.2, RESERVED),))]),
)
"""Five lanes of these never ask for more than there is."""
BIG = (
    Activity(1, 7, (Use(0, 0.6, 1.0),)),
    Activity(0, 5, (Use(1, 1.0, 1.0), Use(0, 0.3, 2.0))),
    Activity(3, 6, ()),
    chain([Activity(1, 4, (Use(1, 0.8, 1.0),)), Activity(0, 3, (Use(0, 0.5, RESERVED),)), Activity(2, 0, ())]),
)
CAPACITY = (1.0, 1.0)


def outcome(run: object, *arguments: object) -> object:
    """A timeline as bytes, or the words of a deadlock."""
    try:
        timeline = run(*arguments)  # type: ignore[operator]
    except DeadlockError as error:
        return str(error)
    return timeline.start.tobytes(), timeline.end.tobytes()


@given(tapes())
def test_they_agree_on_times_and_on_deadlocks(made: Tape) -> None:
    assert outcome(execute, made) == outcome(sweep, made)


@given(tapes(activities=SMALL, capacity=CAPACITY))
def test_they_agree_where_resources_suffice(made: Tape) -> None:
    assert outcome(execute, made, max_min) == outcome(sweep, made)


@given(tapes(activities=BIG, capacity=CAPACITY))
def test_they_agree_or_the_sweep_refuses(made: Tape) -> None:
    try:
        swept = outcome(sweep, made)
    except NotExact:
        swept = None
    simulated = outcome(execute, made, max_min)
    assert swept is None or swept == simulated


@given(tapes(activities=BIG, capacity=CAPACITY))
def test_same_tape_same_bytes(made: Tape) -> None:
    assert outcome(execute, made, max_min) == outcome(execute, made, max_min)


@given(tapes(activities=BIG, capacity=CAPACITY, sound=True))
def test_a_sound_tape_never_deadlocks_and_keeps_its_promises(made: Tape) -> None:
    timeline = execute(made, max_min)
    assert np.all(timeline.end - timeline.start >= lone_ticks(made))
    for first, stop in pairwise(made.lane_start.tolist()):
        assert np.all(timeline.start[first + 1 : stop] >= timeline.end[first : max(stop - 1, first)])
    later = np.repeat(np.arange(len(made)), np.diff(made.after_start))
    assert np.all(timeline.start[later] >= timeline.end[made.after])
    busy = [lone_ticks(made)[first:stop].sum() for first, stop in pairwise(made.lane_start.tolist())]
    assert timeline.makespan >= max(busy)


@given(tapes(activities=BIG, capacity=CAPACITY, sound=True))
def test_no_resource_gives_more_than_it_has(made: Tape) -> None:
    timeline = execute(made, max_min)
    runs = made.activity[made.activity >= 0]
    for resource, capacity in enumerate(made.capacity):
        amount = sum(
            use.rate * phase.work
            for number in runs.tolist()
            for phase in made.activities[number].phases
            for use in phase.uses
            if use.resource == resource
        )
        assert amount <= capacity * (timeline.makespan + 0.5 * len(runs) + 1e-6)


@given(tapes())
def test_rendezvous_start_and_end_together(made: Tape) -> None:
    try:
        timeline = execute(made)
    except DeadlockError:
        assume(False)
    number = gather(made).number
    for rendezvous in range(number.max(initial=-1) + 1):
        assert len(np.unique(timeline.start[number == rendezvous])) == 1
        assert len(np.unique(timeline.end[number == rendezvous])) == 1


@given(tapes())
def test_the_critical_path_has_no_gap(made: Tape) -> None:
    try:
        timeline = sweep(made)
    except DeadlockError:
        assume(False)
    path = critical_path(made, timeline)
    if not len(path):
        assert timeline.makespan == 0
        return
    assert timeline.start[path[0]] == 0
    assert timeline.end[path[-1]] == timeline.makespan
    assert np.array_equal(timeline.start[path[1:]], timeline.end[path[:-1]])


@given(tapes(sound=True), st.integers(0, 9), st.data())
def test_where_nothing_is_shared_less_work_never_hurts(made: Tape, less: int, data: st.DataObject) -> None:
    assume(len(made))
    op = data.draw(st.integers(0, len(made) - 1))
    shorter = made.duration.copy()
    shorter[op] = min(shorter[op], less)
    quicker = Tape(made.lane_start, shorter, made.after_start, made.after, made.rendezvous, made.activity)
    assert sweep(quicker).makespan <= sweep(made).makespan


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 40)), min_size=1, max_size=6))
def test_work_is_conserved_on_one_resource(jobs: list[tuple[int, int]]) -> None:
    """Whoever comes when, a resource that is always wanted ends its work at the same tick, give or take rounding."""
    activities = [Activity(latency, work, (Use(0, 1.0, 1.0),)) for latency, work in jobs]
    made = tape(*[[0]] * len(jobs), runs={i: i for i in range(len(jobs))}, activities=activities, capacity=[1.0])
    ends = 0
    for latency, work in sorted(jobs):
        ends = max(ends, latency) + work
    assert abs(execute(made, max_min).makespan - ends) <= len(jobs)
