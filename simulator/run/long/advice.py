"""How often to save: the interval with which the simulated run trains the largest share of its time.

The search begins at Young's interval sqrt(2 d M) (CACM 17(9), 1974; d for which steps wait at a checkpoint, M mean time
between failures) and simulates intervals of a quarter to four times around it, and longer ones until they cost more,
all with the same failures, so that they differ by the interval alone. The best is the lowest point of a parabola
through those around the best of them; what is advised is the longest interval that costs at most a thousandth of the
time more, as seldom writing spares the storage and optima are flat.
"""

from collections.abc import Callable
from math import ceil, isfinite, log2, sqrt
from typing import NamedTuple

import numpy as np

from simulator.results.long_run import SPARED

_OCTAVES = tuple(number / 2 for number in range(-4, 5))
_MOST_MOVES = 6
_NEAR = 1.0  # octaves around the best point through which the parabola goes


class Point(NamedTuple):
    """An interval and what it comes to."""

    steps: int
    ratio: float
    """Share of the time that goes to training."""


class Advice(NamedTuple):
    """The best interval, and those that were tried."""

    steps: int
    tried: tuple[Point, ...]


def young(stall_s: float, mtbf_s: float) -> float:
    """Seconds between checkpoints by Young's formula."""
    return sqrt(2 * stall_s * mtbf_s)


def advise(ratio: Callable[[int], float], start: int, least: int, most: int) -> Advice:
    """The number of steps, from `least` to `most`, with the best `ratio`; the search starts at `start`."""
    tried: dict[int, float] = {}
    centre = min(max(start, least), most)
    for _ in range(_MOST_MOVES):
        around = {min(max(round(centre * 2**octave), least), most) for octave in _OCTAVES}
        for steps in sorted(around - tried.keys()):
            tried[steps] = ratio(steps)
        best = max(tried, key=lambda steps: (tried[steps], -steps))
        if min(around) < best < max(around) or best in (least, most) or best == centre:
            break
        centre = best
    while 0 < tried[best] <= tried[longest := max(tried)] * (1 + SPARED) and longest < most:
        steps = min(ceil(longest * sqrt(2)), most)
        tried[steps] = ratio(steps)
    points = tuple(Point(steps, tried[steps]) for steps in sorted(tried))
    longest = max(steps for steps in tried if tried[steps] * (1 + SPARED) >= tried[best])
    return Advice(min(max(_lowest(tried, best), longest, least), most), points)


def _lowest(tried: dict[int, float], best: int) -> int:
    """Where the time per training, as a parabola of the logarithm of the interval, is least; near the best point."""
    near = {steps: value for steps, value in tried.items() if abs(log2(steps / best)) <= _NEAR and isfinite(value)}
    usable = {steps: 1 / value for steps, value in near.items() if value > 0}
    if len(usable) < 3:
        return best
    x = np.log2(np.array(list(usable), float))
    curve, slope, _ = np.polyfit(x, np.array(list(usable.values())), 2)
    if curve <= 0:
        return best
    return round(2 ** float(np.clip(-slope / (2 * curve), x.min(), x.max())))
