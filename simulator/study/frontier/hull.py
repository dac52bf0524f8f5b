"""Lower convex hulls of costs, so that a mean cost is never below the hull at the mean (Jensen's inequality)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_DENSE = 256
"""Counts up to which each is evaluated."""
_STEP = 1.03
"""Ratio of the counts that are evaluated beyond."""


def counts(most: int) -> Ints:
    """Whole numbers from 1 to `most`: all of them at first, then with equal ratios."""
    if most <= _DENSE:
        return np.arange(1, most + 1)
    steps = int(np.ceil(np.log(most / _DENSE) / np.log(_STEP)))
    beyond = np.unique(np.round(_DENSE * (most / _DENSE) ** (np.arange(1, steps + 1) / steps)).astype(np.int64))
    return np.concatenate([np.arange(1, _DENSE + 1), beyond])


class Hull:
    """The greatest convex function that is nowhere above a cost and never falls."""

    def __init__(self, at: Ints, cost: Floats, origin: bool = False) -> None:
        """`cost` at the rising counts `at`; between two of them it is taken to be at least that of the first.

        What costs less with more counts as that little from the first one on. With `origin` nothing costs nothing.
        """
        least = np.minimum.accumulate(cost[::-1])[::-1]
        ends = np.append(at[1:] - 1, at[-1])
        x = np.stack([at, ends], axis=1).ravel()
        y = np.repeat(least, 2)
        if origin:
            x, y = np.append(0, x), np.append(0.0, y)
        self.x, self.y = _lower(x.astype(np.float64), y)

    def __call__(self, mean: Floats) -> Floats:
        """The hull at means; below the first count that of the first, beyond the last one with the last slope."""
        inside = np.interp(mean, self.x, self.y)
        if len(self.x) < 2:
            return np.asarray(inside, dtype=np.float64)
        slope = (self.y[-1] - self.y[-2]) / (self.x[-1] - self.x[-2])
        return np.asarray(inside + slope * np.maximum(mean - self.x[-1], 0.0), dtype=np.float64)


def hull(cost: Callable[[Ints], Floats], most: int, origin: bool = False) -> Hull:
    """The hull of a cost of 1 to `most`; with `origin` nothing costs nothing."""
    at = counts(most)
    return Hull(at, cost(at), origin)


def _lower(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Corners of the lower convex hull of points with rising x (Andrew's monotone chain)."""
    corners: list[tuple[float, float]] = []
    for point in zip(x.tolist(), y.tolist(), strict=True):
        while len(corners) > 1 and _above(corners[-2], corners[-1], point):
            corners.pop()
        if corners and corners[-1][0] == point[0]:
            continue
        corners.append(point)
    return np.array([a for a, _ in corners]), np.array([b for _, b in corners])


def _above(first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]) -> bool:
    """Whether the middle point is on or above the line between the others."""
    rise = (last[1] - first[1]) * (middle[0] - first[0])
    return (middle[1] - first[1]) * (last[0] - first[0]) >= rise
