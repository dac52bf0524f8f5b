"""What `auto` finds, against an exact search and against the schedules with names."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import product
from math import inf

import numpy as np
import pytest

from simulator.errors import InfeasibleError, InputError
from simulator.program.timing import Costs, least_makespan, time_schedule
from simulator.program.validate import validate
from simulator.training.schedules import SCHEDULES, Pipeline, auto, one_f_one_b

State = tuple[tuple[tuple[int, int, int], ...], tuple[tuple[int, int], ...]]
"""Passes F, I, W that each rank has begun, and the kind and ticks left of the one under way (0 ticks: none)."""


def exact(microbatches: int, ticks: Sequence[tuple[int, int, int]], limits: Sequence[float]) -> int:
    """The least makespan of one stage a rank with F, I, W of its own: all states that can be reached, in the order of
    time."""
    ranks = len(ticks)
    start: State = (((0, 0, 0),) * ranks, ((0, 0),) * ranks)
    queue, seen = [(0, start)], set()
    while queue:
        now, state = heappop(queue)
        begun, running = state
        if all(one == (microbatches,) * 3 for one in begun) and not any(left for _, left in running):
            return now
        if state in seen:
            continue
        seen.add(state)
        for chosen in product(*(options(state, rank, microbatches, limits[rank]) for rank in range(ranks))):
            new_begun, new_running = list(begun), list(running)
            for rank, kind in enumerate(chosen):
                if kind is not None:
                    forward, back, weights = (n + (k == kind) for k, n in enumerate(begun[rank]))
                    new_begun[rank] = (forward, back, weights)
                    new_running[rank] = (kind, ticks[rank][kind])
            lefts = [left for _, left in new_running if left]
            if lefts:
                step = min(lefts)
                after = tuple((kind, left - step) if left > step else (0, 0) for kind, left in new_running)
                heappush(queue, (now + step, (tuple(new_begun), after)))
    raise AssertionError("no schedule")


def options(state: State, rank: int, microbatches: int, limit: float) -> Iterator[int | None]:
    """What a rank may begin: None is to wait, or to go on."""
    begun, running = state
    yield None
    if running[rank][1]:
        return

    def ended(other: int, kind: int) -> int:
        return begun[other][kind] - (running[other][1] > 0 and running[other][0] == kind)

    forward, backward, weights = begun[rank]
    if forward < microbatches and forward - weights < limit and (rank == 0 or ended(rank - 1, 0) > forward):
        yield 0
    if backward < forward and (rank == len(begun) - 1 or ended(rank + 1, 1) > backward):
        yield 1
    if weights < backward:
        yield 2


@pytest.mark.parametrize("costs", [(1, 1, 1), (2, 3, 1), (3, 4, 2), (1, 2, 2)])
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 3), (2, 4), (3, 3), (3, 4)])
@pytest.mark.parametrize("limit", [1, 2, 3, inf])
def test_within_two_percent_of_an_exact_search(
    ranks: int, microbatches: int, costs: tuple[int, int, int], limit: float
) -> None:
    ticks = Costs.equal(ranks, *costs)
    made = time_schedule(auto(Pipeline(ranks, 1, microbatches, costs=ticks, limit=limit)), ticks)
    assert made.makespan <= 1.02 * exact(microbatches, [costs] * ranks, [limit] * ranks)
    assert made.peak.max() <= limit


@pytest.mark.parametrize("costs", [(1, 1, 1), (2, 3, 1), (4, 2, 1), (1, 4, 2)])
@pytest.mark.parametrize(
    ("layers", "microbatches", "limit"),
    [((3, 2, 1), 3, 2), ((4, 4, 1), 3, 2), ((1, 3, 3), 3, 2), ((2, 2, 2), 4, 2), ((1, 2), 4, 3)],
)
def test_of_uneven_stages_as_short_as_an_exact_search(
    layers: tuple[int, ...], microbatches: int, limit: int, costs: tuple[int, int, int]
) -> None:
    """Stages of so many layers keep as much; the limit is so many microbatches of the largest. List schedulers take up
    to 18 % longer."""
    own = [(costs[0] * many, costs[1] * many, costs[2] * many) for many in layers]
    forward, back, weights = np.array(own, np.int64).T
    ticks = Costs(forward, back, weights, np.array(layers, np.float64), np.array(layers, np.float64))
    most = limit * max(layers)
    made = time_schedule(auto(Pipeline(len(layers), 1, microbatches, costs=ticks, limit=most)), ticks)
    assert made.makespan == exact(microbatches, own, [most // many for many in layers])
    assert made.peak.max() <= most


@pytest.mark.parametrize("costs", [(1, 1, 1), (2, 3, 1)])
@pytest.mark.parametrize(("ranks", "chunks", "microbatches"), [(4, 1, 8), (4, 2, 8), (3, 2, 7)])
@pytest.mark.parametrize("limit", [2, 6, 9, inf])
def test_not_worse_than_any_name(
    ranks: int, chunks: int, microbatches: int, costs: tuple[int, int, int], limit: float
) -> None:
    ticks = Costs.equal(ranks * chunks, *costs)
    sizes = Pipeline(ranks, chunks, microbatches, costs=ticks, limit=limit)
    schedule = validate(auto(sizes))
    made = time_schedule(schedule, ticks)
    assert made.peak.max() <= limit
    assert made.makespan >= least_makespan(ticks, schedule.rank_of_stage(), microbatches)
    for name in set(SCHEDULES.names()) - {"auto"}:
        try:
            other = time_schedule(SCHEDULES.get(name)(sizes), ticks)
        except InputError:
            continue
        if not other.schedule.plain:  # twice the parameters, or less work
            continue
        assert made.makespan <= other.makespan or other.peak.max() > limit


def test_published_bubble_within_a_limit() -> None:
    """ZB-1p of arXiv:2401.10241, Table 5: 1.5B on 8 devices, 24 microbatches, at most p of them kept: 0.1585."""
    ones = np.ones(8, np.int64)
    costs = Costs(10_000 * ones, 9_765 * ones, 5_041 * ones, 1.0 * ones, 1.0 * ones, send=324)
    timing = time_schedule(auto(Pipeline(8, 1, 24, costs=costs, limit=8)), costs)
    assert 1 - timing.work[0] / timing.makespan <= 0.1586


@pytest.mark.parametrize(
    ("ranks", "microbatches", "inputs", "weights", "send", "rest", "published"),
    [
        (8, 24, 9_765, 5_041, 324, 0.366, 0.0433),
        (8, 32, 9_769, 5_040, 338, 0.366, 0.0039),
        (8, 64, 9_758, 5_026, 411, 0.366, 0.0026),
        (8, 24, 9_908, 6_705, 177, 0.432, 0.0029),
        (16, 48, 9_913, 7_167, 332, 0.432, 0.0066),
    ],
)
def test_published_bubbles_without_a_barrier(
    ranks: int, microbatches: int, inputs: int, weights: int, send: int, rest: float, published: float
) -> None:
    """ZB-2p there: 2 p microbatches at most, idle time between first and last pass. What is kept from I to W is counted
    from Table 1: 32 s h of s h (34 + 5 a s / h) bytes. The step itself is no longer than the shortest."""
    ones = np.ones(ranks, np.int64)
    costs = Costs(10_000 * ones, inputs * ones, weights * ones, np.ones(ranks), np.full(ranks, rest), send=send)
    sizes = Pipeline(ranks, 1, microbatches, costs=costs, limit=2.0 * ranks)
    plain, free = (time_schedule(auto(replace(sizes, barrier=wait)), costs) for wait in (True, False))
    bubble = 1 - free.work[0] / int((free.work + free.own_idle).max())
    assert bubble == pytest.approx(published, abs=0.0015)
    assert free.peak.max() <= 2 * ranks
    assert free.makespan <= 1.001 * plain.makespan
    assert bubble <= 1 - plain.work[0] / int((plain.work + plain.own_idle).max())


def test_a_limit_that_no_schedule_meets() -> None:
    with pytest.raises(InfeasibleError, match=r"no schedule keeps 1.5 or less: 2 is the least .one microbatch of each"):
        auto(Pipeline(4, 2, 8, limit=1.5))
    assert auto(Pipeline(4, 2, 8, limit=2.0)).ranks == 4


def test_a_maker_that_ignores_chunks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would seem to take half of the time."""
    things = dict(SCHEDULES._things) | {"first-chunk-only": lambda p: one_f_one_b(Pipeline(p.ranks, 1, p.microbatches))}
    monkeypatch.setattr(SCHEDULES, "_things", things)
    assert auto(Pipeline(3, 2, 6)).stages == 6
