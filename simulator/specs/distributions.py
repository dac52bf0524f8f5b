"""Numbers drawn from what `simulator.specs.distribution.Distribution` describes.

Every distribution is a function of a standard normal score or of a uniform chance, one of them a value. So two columns
can be tied together by their scores alone (a Gaussian copula, see `lengths`), whatever their distributions.
"""

from collections.abc import Callable
from math import ceil, erfc, floor, log, sqrt

import numpy as np
from numpy.typing import NDArray

from simulator.specs.distribution import Distribution

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TABLE = 1 << 16
"""Values of a Zipf distribution whose probabilities are summed one by one; beyond them the sum is an integral."""


def sample(distribution: Distribution, random: "np.random.Generator", count: int, step: float = 0.0) -> Floats:
    """`count` independent values; `step` 1 where they will be rounded: both ends of `uniform` then get full weight."""
    if _is_normal(distribution):
        return from_scores(distribution, random.standard_normal(count), step)
    return _bounded(distribution, _quantiles(distribution, random.random(count), step))


def from_scores(distribution: Distribution, scores: Floats, step: float = 0.0) -> Floats:
    """The value that stands where each standard normal score stands: quantile of the score's probability."""
    if distribution.normal is not None:
        mean, deviation = distribution.normal
        return _bounded(distribution, mean + deviation * scores)
    if distribution.lognormal is not None:
        median, deviation = distribution.lognormal
        with np.errstate(over="ignore"):  # infinity is refused, or becomes `high`
            return _bounded(distribution, median * np.exp(deviation * scores))
    return _bounded(distribution, _quantiles(distribution, normal_cdf(scores), step))


def normal_cdf(scores: Floats) -> Floats:
    """Probability that a standard normal variable is at most each of these."""
    scaled = (scores * -sqrt(0.5)).tolist()
    return 0.5 * np.fromiter(map(erfc, scaled), np.float64, len(scaled))


def zipf(exponent: float, low: int, high: int, chances: Floats) -> Integers:
    """Quantiles of P(x) proportional to x**-exponent on the integers from `low` (at least 1) to `high`.

    Up to 65,536 values it is exact. Values beyond those are weighed by the integral over [x - 1/2, x + 1/2], with a
    relative error below exponent * (exponent + 1) / (24 * 65536**2).
    """
    head = min(high, low + _TABLE - 1)
    sums = np.cumsum((np.arange(low, head + 1) / low) ** -exponent)
    tail, inverse = _tail(exponent, low, head + 0.5, high + 0.5)
    target = chances * (sums[-1] + tail)
    values = low + np.searchsorted(sums, target, side="right")
    beyond = target >= sums[-1]
    if tail > 0 and beyond.any():
        values[beyond] = np.rint(inverse(target[beyond] - sums[-1])).astype(np.int64)
    whole: Integers = np.clip(values, low, high).astype(np.int64)
    return whole


def _tail(exponent: float, unit: int, start: float, end: float) -> tuple[float, Callable[[Floats], Floats]]:
    """Integral of (x / unit)**-exponent from `start` to `end`, and the x up to which it has a given size."""
    power = 1 - exponent
    scale = start * (start / unit) ** -exponent
    if scale == 0 or end <= start:
        return 0.0, lambda mass: mass
    if power == 0:
        return scale * log(end / start), lambda mass: start * np.exp(mass / scale)
    total = scale * float(np.expm1(power * log(end / start))) / power
    return total, lambda mass: start * np.exp(np.log1p(mass / scale * power) / power)


def _is_normal(distribution: Distribution) -> bool:
    return distribution.normal is not None or distribution.lognormal is not None


def _quantiles(distribution: Distribution, chances: Floats, step: float) -> Floats:
    """Values of the kinds that are functions of a uniform chance."""
    if distribution.fixed is not None:
        return np.full(len(chances), float(distribution.fixed))
    if distribution.uniform is not None:
        low, high = distribution.uniform
        return np.clip(low - step / 2 + chances * (high - low + step), low, high)
    if distribution.exponential is not None:
        with np.errstate(divide="ignore"):  # a chance that rounds to 1: infinity is refused, or becomes `high`
            values: Floats = -distribution.exponential * np.log1p(-chances)
            return values
    if distribution.zipf is not None:
        low, high = distribution.low or 1, distribution.high or 1
        return zipf(distribution.zipf, ceil(low), floor(high), chances).astype(np.float64)
    points, probabilities = np.array(distribution.cdf, np.float64).T
    quantiles: Floats = np.interp(chances, probabilities, points)
    return quantiles


def _bounded(distribution: Distribution, values: Floats) -> Floats:
    low = 0.0 if distribution.low is None else distribution.low
    return np.clip(values, low, np.inf if distribution.high is None else distribution.high)
