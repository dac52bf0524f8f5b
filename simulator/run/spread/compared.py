"""How sure it is that one run is faster than another, from how differently published runs like the two err.

What both share, the device, the software and the source of the measurement, cancels out: where the two are alike, pairs
of rows of one source are taken, and of their residuals only the difference counts.
"""

from math import log1p

import numpy as np

from simulator.results.spread import REQUEST, STEP, Circumstances
from simulator.run.extent import Extent
from simulator.run.ground import Conditions
from simulator.run.spread.conformal import UNSEEN, Floats, Ints, weighted
from simulator.run.spread.near import FORMAT, Like, apart, distances
from simulator.run.spread.residuals import Residuals, shipped

ABOUT = {"training": STEP, "serving": REQUEST}
"""What decides which of two runs is faster."""
FEWEST_PAIRS = 20
"""Pairs of rows from which on anything is said."""
MOST = 0.99
"""No more than this is ever claimed."""
ROUNDING = 1e-12
"""Weight of pairs, of 1 in all, that is none."""
NEARLY_ALIKE = FORMAT
"""Distance up to which two runs err in the same way."""


def stated(own: Like) -> Circumstances:
    """What a run is, in the form in which its ground tells it."""
    known = own.conditions._asdict()
    return Circumstances(
        **known,
        vendor=own.vendor,
        year=own.year,
        devices=own.extent.devices,
        features=own.extent.features,
        load=own.load,
    )


def of(known: Circumstances) -> Like:
    """What a run is, from the form in which its ground tells it."""
    own = Conditions(*(getattr(known, name) for name in Conditions._fields))
    return Like(own, Extent(known.devices, known.features), known.vendor, known.year, load=known.load)


def confidence(one: Circumstances | None, other: Circumstances | None, ratio: float) -> float | None:
    """How sure it is that the other run is faster, or slower, as simulated: half is a coin, `MOST` the most.

    `ratio` is the other's time over that of the one, less 1. None where too few
    published runs speak for such runs.
    """
    if one is None or other is None or one.kind != other.kind or not ratio > -1:
        return None
    known = shipped().get((one.kind, ABOUT.get(one.kind, "")))
    return None if known is None else held(known, of(one), of(other), log1p(ratio))


def held(known: Residuals, one: Like, other: Like, difference: float) -> float | None:
    """The share of pairs of rows, weighted by nearness, in whose errors a simulated difference (a logarithm) holds."""
    (one, by), (other, _) = known.placed(one), known.placed(other)
    if by is None:
        return None
    away = UNSEEN * (known.unseen != one.unseen)
    first, second = (weighted(distances(run, known.rows) + away, known.sources, by.reach) for run in (one, other))
    groups = known.sources if apart(one, other) <= NEARLY_ALIKE else np.zeros_like(known.sources)
    total, squares = _pairs(first, second, groups), _pairs(first**2, second**2, groups)
    if total <= ROUNDING or total**2 < FEWEST_PAIRS * squares:
        return None
    sign = 1.0 if difference > 0 else -1.0
    holds = sum(
        _hold(first[own], second[own], sign * known.residuals[own], abs(difference))
        for own in (groups == group for group in np.unique(groups))
    )
    return float(min(holds / total, MOST))


def _pairs(first: Floats, second: Floats, groups: Ints) -> float:
    """The weight of all pairs of two rows of one group: products of the weights that the two have in either run."""
    return float(np.bincount(groups, first) @ np.bincount(groups, second) - first @ second)


def _hold(first: Floats, second: Floats, residuals: Floats, least: float) -> float:
    """The weight of the pairs of two rows in which the second's residual is more than the first's less `least`."""
    order = np.argsort(residuals)
    above = np.append(np.cumsum(second[order][::-1])[::-1], 0.0)
    all_pairs = first @ above[np.searchsorted(residuals[order], residuals - least, side="right")]
    return float(all_pairs - (first @ second if least > 0 else 0.0))
