"""Activities on shared resources, with the max-min solver of the fabric."""

import gc
from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeAlias

import pytest

from simulator.engine.clock import Clock
from simulator.engine.executor import execute
from simulator.engine.running import Running
from simulator.engine.tape import Activity, Use
from simulator.fabric.sharing import max_min
from tests.tapes import tape, times


def use(rate: float, resource: int = 0, flows: float = 1.0) -> Use:
    return Use(resource, rate, flows)


Times: TypeAlias = list[tuple[int, int]]


def run(*activities: Activity, lanes: Sequence[Sequence[int]], capacity: Sequence[float] = (1.0,)) -> Times:
    """Run lanes of activities, given by number."""
    runs = dict(enumerate(number for lane in lanes for number in lane))
    idle = [[0] * len(lane) for lane in lanes]
    return times(execute(tape(*idle, runs=runs, activities=activities, capacity=capacity), max_min))


def test_alone_it_lasts_latency_and_work() -> None:
    assert run(Activity(3, 10, (use(0.7),)), lanes=[[0, 0]]) == [(0, 13), (13, 26)]


def test_alone_it_is_exact_beyond_the_precision_of_floats() -> None:
    long = 2**60 + 1
    assert run(Activity(1, long, (use(1.0),)), lanes=[[0]]) == [(0, long + 1)]


def test_two_that_fit_do_not_disturb_each_other() -> None:
    assert run(Activity(0, 10, (use(0.4),)), Activity(0, 17, (use(0.6),)), lanes=[[0], [1]]) == [(0, 10), (0, 17)]


def test_two_equals_share() -> None:
    assert run(Activity(0, 10, (use(1.0),)), lanes=[[0], [0]]) == [(0, 20), (0, 20)]


def test_the_other_speeds_up_when_one_ends() -> None:
    assert run(Activity(0, 10, (use(1.0),)), Activity(0, 30, (use(1.0),)), lanes=[[0], [1]]) == [(0, 20), (0, 40)]


def test_the_first_slows_down_when_another_comes() -> None:
    assert run(Activity(0, 10, (use(1.0),)), Activity(4, 3, (use(1.0),)), lanes=[[0], [1]]) == [(0, 13), (0, 10)]


def test_what_has_ended_goes_without_a_search_for_cycles() -> None:
    clock = Clock((1.0,), max_min)
    before = gc.isenabled()
    gc.collect()
    gc.disable()
    for activity in (Activity(0, 10, (use(1.0),)), Activity(2, 30, (use(1.0),)), Activity(0, 5, (use(0.1),))):
        clock.start(activity, lambda: None)
    clock.run()
    left = [found for found in gc.get_objects() if isinstance(found, Running)]
    if before:
        gc.enable()
    assert not left


def test_latency_shares_nothing() -> None:
    assert run(Activity(10, 10, (use(1.0),)), Activity(0, 10, (use(1.0),)), lanes=[[0], [1]]) == [(0, 20), (0, 10)]


def test_shares_are_weighted_by_flows() -> None:
    ends = run(Activity(0, 30, (use(1.0, flows=3.0),)), Activity(0, 30, (use(1.0),)), lanes=[[0], [1]])
    assert ends == [(0, 40), (0, 60)]


def test_work_of_no_length_ends_at_once() -> None:
    empty, busy = Activity(4, 0, (use(1.0),)), Activity(0, 9, (use(1.0),))
    assert run(empty, busy, lanes=[[0, 0], [1]]) == [(0, 4), (4, 8), (0, 9)]
    assert run(Activity(0, 0, ()), lanes=[[0, 0]]) == [(0, 0), (0, 0)]


def test_what_needs_no_resource_never_shares() -> None:
    assert run(Activity(1, 5, ()), lanes=[[0], [0]]) == [(0, 6), (0, 6)]


def test_one_resource_named_twice_counts_twice() -> None:
    twice = Activity(0, 10, (use(0.5), use(0.5)))
    assert run(twice, Activity(0, 10, (use(1.0, flows=2.0),)), lanes=[[0], [1]]) == [(0, 20), (0, 20)]


def test_a_chain_of_resources_is_one_component() -> None:
    """B holds A back on resource 0 and C on resource 1; when B ends both run freely."""
    a, b, c = Activity(0, 10, (use(1.0),)), Activity(0, 5, (use(1.0), use(1.0, 1))), Activity(0, 10, (use(1.0, 1),))
    assert run(a, b, c, lanes=[[0], [1], [2]], capacity=[1.0, 1.0]) == [(0, 15), (0, 10), (0, 15)]


