"""Mean, spread and percentiles of samples, weighted ones included, as numpy computes them on plain ones."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.metrics import PERCENTILES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Spread(NamedTuple):
    """Statistics of a sample, in its own unit; all NaN for an empty one."""

    mean: float
    median: float
    std: float
    """Standard deviation of the population."""
    percentiles: tuple[float, ...]
    """In the order of `PERCENTILES`, with linear interpolation."""


def spread(values: Floats, counts: Ints | None = None) -> Spread:
    """The spread of a sample in which `values[i]` occurs `counts[i]` times, once where left out."""
    if not len(values) or (counts is not None and not counts.any()):
        nothing = float("nan")
        return Spread(nothing, nothing, nothing, (nothing,) * len(PERCENTILES))
    if counts is None:
        median, *others = np.percentile(values, (50, *PERCENTILES)).tolist()
        return Spread(float(values.mean()), median, float(values.std()), tuple(others))
    mean = float(np.average(values, weights=counts))
    std = float(np.sqrt(np.average((values - mean) ** 2, weights=counts)))
    median, *others = weighted_percentiles(values, counts, (50, *PERCENTILES)).tolist()
    return Spread(mean, median, std, tuple(others))


def weighted_percentiles(values: Floats, counts: Ints, wanted: tuple[float, ...]) -> Floats:
    """`np.percentile(np.repeat(values, counts), wanted)` without the repetition; not for an empty sample."""
    if (values[1:] < values[:-1]).any():
        order = np.argsort(values)
        values, counts = values[order], counts[order]
    upto = np.cumsum(counts)
    place = (int(upto[-1]) - 1) * (np.array(wanted, np.float64) / 100)
    below = np.floor(place)
    share = place - below
    low = values[np.searchsorted(upto, below, side="right")]
    high = values[np.searchsorted(upto, np.minimum(below + 1, upto[-1] - 1), side="right")]
    step = high - low
    # From the nearer end, as numpy does, so that the result never leaves the interval.
    found: Floats = np.where(share < 0.5, low + step * share, high - step * (1 - share))
    return found
