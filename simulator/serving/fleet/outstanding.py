"""How many unfinished requests each replica has, in one column, so that the least of a thousand is found at once."""

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MANY = 24
"""Replicas from which on the column is searched in one piece; fewer are looked at one by one, which is faster."""


class Outstanding:
    """Unfinished requests by the number of a replica, and the replicas that take requests."""

    __slots__ = ("_column", "_open", "counts")

    def __init__(self, replicas: int) -> None:
        """All counts 0, no replica open."""
        self.counts = array("q", bytes(8 * replicas))
        self._column: NDArray[np.int64] = np.frombuffer(self.counts, np.int64)
        self._open: NDArray[np.int64] | None = None

    def open(self, numbers: Sequence[int]) -> None:
        """Those that take requests from now on, in the order in which routers see them."""
        whole = list(numbers) == list(range(len(self.counts)))
        self._open = None if whole else np.array(numbers, np.int64)

    def least(self, first: int) -> int:
        """The place, among those that are open, of the least count; of equals the first from place `first` on."""
        column = self._column if self._open is None else self._column[self._open]
        found = first + int(column[first:].argmin())
        if first:
            wrapped = int(column[:first].argmin())
            if column[wrapped] < column[found]:
                return wrapped
        return found
