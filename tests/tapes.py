"""Tapes made by hand, or by Hypothesis, for tests of both executors."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from simulator.engine.tape import Activity, Tape, Timeline


def tape(
    *lanes: Sequence[int],
    after: dict[int, Sequence[int]] | None = None,
    rendezvous: Sequence[Sequence[int]] = (),
    runs: dict[int, int] | None = None,
    activities: Sequence[Activity] = (),
    capacity: Sequence[float] = (),
) -> Tape:
    """A tape from the durations of each lane; operations are numbered lane after lane.

    `after` maps an operation to those it waits for, `rendezvous` lists the members of each, `runs` maps an operation to
    its activity.
    """
    duration = [ticks for lane in lanes for ticks in lane]
    rows = [list((after or {}).get(op, ())) for op in range(len(duration))]
    member, activity = np.full(len(duration), -1), np.full(len(duration), -1)
    for number, members in enumerate(rendezvous):
        member[list(members)] = number
    for op, number in (runs or {}).items():
        activity[op] = number
    return Tape(
        lane_start=_starts([len(lane) for lane in lanes]),
        duration=np.array(duration, np.int64),
        after_start=_starts([len(row) for row in rows]),
        after=np.array([other for row in rows for other in row], np.int64),
        rendezvous=member,
        activity=activity,
        activities=tuple(activities),
        capacity=np.array(capacity, np.float64),
    )


def _starts(sizes: Sequence[int]) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def times(timeline: Timeline) -> list[tuple[int, int]]:
    """(start, end) of every operation."""
    return list(zip(timeline.start.tolist(), timeline.end.tolist(), strict=True))


@st.composite
def tapes(
    draw: st.DrawFn, activities: Sequence[Activity] = (), capacity: Sequence[float] = (), sound: bool = False
) -> Tape:
    """Small tapes with dependencies, rendezvous and, where given, activities; `sound` ones do not deadlock."""
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5))
    total = sum(sizes)
    lane_of = np.repeat(np.arange(len(sizes)), sizes)
    ticks = draw(st.lists(st.integers(0, 9), min_size=total, max_size=total))
    place = draw(st.permutations(range(total))) if total else []
    rank = _by_lane(list(place), lane_of) if sound else list(range(total))
    after: dict[int, list[int]] = {}
    pairs = st.tuples(st.integers(0, max(total - 1, 0)), st.integers(0, max(total - 1, 0)))
    for later, earlier in draw(st.lists(pairs, max_size=total)):
        if lane_of[later] != lane_of[earlier] and (not sound or rank[earlier] < rank[later]):
            after.setdefault(later, []).append(earlier)
    rendezvous: list[list[int]] = []
    if not sound:
        free = list(place)
        for size in draw(st.lists(st.integers(1, 4), max_size=3)):
            rendezvous.append(free[:size])
            free = free[size:]
    runs = {op: draw(st.integers(-1, len(activities) - 1)) for op in range(total)} if activities else {}
    lanes = np.split(np.array(ticks, np.int64), np.cumsum(sizes)[:-1])
    return tape(
        *[lane.tolist() for lane in lanes],
        after=after,
        rendezvous=[m for m in rendezvous if m],
        runs=runs,
        activities=activities,
        capacity=capacity,
    )


def _by_lane(place: list[int], lane_of: np.ndarray) -> list[int]:
    """The same places, rising along each lane."""
    rank = np.array(place)
    for lane in np.unique(lane_of):
        rank[lane_of == lane] = np.sort(rank[lane_of == lane])
    return rank.tolist()
