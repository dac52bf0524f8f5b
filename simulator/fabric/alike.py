"""Links with equal demand, found without a table of every link and every sender.

Each link has a mark of 64 bits: the sum of what a hash (the finaliser of SplitMix64, Steele et al., OOPSLA 2014) makes
of each value that is not 0, with the number of its row. Links whose values are the same in all rows have the same mark.
Of n links that differ any two share a mark with a chance of n^2 / 2^65: 7e-9 at half a million.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bits = NDArray[np.uint64]

_STEP, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_DECIMALS = 3
"""To which values are compared; rounding errors are less."""


def marks(rows: Iterable[Floats], links: int) -> Bits:
    """The mark of each link, given its value in every row (links,), in order; shape (links,)."""
    found = np.zeros(links, np.uint64)
    with np.errstate(over="ignore"):
        for number, row in enumerate(rows, start=1):
            rounded = np.round(row, _DECIMALS)
            some = np.flatnonzero(rounded)
            found[some] += mixed(mixed(rounded[some].view(np.uint64)) + np.uint64(number) * _STEP)
    return found


def first_alike(found: Bits) -> Ints:
    """The first link of each mark, in order."""
    return np.sort(np.unique(found, return_index=True)[1])


def numbers(found: Bits) -> Ints:
    """A number for each link, the same for those of one mark."""
    return np.unique(found, return_inverse=True)[1].reshape(-1).astype(np.int64)


def mixed(bits: Bits) -> Bits:
    """Bits of which each depends on all of the given ones."""
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))
