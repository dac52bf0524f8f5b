"""Cost of a collective of one group by its size, cheap to ask for many sizes.

Closed forms of collectives are close to linear between sizes a factor of two apart, so they are evaluated at powers of
two and interpolated between. On DGX A100 and H100 that is 0.4 to 1.7 % off on average over 1 KB to 256 MB, and up to
63 % between the two sizes where the library changes its protocol and the closed form jumps.
"""

from collections.abc import Callable
from math import ceil, floor, log2

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Sizes:
    """Seconds of a collective by bytes."""

    def __init__(self, cost: Callable[[float], float]) -> None:
        """`cost` gives the seconds of one size in bytes."""
        self._cost = cost
        self._knots: dict[int, float] = {}

    def one(self, size: float) -> float:
        """Seconds of a size in bytes; 0 of none."""
        if not size:
            return 0.0
        least = max(size, 1.0)
        low, high = floor(log2(least)), ceil(log2(max(size, 2.0)))
        for exponent in {low, high}:
            if exponent not in self._knots:
                self._knots[exponent] = self._cost(2.0**exponent)
        if size <= 2.0**low:
            return self._knots[low]
        slope = (self._knots[high] - self._knots[low]) / (2.0**high - 2.0**low)
        return slope * (size - 2.0**low) + self._knots[low]

    def seconds(self, sizes: Floats) -> Floats:
        """Seconds of each size in bytes, shape (r,)."""
        if not len(sizes):
            return np.zeros(0)
        low, high = int(np.floor(np.log2(max(sizes.min(), 1.0)))), int(np.ceil(np.log2(max(sizes.max(), 2.0))))
        exponents = range(low, high + 1)
        for exponent in exponents:
            if exponent not in self._knots:
                self._knots[exponent] = self._cost(2.0**exponent)
        known: Floats = np.interp(sizes, [2.0**e for e in exponents], [self._knots[e] for e in exponents])
        return known
