"""How sure it is that one run is faster than another, from how differently published runs like the two err.

What both share, the device, the software and the source of the measurement, cancels out: where the two are alike, pairs
of rows of one source are taken, and of their residuals only the difference counts.
"""

from math import log1p

import numpy as np

from simulator.results.spread import REQUEST, STEP, Circumstances
from simulator.run.extent import Extent
from simulator.run.ground import Conditions
from simulator.run.spread.conformal import UNSEEN, weighted
from simulator.run.spread.near import FORMAT, Like, apart, distances
from simulator.run.spread.residuals import Residuals, shipped

ABOUT = {"training": STEP, "serving": REQUEST}
"""What decides which of two runs is faster."""
FEWEST_PAIRS = 20
"""Pairs of rows from which on anything is said."""
MOST = 0.99
"""No more than this is ever claimed."""
NEARLY_ALIKE = FORMAT
"""Distance up to which two runs err in the same way."""


def stated(own: Like) -> Circumstances:
    """What a run is, in the form in which its ground tells it."""
    known = own.conditions._asdict()
    return Circumstances(
        **known, vendor=own.vendor, year=own.year, devices=own.extent.devices, features=own.extent.features
    )


def of(known: Circumstances) -> Like:
    """What a run is, from the form in which its ground tells it."""
    own = Conditions(*(getattr(known, name) for name in Conditions._fields))
    return Like(own, Extent(known.devices, known.features), known.vendor, known.year)


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
    weights = np.outer(first, second)
    np.fill_diagonal(weights, 0.0)
    if apart(one, other) <= NEARLY_ALIKE:
        weights *= known.sources[:, None] == known.sources[None, :]
    if weights.sum() <= 0 or weights.sum() ** 2 / (weights**2).sum() < FEWEST_PAIRS:
        return None
    errors = known.residuals[None, :] - known.residuals[:, None]
    holds = (errors + difference) * (1.0 if difference > 0 else -1.0) > 0
    return min(float(weights[holds].sum() / weights.sum()), MOST)
