"""Intervals from residuals of other runs: quantiles weighted by nearness, widened until unseen sources are covered.

Residuals are logarithms of measured over simulated. A run far from all others gets the quantiles of what there is,
widened with its distance. How wide is found by leaving out each source once: intervals made of all other sources have
to hold `LEVEL` of its rows (conformal prediction with weights: Tibshirani and others, arXiv:1904.06019; groups left
out: Barber and others, arXiv:1905.02928). Rows of one source err alike: its weight grows with the root of their number.
Sources that were found after all fits are left out among themselves: what they ask for holds for runs of strangers.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.results.spread import LEVEL

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REACHES = (0.15, 0.25, 0.4, 0.6, 1.0)
"""Distances over which the weight of a row falls to 1/e, of which the best is taken."""
BASES = tuple(float(x) for x in np.arange(0.05, 2.55, 0.05))
SLOPES = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
TOLERATED = 0.05
"""How much less or more than `LEVEL` a widening may hold while another one is nearer."""
FAR = 1.0
"""Distance of the nearest row from which on intervals grow no more: what is farther errs no more."""
UNSEEN = 0.5
"""How much farther rows of sources that were known count for runs that were not, and the other way round."""
FEWEST = 5
"""Rows of other sources from which on there is an interval at all."""
FEWEST_SOURCES = 4
"""Sources from which on something is known of another one."""
MANY_SOURCES = 10
"""Sources from which on it shows what nearness is worth; of fewer all speak, by the longest reach."""


class Widening(NamedTuple):
    """How weights fall with distance, and how far quantiles are moved apart."""

    reach: float
    """Distance over which a weight falls to 1/e."""
    base: float
    """Times the width of the weighted quantiles, at no distance."""
    slope: float
    """How much more by the distance of the nearest row, up to `FAR`."""
    coverage: float = 0.0
    """Share of rows of left-out sources that the intervals held."""


class Quantiles(NamedTuple):
    """Weighted quantiles of residuals, and how far the nearest row is."""

    low: float
    middle: float
    high: float
    distance: float
    """Of the nearest row."""


def quantiles(
    residuals: Floats, distances: Floats, sources: Ints, reach: float, unlike: NDArray[np.bool_] | None = None
) -> Quantiles:
    """The ends and the middle of the residuals of rows at `distances` from a run; `sources` number their sources.

    Of rows that are `unlike` the run the one was known and the other was not.
    """
    weights = weighted(distances if unlike is None else distances + UNSEEN * unlike, sources, reach)
    order = np.argsort(residuals, kind="stable")
    reached = np.cumsum(weights[order]) - weights[order] / 2
    ends = np.interp(((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2), reached, residuals[order])
    return Quantiles(float(ends[0]), float(ends[1]), float(ends[2]), float(distances.min()))


def weighted(distances: Floats, sources: Ints, reach: float) -> Floats:
    """Weights of rows by their distances, those of each source by their root; they sum to 1."""
    near = np.exp(-(distances - distances.min()) / reach)
    weights: Floats = near / np.sqrt(np.bincount(sources, near)[sources])
    weights /= weights.sum()
    return weights


def widened(found: Quantiles, by: Widening) -> tuple[float, float]:
    """The ends of an interval of residuals."""
    times = by.base + by.slope * min(found.distance, FAR)
    return found.middle - times * (found.middle - found.low), found.middle + times * (found.high - found.middle)


def calibrated(
    residuals: Floats,
    sources: Ints,
    distances: Callable[[int], Floats],
    alike: Ints | None = None,
    unseen: NDArray[np.bool_] | None = None,
    asked: bool = False,
) -> Widening | None:
    """The narrowest widening that holds `LEVEL` of the rows of left-out sources, near ones and far ones alike.

    `distances(i)` gives those of all rows from row `i`; rows with one number in `alike` have equal ones and one source.
    `unseen` are rows that were found after all fits; it has to hold these where `asked`, the others else. None where
    they are of fewer than `FEWEST_SOURCES`; of fewer than `MANY_SOURCES` only the longest reach is tried.
    """
    unseen = np.zeros(len(residuals), bool) if unseen is None else unseen
    if (number := len(set(sources[unseen == asked].tolist()))) < FEWEST_SOURCES:
        return None
    best: tuple[tuple[float, float], Widening] | None = None
    alike = np.arange(len(residuals)) if alike is None else alike
    first = {int(group): int(i) for group, i in zip(*np.unique(alike, return_index=True), strict=True)}
    first = {group: i for group, i in first.items() if unseen[i] == asked}
    far = {group: distances(i) for group, i in first.items()}
    for reach in REACHES if number >= MANY_SOURCES else REACHES[-1:]:
        left_out = list(_left_out(residuals, sources, alike, far, reach, unseen != asked))
        if not left_out:
            return None
        for score, by in _scored(left_out, reach, by_rows=not asked):
            if best is None or score < best[0]:
                best = score, by
    return best[1] if best else None


def _left_out(
    residuals: Floats,
    sources: Ints,
    alike: Ints,
    far: Mapping[int, Floats],
    reach: float,
    unlike: NDArray[np.bool_],
) -> Iterator[tuple[Quantiles, float, float]]:
    """Each row with the quantiles that all other sources give it, and its weight: sources count by the root of rows."""
    number = np.bincount(sources)
    for group, apart in far.items():
        own = np.flatnonzero(alike == group)
        others = sources != sources[own[0]]
        if others.sum() >= FEWEST:
            found = quantiles(residuals[others], apart[others], sources[others], reach, unlike[others])
            for i in own:
                yield found, float(residuals[i]), float(number[sources[i]]) ** -0.5


def _scored(
    left_out: list[tuple[Quantiles, float, float]], reach: float, by_rows: bool
) -> Iterator[tuple[tuple[float, float], Widening]]:
    """(score, widening) for each that is tried: by what it holds too little, or of all rows too much, then by the mean
    width, more where coverage is not as asked anywhere.

    Rows of one source err alike, and a run that nobody has seen is of another one: too little is held where it counts
    by the root of the rows of each source, as quantiles do, or else `by_rows`.
    """
    low, middle, high, far = np.array([q for q, _, _ in left_out]).T
    residual, weight = np.array([(e, w) for _, e, w in left_out]).T
    halves = far <= np.median(far), far > np.median(far)
    by = np.ones_like(weight) if by_rows else weight
    for base, slope in product(BASES, SLOPES):
        times = base + slope * np.minimum(far, FAR)
        held = (residual >= middle - times * (middle - low)) & (residual <= middle + times * (high - middle))
        plain, fair = float(held.mean()), float(np.average(held, weights=weight))
        apart = sum(abs(float(np.average(held[half], weights=by[half])) - LEVEL) for half in halves if half.any())
        off = abs(plain - LEVEL) + abs(fair - LEVEL) + apart / 2
        width = float(np.average(times * (high - low), weights=weight))
        missed = max(0.0, LEVEL - TOLERATED - (plain if by_rows else fair)) + max(0.0, plain - LEVEL - TOLERATED)
        yield (missed, width * (1 + 10 * off)), Widening(reach, round(base, 2), slope, round(plain, 3))