def test_the_end_is_the_nearest_tick() -> None:
    ends = run(Activity(0, 10, (use(1.0),)), lanes=[[0], [0], [0]])
    assert ends == [(0, 30)] * 3
    ends = run(Activity(0, 10, (use(0.8),)), lanes=[[0], [0]])
    assert ends == [(0, 16)] * 2
    ends = run(Activity(0, 7, (use(0.9),)), lanes=[[0], [0]])  # 7 * 0.9 * 2 = 12.6
    assert ends == [(0, 13)] * 2


def test_only_the_component_that_changed_is_solved_and_once_an_instant() -> None:
    asked: list[int] = []

    def watch(uses: Sequence[Sequence[Use]], capacity: Mapping[int, float]) -> Sequence[float]:
        asked.append(len(uses))
        return max_min(uses, capacity)

    pair = [Activity(0, 10 + resource, (use(1.0, resource),)) for resource in range(2)]
    made = tape(
        [0], [0], [0], [5, 0], [5, 0], runs={0: 0, 1: 0, 2: 0, 4: 1, 6: 1}, activities=pair, capacity=[1.0, 1.0]
    )
    execute(made, watch)
    assert asked == [3, 2]


def test_components_seen_before_are_not_solved_again() -> None:
    calls = 0

    def watch(uses: Sequence[Sequence[Use]], capacity: Mapping[int, float]) -> Sequence[float]:
        nonlocal calls
        calls += 1
        return max_min(uses, capacity)

    lanes = [[0] * 50, [0] * 50]
    busy = Activity(1, 10, (use(0.75),))
    made = tape(*lanes, runs=dict.fromkeys(range(100), 0), activities=[busy], capacity=[1.0])
    assert execute(made, watch).makespan == 50 * 16
    assert calls == 1


@pytest.mark.parametrize("pieces", [2, 3, 7])
def test_cutting_an_activity_in_time_changes_nothing_beyond_a_tick_a_piece(pieces: int) -> None:
    rival = Activity(0, 5000, (use(1.0),))
    whole = run(Activity(0, 2100, (use(0.8),)), rival, lanes=[[0], [1]])
    cut = run(Activity(0, 2100 // pieces, (use(0.8),)), rival, lanes=[[0] * pieces, [1]])
    assert abs(cut[pieces - 1][1] - whole[0][1]) <= pieces
    assert abs(cut[-1][1] - whole[-1][1]) <= pieces


@pytest.mark.parametrize("parts", [2, 4])
def test_cutting_an_activity_in_size_changes_nothing(parts: int) -> None:
    rival = Activity(0, 500, (use(1.0),))
    whole = run(Activity(0, 210, (use(0.8, flows=2.0),)), rival, lanes=[[0], [1]])
    cut = run(Activity(0, 210, (use(0.8 / parts, flows=2.0 / parts),)), rival, lanes=[[0]] * parts + [[1]])
    assert cut == [whole[0]] * parts + [whole[1]]


def test_what_is_kept_of_scarce_resources_is_what_they_are() -> None:
    """Activities come, end and are stopped, and capacities change; whatever is kept then is as if found anew."""
    draw, clock = Random(3), Clock([1.0] * 6, max_min)
    running: list[Running] = []
    kept = 0

    def check() -> None:
        nonlocal kept
        fluid = clock.fluid
        for one in {one for users in fluid.users for one in users if one.scarce is not None}:
            kept += len(one.scarce or ())
            assert one.scarce == [u for u in one.needs.uses if fluid.asked[u.resource] > fluid.most[u.resource]]

    def act() -> None:
        check()
        uses = tuple(
            use(draw.choice([0.2, 0.5, 0.9]), resource) for resource in draw.sample(range(6), draw.randint(2, 4))
        )
        running.append(clock.start(Activity(draw.randint(0, 3), draw.randint(5, 60), uses), check))
        if draw.random() < 0.2:
            clock.stop(draw.choice(running))
        if draw.random() < 0.2:
            clock.change(draw.randrange(6), draw.choice([0.3, 1.0, 2.0]))
        check()

    for tick in range(200):
        clock.at(3 * tick, lambda _: act())
    clock.run()
    assert kept > 1000
