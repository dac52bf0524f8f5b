"""Max-min fairness: against linear programmes, and by its properties."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.columns import max_min
from tests.effort import simulations


class Uses(NamedTuple):
    """A sharing problem in the columns of the solver."""

    activity: list[int]
    resource: list[int]
    rate: list[float]
    flows: list[float]
    capacity: list[float]

    @property
    def count(self) -> int:
        """Activities."""
        return max(self.activity, default=-1) + 1


@st.composite
def problems(draw: st.DrawFn, one_rate_per_flow: bool = False) -> Uses:
    """Up to eight activities on up to five resources; each uses at least one."""
    resources = draw(st.integers(1, 5))
    sizes = st.floats(0.1, 10)
    rows: list[tuple[int, int, float, float]] = []
    for activity in range(draw(st.integers(1, 8))):
        per_flow = draw(sizes)
        for resource in sorted(draw(st.sets(st.integers(0, resources - 1), min_size=1))):
            flows = draw(st.sampled_from([0.5, 1.0, 2.0, 8.0]))
            rows.append((activity, resource, per_flow * flows if one_rate_per_flow else draw(sizes), flows))
    columns = [list(column) for column in zip(*rows, strict=True)]
    capacity = draw(st.lists(st.floats(0.2, 20), min_size=resources, max_size=resources))
    return Uses(columns[0], columns[1], columns[2], columns[3], capacity)  # type: ignore[arg-type]


def loads(uses: Uses, speeds: Sequence[float]) -> np.ndarray:
    """What is taken of each resource."""
    taken = np.zeros(len(uses.capacity))
    np.add.at(taken, uses.resource, np.array(uses.rate) * np.array(speeds)[uses.activity])
    return taken


@given(problems())
def test_speeds_are_fractions_and_no_capacity_is_exceeded(uses: Uses) -> None:
    speeds = max_min(*uses)
    assert all(0 <= speed <= 1 for speed in speeds)
    assert (loads(uses, speeds) <= np.array(uses.capacity) * (1 + 1e-8)).all()


@given(problems())
def test_every_activity_runs_at_full_speed_or_has_a_full_resource(uses: Uses) -> None:
    speeds = max_min(*uses)
    full = loads(uses, speeds) >= np.array(uses.capacity) * (1 - 1e-7)
    held = {a for a, r in zip(uses.activity, uses.resource, strict=True) if full[r]}
    assert all(speed >= 1 - 1e-8 or activity in held for activity, speed in enumerate(speeds))


@given(problems(one_rate_per_flow=True))
def test_at_its_bottleneck_nobody_gets_more_per_flow(uses: Uses) -> None:
    speeds = max_min(*uses)
    full = loads(uses, speeds) >= np.array(uses.capacity) * (1 - 1e-7)
    rows = list(zip(uses.activity, uses.resource, uses.rate, uses.flows, strict=True))
    most = {
        r: max(speeds[a] * rate / flows for a, other, rate, flows in rows if other == r) for r in set(uses.resource)
    }
    for activity, speed in enumerate(speeds):
        shares = [speed * rate / flows / most[r] for a, r, rate, flows in rows if a == activity and full[r]]
        assert speed >= 1 - 1e-8 or max(shares) >= 1 - 1e-6


@given(problems(), st.floats(0.05, 0.95), st.data())
def test_an_activity_cut_in_two_changes_nothing(uses: Uses, part: float, data: st.DataObject) -> None:
    victim = data.draw(st.integers(0, uses.count - 1))
    halves = [row for row in zip(*uses[:4], strict=True) if row[0] == victim]
    kept = [
        (a, r, rate * part, flows * part) if a == victim else (a, r, rate, flows)
        for a, r, rate, flows in zip(*uses[:4], strict=True)
    ]
    added = [(uses.count, r, rate * (1 - part), flows * (1 - part)) for _, r, rate, flows in halves]
    columns = [list(column) for column in zip(*kept, *added, strict=True)]
    speeds = max_min(columns[0], columns[1], columns[2], columns[3], uses.capacity)  # type: ignore[arg-type]
    whole = max_min(*uses)
    assert speeds[: uses.count] == pytest.approx(whole, rel=1e-6, abs=1e-9)
    assert speeds[uses.count] == pytest.approx(whole[victim], rel=1e-6, abs=1e-9)


@given(problems(one_rate_per_flow=True))
@simulations(60)
def test_it_is_the_solution_of_the_linear_programmes(uses: Uses) -> None:
    assert max_min(*uses) == pytest.approx(by_linear_programmes(uses), rel=1e-5, abs=1e-7)


def by_linear_programmes(uses: Uses) -> np.ndarray:
    """Lexicographic max-min of the rate per flow: raise the smallest as far as it goes, fix who cannot rise, go on."""
    count = uses.count
    per_flow = np.zeros(count)
    matrix = np.zeros((len(uses.capacity), count))
    for activity, resource, rate, flows in zip(*uses[:4], strict=True):
        per_flow[activity] = rate / flows
        matrix[resource, activity] = rate
    speeds, fixed = np.zeros(count), np.zeros(count, bool)
    while not fixed.all():
        level = _highest(matrix, uses.capacity, per_flow, speeds, fixed)
        for activity in np.flatnonzero(~fixed):
            if (
                _reach(activity, matrix, uses.capacity, per_flow, speeds, fixed, level)
                <= level / per_flow[activity] + 1e-7
            ):
                speeds[activity] = min(1.0, level / per_flow[activity])
            else:
                continue
            fixed[activity] = True
    return speeds


def _highest(
    matrix: np.ndarray, capacity: list[float], per_flow: np.ndarray, speeds: np.ndarray, fixed: np.ndarray
) -> float:
    """The level that all open activities, as far as they can run that fast, reach together."""
    count = len(per_flow)
    # Variables: speeds, then the level; an open activity takes the level or, where that is less, full speed.
    best = 0.0
    for capped in sorted({0.0, *per_flow[~fixed]}):
        full = ~fixed & (per_flow <= capped)
        bounds = [(s, s) if f else (1, 1) if c else (0, 1) for s, f, c in zip(speeds, fixed, full, strict=True)]
        rows = [[*(-per_flow[a] * (np.arange(count) == a)), 1.0] for a in np.flatnonzero(~fixed & ~full)]
        if not rows:
            rows = [[0.0] * count + [1.0]]
            limit = [float(per_flow[~fixed].max())]
        else:
            limit = [0.0] * len(rows)
        result = linprog(
            [0.0] * count + [-1.0],
            A_ub=np.vstack([np.hstack([matrix, np.zeros((len(matrix), 1))]), rows]),
            b_ub=[*capacity, *limit],
            bounds=[*bounds, (0, None)],
        )
        if result.success and -result.fun >= capped - 1e-9:
            best = max(best, -float(result.fun))
    return best


def _reach(
    activity: int,
    matrix: np.ndarray,
    capacity: list[float],
    per_flow: np.ndarray,
    speeds: np.ndarray,
    fixed: np.ndarray,
    level: float,
) -> float:
    """How fast one activity can run where all others that are open have at least the level."""
    floor = np.minimum(level / per_flow, 1.0)
    bounds = [(s, s) if f else (low - 1e-10, 1) for s, f, low in zip(speeds, fixed, floor, strict=True)]
    result = linprog(-(np.arange(len(per_flow)) == activity).astype(float), A_ub=matrix, b_ub=capacity, bounds=bounds)
    return -float(result.fun) if result.success else float(floor[activity])


@given(problems(), st.data())
def test_what_is_reserved_comes_first_and_the_rest_shares_what_it_leaves(uses: Uses, data: st.DataObject) -> None:
    """One more activity that reserves a part of each resource: the others run as on smaller ones, it runs in full."""
    parts = data.draw(st.lists(st.floats(0.0, 0.9), min_size=len(uses.capacity), max_size=len(uses.capacity)))
    kept = [part * units for part, units in zip(parts, uses.capacity, strict=True)]
    left = [units - keeps for units, keeps in zip(uses.capacity, kept, strict=True)]
    speeds = max_min(
        [*uses.activity, *[uses.count] * len(kept)],
        [*uses.resource, *range(len(kept))],
        [*uses.rate, *kept],
        [*uses.flows, *[np.inf] * len(kept)],
        uses.capacity,
    )
    assert speeds[-1] == 1.0
    assert speeds[:-1] == pytest.approx(max_min(*uses[:4], left), rel=1e-6, abs=1e-9)


def test_what_shares_elsewhere_and_reserves_here_keeps_its_reservation() -> None:
    """The collective runs at a half on its link and yet leaves 0.7 of the multiprocessors, not 0.85."""
    assert max_min([0, 0, 1], [0, 1, 0], [0.3, 1.0, 1.0], [np.inf, 1.0, 1.0], [1.0, 0.5]) == pytest.approx([0.5, 0.7])


def test_more_reserved_than_there_is() -> None:
    """Two that reserve 0.8 each of 1 run at 0.625, also on a link on which they would fit; a third gets nothing."""
    speeds = max_min([0, 1, 2, 0], [0, 0, 0, 1], [0.8, 0.8, 1.0, 1.0], [np.inf, np.inf, 1.0, 1.0], [1.0, 1.0])
    assert speeds == pytest.approx([0.625, 0.625, 0.0])


@pytest.mark.parametrize("reserved", [False, True])
def test_a_resource_that_is_down_gives_nothing(reserved: bool) -> None:
    assert max_min([0, 1], [0, 1], [1.0, 1.0], [np.inf if reserved else 1.0, 1.0], [0.0, 1.0]) == [0.0, 1.0]
