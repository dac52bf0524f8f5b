"""Mean, spread and percentiles of samples, weighted ones included, as numpy computes them on plain ones."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.metrics import PERCENTILES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Parts = Callable[[], Iterator[tuple[Ints, Ints]]]
"""Gives (values, how often each occurs) of a sample, some at a time, from the start again each time it is called."""

BINS = 1 << 18
"""Stretches of equal length among which the amounts of a rank are looked for."""


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
        median, *others = percentiles(values, (50, *PERCENTILES)).tolist()
        return Spread(float(values.mean()), median, float(values.std()), tuple(others))
    mean = float(np.average(values, weights=counts))
    std = float(np.sqrt(np.average((values - mean) ** 2, weights=counts)))
    median, *others = weighted_percentiles(values, counts, (50, *PERCENTILES)).tolist()
    return Spread(mean, median, std, tuple(others))


def spread_of(parts: Parts, unit: float) -> Spread:
    """As `spread` of all values divided by `unit`, without having them all at once; not for an empty sample.

    The mean and the deviation are sums of parts, equal but for rounding. Percentiles are exact: values are counted in
    `BINS` stretches, and only those of stretches with a rank that is asked for are sorted.
    """
    held = [(int(values.min()), int(values.max()), int(counts.sum())) for values, counts in parts() if counts.any()]
    least, total = min(low for low, _, _ in held), sum(count for *_, count in held)
    width = (max(high for _, high, _ in held) - least) // BINS + 1
    mean = sum(float((values / unit) @ counts) for values, counts in parts()) / total
    found, squares = np.zeros(BINS, np.int64), 0.0
    for values, counts in parts():
        squares += float(((values / unit - mean) ** 2) @ counts)
        found += np.bincount((values - least) // width, counts, BINS).astype(np.int64)
    asked = (50, *PERCENTILES)
    below, above, _ = _ranks(total, asked)
    bins = np.unique(np.searchsorted(np.cumsum(found), np.concatenate([below, above]), side="right"))
    chosen = []
    for values, counts in parts():
        some = np.isin((values - least) // width, bins)
        chosen.append((values[some], counts[some]))
    values, counts = (np.concatenate(column) for column in zip(*chosen, strict=True))
    order = np.argsort(values)
    values, counts = values[order], counts[order]
    found[bins] = 0
    upto = np.cumsum(counts) + np.cumsum(found)[(values - least) // width]
    median, *others = _at(values / unit, upto, total, asked).tolist()
    return Spread(mean, median, (squares / total) ** 0.5, tuple(others))


def percentiles(values: Floats, wanted: tuple[float, ...]) -> Floats:
    """`np.percentile(values, wanted)` without its imports; not for an empty sample.

    Only the ranks that are asked for are brought to their places.
    """
    below, above, share = _ranks(len(values), wanted)
    ranks = [rank.astype(np.int64) for rank in (below, above)]
    placed = np.partition(values, sorted({*ranks[0].tolist(), *ranks[1].tolist()}))
    return _between(placed[ranks[0]], placed[ranks[1]], share)


def weighted_percentiles(values: Floats, counts: Ints, wanted: tuple[float, ...]) -> Floats:
    """`np.percentile(np.repeat(values, counts), wanted)` without the repetition; not for an empty sample."""
    if (values[1:] < values[:-1]).any():
        order = np.argsort(values)
        values, counts = values[order], counts[order]
    upto = np.cumsum(counts)
    return _at(values, upto, int(upto[-1]), wanted)


def _at(values: Floats, upto: Ints, total: int, wanted: tuple[float, ...]) -> Floats:
    """Percentiles of `total` amounts, of which so many are up to each of the rising values; linear between ranks."""
    below, above, share = _ranks(total, wanted)
    low, high = (values[np.searchsorted(upto, rank, side="right")] for rank in (below, above))
    return _between(low, high, share)


def _between(low: Floats, high: Floats, share: Floats) -> Floats:
    """What lies a share of the way from one to the other, from the nearer end, as numpy does, so that the result never
    leaves the interval."""
    step = high - low
    found: Floats = np.where(share < 0.5, low + step * share, high - step * (1 - share))
    return found


def _ranks(total: int, wanted: tuple[float, ...]) -> tuple[Floats, Floats, Floats]:
    """(rank below, rank above, share of the way between them) of percentiles of so many amounts."""
    place = (total - 1) * (np.array(wanted, np.float64) / 100)
    below = np.floor(place)
    return below, np.minimum(below + 1, total - 1), place - below
