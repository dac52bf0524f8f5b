"""The best points of a sweep, its Pareto front and its heat map, as pure functions of rows of figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.metrics import METRICS
from simulator.results.documents.sweep import HeatMap

Figures = Mapping[str, float | None]


def more_is_better(metric: str) -> bool:
    """Whether a larger figure is the better one: of rates. Of times, sizes and costs the smaller one is."""
    return METRICS[metric].sense == "rate"


def ranked(figures: Sequence[Figures], metric: str) -> list[int]:
    """Indices of the rows that have a figure, the best first, equal ones in their order."""
    known = [(value, index) for index, row in enumerate(figures) if (value := row.get(metric)) is not None]
    sign = -1 if more_is_better(metric) else 1
    return [index for _, index in sorted(known, key=lambda pair: (sign * pair[0], pair[1]))]


def front(figures: Sequence[Figures], first: str, second: str) -> list[int]:
    """Indices of the rows that no other row beats in one of two metrics without losing in the other.

    In the order of the first metric, the best first. Rows that are equal in both stay together.
    """
    signs = [-1 if more_is_better(metric) else 1 for metric in (first, second)]
    known = [
        (signs[0] * a, signs[1] * b, index)
        for index, row in enumerate(figures)
        if (a := row.get(first)) is not None and (b := row.get(second)) is not None
    ]
    kept: list[tuple[float, float, int]] = []
    for point in sorted(known):
        if not kept or point[1] < kept[-1][1] or point[:2] == kept[-1][:2]:
            kept.append(point)
    return [index for _, _, index in kept]


def heat(
    places: Sequence[Mapping[str, Any]],
    figures: Sequence[Figures],
    x: str,
    y: str,
    metric: str,
    orders: Mapping[str, Any],
) -> HeatMap:
    """A figure over the axes x and y, of each cell the best one.

    `places` are the values of each row by axis, `orders` all values of each axis in their order.
    """
    across, upward = list(orders[x]), list(orders[y])
    best: dict[tuple[int, int], float] = {}
    number: dict[tuple[int, int], int] = {}
    for index in reversed(ranked(figures, metric)):
        cell = (upward.index(places[index][y]), across.index(places[index][x]))
        value = figures[index][metric]
        if value is not None:
            best[cell], number[cell] = value, number.get(cell, 0) + 1
    cells = tuple(tuple(best.get((row, column)) for column in range(len(across))) for row in range(len(upward)))
    return HeatMap(x, y, metric, tuple(across), tuple(upward), cells, max(number.values(), default=0))
