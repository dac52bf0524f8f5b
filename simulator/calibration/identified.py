"""How well rows tell a fitted number: the values that do as well as the best one.

A value does as well where the loss, the number that it trades against fitted anew, rises by no more than the standard
error of that rise over the rows. The search for the ends of this interval doubles its steps, so they are known to a
factor of two of their distance from the best value.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Verdict = Literal["identified", "at its bound", "bounded on one side", "not identified", "not fitted"]

LEAST_RISE = 1e-4
"""Rise of the mean absolute log ratio that no rows can tell."""


@dataclass(frozen=True, slots=True)
class Interval:
    """What rows say about one number."""

    value: float
    """The number."""
    low: float
    """Smallest value that does as well."""
    high: float
    """Largest value that does as well."""
    bounds: tuple[float, float]
    """Between which it was searched."""
    fitted: bool = True
    """Whether there were rows enough to fit it at all."""

    @property
    def verdict(self) -> Verdict:
        """Whether the rows tell the number; only `identified` ones are measured."""
        least, most = self.bounds
        if not self.fitted:
            return "not fitted"
        if self.low <= least and self.high >= most:
            return "not identified"
        if self.value in self.bounds:
            return "at its bound"
        return "bounded on one side" if self.low <= least or self.high >= most else "identified"


def worse(best: Floats, other: Floats, weights: Floats) -> bool:
    """Whether the weighted mean of the losses of rows rises by more than the standard error of that rise.

    `best` and `other` are losses by row, shape (n,), at two points; `weights` those of the rows.
    """
    share = weights / weights.sum()
    rise = share * (other - best)
    mean = rise.mean()
    error = np.sqrt(len(rise) / max(len(rise) - 1, 1) * np.square(rise - mean).sum())
    return bool(rise.sum() > max(float(error), LEAST_RISE))
