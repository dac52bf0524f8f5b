"""A stretch of iterations in closed form, and the linear duration of its decodes.

Iteration j of a stretch lasts `first + j * growth` ticks, whole numbers, so the sum is exact; where several tokens of a
sequence are verified, `first + more[j]`.
"""

from math import isqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from simulator.serving.costs.iteration import StageCost

Ints = NDArray[np.int64]


class Stretch:
    """Iterations that run in a row while nothing else can change."""

    __slots__ = ("_ends", "count", "first", "growth", "more", "start")

    def __init__(self) -> None:
        """Nothing runs."""
        self.more: Ints | None = None
        """Ticks by which each is longer than the first; None where they grow by the same each time."""
        self._ends: Ints | None = None
        self.count = 0
        """Iterations; 0 while idle."""
        self.first = self.growth = self.start = 0
        """Ticks of the first of them, by how many each next is longer, and when the first began."""

    def begin(self, now: int) -> None:
        """One iteration begins now."""
        self.start, self.count, self.growth, self.more, self._ends = now, 1, 0, None, None

    def bend(self, more: "Ints") -> None:
        """Iterations are longer than the first by these ticks."""
        self.growth, self.more, self._ends = 0, more, None

    def _bent(self, more: "Ints") -> "Ints":
        """Ticks from the start to the end of each, where they are longer by these."""
        if self._ends is None:
            self._ends = np.cumsum(self.first + more)
        return self._ends

    def nth(self, number: int) -> int:
        """Ticks of the iteration of that number, from 0."""
        return self.first + (number * self.growth if self.more is None else int(self.more[number]))

    def lasts(self, count: int) -> int:
        """Ticks of that many iterations in a row."""
        if self.more is not None:
            return int(self._bent(self.more)[count - 1]) if count else 0
        return count * self.first + self.growth * (count * (count - 1) // 2)

    def done_by(self, now: int) -> int:
        """Iterations whose end is before or at `now`, at least 0."""
        elapsed, first, growth = now - self.start, self.first, self.growth
        if self.more is not None:
            return min(self.count, int(np.searchsorted(self._bent(self.more), elapsed, side="right")))
        if not growth:
            return min(self.count, elapsed // first)
        middle = 2 * first - growth
        count = (isqrt(middle * middle + 8 * growth * elapsed) - middle) // (2 * growth)
        while self.lasts(count + 1) <= elapsed:
            count += 1
        return min(self.count, count)

    def done_before(self, now: int) -> int:
        """Iterations whose end is before `now`, fewer than all of those that last to it."""
        return self.done_by(now - 1) if now > self.start else 0

    def boundary(self, now: int) -> int:
        """Iterations up to the first end at or after `now`, at least 1."""
        count = self.done_by(now)
        return count + 1 if count == 0 or self.lasts(count) < now - self.start else count


class DecodeLine:
    """Ticks of the attention of decodes that read their contexts each for itself: base + slope * tokens of context."""

    __slots__ = ("base", "limit", "sequences", "slope")

    def __init__(self) -> None:
        """Of no sequences."""
        self.sequences = self.base = self.slope = 0
        self.limit = 0
        """Tokens of context up to which the line holds."""

    def at(self, cost: "StageCost", sequences: int, context: int) -> int:
        """Ticks of so many sequences with so many tokens of context; the line is kept."""
        for self.limit, self.base, self.slope in cost.decode(sequences):
            if context <= self.limit:
                break
        self.sequences = sequences
        return self.base + self.slope * context
