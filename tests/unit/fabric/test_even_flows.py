"""Progressive filling, beside the rounds of the general solver."""

from math import inf
from random import Random

import pytest

from simulator.fabric import even_flows
from tests.columns import max_min

Columns = tuple[list[int], list[int], list[float], list[float], list[float]]


def flows(seed: int, activities: int) -> Columns:
    """Activities of one rate per flow each, on one to four of twelve resources; some of these have nothing to give."""
    draw, resources = Random(seed), 12
    rows = []
    for activity in range(activities):
        per_flow = draw.choice([1.0, 2.0, draw.uniform(0.1, 5.0)])
        for resource in draw.sample(range(resources), draw.randint(1, 4)):
            weight = draw.choice([0.5, 1.0, 4.0])
            rows.append((activity, resource, per_flow * weight, weight))
    users, names, rates, weights = (list(column) for column in zip(*rows, strict=True))
    return users, names, rates, weights, [draw.choice([0.0, 1.0, 8.0, 30.0, 1000.0]) for _ in range(resources)]


@pytest.mark.parametrize("activities", [1, 2, 7, 120])
def test_as_by_rounds(activities: int) -> None:
    """An activity of two rates, on resources of its own, makes the solver go by rounds."""
    for seed in range(10):
        users, names, rates, weights, capacity = flows(seed, activities)
        other, place = activities, len(capacity)
        by_rounds = max_min(
            [*users, other, other],
            [*names, place, place + 1],
            [*rates, 1.0, 2.0],
            [*weights, 1.0, 1.0],
            [*capacity, 9.0, 9.0],
        )
        assert max_min(users, names, rates, weights, capacity) == pytest.approx(by_rounds[:-1], rel=1e-9, abs=1e-12)


def test_flows_that_want_different_rates_are_not_even() -> None:
    assert even_flows.even([[(0, 2.0, 1.0), (1, 4.0, 2.0)], [], [(1, 3.0, 1.0)]])
    assert not even_flows.even([[(0, 2.0, 1.0), (1, 4.0, 1.0)]])


def test_what_wants_less_than_its_share_leaves_the_rest() -> None:
    uses = [[(0, 1.0, 1.0)], [(0, 9.0, 1.0), (1, 9.0, 1.0)], [(1, 9.0, 1.0)], []]
    assert even_flows.fill(uses, {0: 6.0, 1: 8.0}) == pytest.approx([1.0, 4 / 9, 4 / 9, 1.0])


def test_flows_far_apart_in_number_stay_within_the_capacity() -> None:
    """A weight that is lost beside the others is not lost once these are gone."""
    speeds = even_flows.fill([[(0, 1e17, 1e17), (1, 1e17, 1e17)], [(0, 1.0, 1.0)]], {0: 10.0, 1: 1.0})
    assert speeds[1] * 1.0 + speeds[0] * 1e17 <= 10.0 * (1 + 1e-9)


@pytest.mark.parametrize(
    "uses",
    [
        [(0, 2.0, 1.0), (1, 4.0, 1.0)],
        [(0, 2.0, 1.0), (0, 2.0, 1.0)],
        [(0, 0.0, 1.0)],
        [(0, 2.0, inf)],
        [(0, 2.0, 1.0), (1, 2.0, inf)],
        [(0, 2.0, 1.0), (1, 2.0, 1.0), (0, 2.0, 1.0)],
        [(0, 2.0, 1.0), (1, 2.0, 1.0), (2, 3.0, 1.0)],
    ],
)
def test_what_is_not_plain(uses: list[tuple[int, float, float]]) -> None:
    """Two rates, a resource twice, none wanted, some reserved."""
    assert even_flows.plain([[(0, 2.0, 1.0), (1, 4.0, 2.0), (2, 1.0, 0.5)], [], [(1, 3.0, 1.0)]])
    assert not even_flows.plain([[(1, 3.0, 1.0)], uses])
