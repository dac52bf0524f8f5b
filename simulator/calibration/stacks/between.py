"""Step times of rows between the points at which they were simulated.

A step is a path of work, part of which lasts in proportion to one over the efficiency of computation or to the time
lost a layer, until another path is the longest. Its time is so convex and piecewise linear in both, and nearly linear
between two near points. Rows are simulated at the corners of a lattice, only where a fit comes by, and once for all
fits: that of a stack, those without a source or a group of rows, and the search for values that do as well.
"""

from collections.abc import Callable, Sequence
from itertools import product
from math import exp, floor

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Point = tuple[float, ...]
Ratios = Callable[[Sequence[tuple[str, Point]]], Sequence[float]]
"""log(simulated / measured) of rows at points, given (row, point) of each."""
SPACING = (0.05, 250e-6)
"""Between corners: of the efficiency, of the seconds a layer. Half a step of the efficiency moves a time by 3 %."""
DIGITS = 9


class Between:
    """Simulated over measured times of rows, interpolated."""

    def __init__(self, ratios: Ratios) -> None:
        """`ratios` simulates rows at points."""
        self.ratios = ratios
        self.known: dict[tuple[str, Point], float] = {}
        """Simulated over measured time by (row, corner)."""

    def at(self, names: Sequence[str], point: Point) -> Floats:
        """Simulated over measured times of rows at a point; shape (rows,)."""
        around = corners(point)
        missing = [(name, corner) for corner, _ in around for name in names if (name, corner) not in self.known]
        for task, log in zip(missing, self.ratios(missing), strict=True):
            self.known[task] = exp(log)
        times = [share * np.array([self.known[name, corner] for name in names]) for corner, share in around]
        return np.asarray(sum(times), np.float64)


def corners(point: Point) -> list[tuple[Point, float]]:
    """Corners of the lattice around a point with their shares, which sum to 1; a coordinate on the lattice has one."""
    sides = [_sides(value, spacing, i == 0) for i, (value, spacing) in enumerate(zip(point, SPACING, strict=True))]
    return [(tuple(v for v, _ in corner), float(np.prod([s for _, s in corner]))) for corner in product(*sides)]


def _sides(value: float, spacing: float, reciprocal: bool) -> list[tuple[float, float]]:
    """Neighbours of a value on the lattice with their shares, linear in the value or in one over it."""
    below = floor(round(value / spacing, 6))
    low, high = (round(spacing * (below + side), DIGITS) for side in (0, 1))
    if abs(value - low) < 1e-6 * spacing:
        return [(low, 1.0)]
    share = (1 / low - 1 / value) / (1 / low - 1 / high) if reciprocal else (value - low) / (high - low)
    return [(low, 1 - share), (high, share)]
