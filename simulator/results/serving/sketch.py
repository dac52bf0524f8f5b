"""Quantiles of amounts that are not kept: a sketch with a stated relative error.

An amount x > 0 is counted in the bucket i = ceil(log(x) / log(g)) with g = (1 + a) / (1 - a); the bucket's value
2 g^i / (g + 1) is off by at most a share a of any amount in it. So is every quantile, against the amount of that rank.
Sums, least and largest are exact. Source: Masson, Rim, Lee 2019, "DDSketch" (VLDB 12:12); there buckets may be merged,
here the range is fixed.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.metrics import PERCENTILES
from simulator.results.sample import Spread

Floats = NDArray[np.float64]

ERROR = 0.002
"""Relative error of a quantile at most."""
_BASE = (1.0 + ERROR) / (1.0 - ERROR)
_LEAST, _MOST = 1e-9, 1e15
"""Amounts beyond are counted as these."""
_FIRST = int(np.ceil(np.log(_LEAST) / np.log(_BASE)))
_BUCKETS = int(np.ceil(np.log(_MOST) / np.log(_BASE))) - _FIRST + 1


class Sketch:
    """Amounts of at least 0, as counts of buckets."""

    __slots__ = ("_counts", "_deviations", "count", "greatest", "least", "total", "zeros")

    def __init__(self) -> None:
        """Of nothing."""
        self._counts: NDArray[np.int64] = np.zeros(_BUCKETS, np.int64)
        self.zeros = self.count = 0
        """Amounts that are 0, and all."""
        self.total = self._deviations = 0.0
        self.least, self.greatest = float("inf"), 0.0

    def add(self, values: Floats, counts: NDArray[np.int64] | None = None) -> None:
        """`values[i]` occurs `counts[i]` times more, once where left out."""
        if not len(values):
            return
        weights = np.ones(len(values), np.int64) if counts is None else counts
        some = values > 0
        logs = np.clip(values[some], _LEAST, _MOST)
        np.log(logs, out=logs)
        logs /= np.log(_BASE)
        place = np.ceil(logs, out=logs).astype(np.int64)
        del logs
        place -= _FIRST
        np.clip(place, 0, _BUCKETS - 1, out=place)
        self._counts += np.bincount(place, weights[some], _BUCKETS).astype(np.int64)
        del place
        self.zeros += int(weights[~some].sum())
        self._sum(values, weights)
        self.least = min(self.least, float(values.min()))
        self.greatest = max(self.greatest, float(values.max()))

    def _sum(self, values: Floats, weights: NDArray[np.int64]) -> None:
        """Add to the total and to the squared deviations from the mean.

        Those of two parts add up with what their means differ by (Chan, Golub, LeVeque 1983, "Algorithms for computing
        the sample variance"): the squares of the amounts themselves would cancel where these differ little.
        """
        count, total = int(weights.sum()), float(values @ weights)
        if not count:
            return
        apart = total / count - (self.total / self.count if self.count else 0.0)
        self._deviations += float((values - total / count) ** 2 @ weights)
        self._deviations += apart**2 * count * self.count / (count + self.count)
        self.total, self.count = self.total + total, self.count + count

    def quantiles(self, percents: Sequence[float]) -> list[float]:
        """Percentiles, straight between the two amounts next to their rank; each off by a share `ERROR` at most."""
        if not self.count:
            return [float("nan")] * len(percents)
        upto = np.cumsum(self._counts) + self.zeros
        found = []
        for percent in percents:
            rank = (self.count - 1) * percent / 100
            below = int(rank)
            low = self._amount(upto, below)
            high = self._amount(upto, min(below + 1, self.count - 1))
            found.append(low + (rank - below) * (high - low))
        return found

    def _amount(self, upto: NDArray[np.int64], rank: int) -> float:
        """The amount of a rank, from 0; the first and the last are exact."""
        if rank in (0, self.count - 1):
            return self.greatest if rank else self.least
        place = int(np.searchsorted(upto, rank, side="right"))
        value = 0.0 if rank < self.zeros else 2.0 * _BASE ** (place + _FIRST) / (_BASE + 1.0)
        return min(max(value, self.least), self.greatest)

    def amounts(self) -> tuple[Floats, NDArray[np.int64]]:
        """(rising amounts, how often each occurs), each off by a share `ERROR` at most."""
        some = np.flatnonzero(self._counts)
        values = np.clip(2.0 * _BASE ** (some + float(_FIRST)) / (_BASE + 1.0), self.least, self.greatest)
        if not self.zeros:
            return values, self._counts[some]
        return np.append(0.0, values), np.append(self.zeros, self._counts[some])

    def spread(self) -> Spread:
        """Mean and standard deviation, which are exact, and percentiles."""
        if not self.count:
            nothing = float("nan")
            return Spread(nothing, nothing, nothing, (nothing,) * len(PERCENTILES))
        mean = self.total / self.count
        median, *others = self.quantiles((50, *PERCENTILES))
        return Spread(mean, median, (self._deviations / self.count) ** 0.5, tuple(others))
