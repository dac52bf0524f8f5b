"""A stretch of iterations in closed form, and the line that the duration of its decodes lies on.

Iteration j of a stretch lasts `first + j * growth` ticks, whole numbers, so the sum is exact.
"""

from math import isqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.serving.costs.iteration import StageCost


class Stretch:
    """Iterations that run in a row while nothing else can change."""

    __slots__ = ("count", "first", "growth", "start")

    def __init__(self) -> None:
        """Nothing runs."""
        self.count = 0
        """Iterations; 0 while idle."""
        self.first = self.growth = self.start = 0
        """Ticks of the first of them, by how many each next is longer, and when the first began."""

    def lasts(self, count: int) -> int:
        """Ticks of that many iterations in a row."""
        return count * self.first + self.growth * (count * (count - 1) // 2)

    def done_by(self, now: int) -> int:
        """Iterations whose end is before or at `now`, at least 0."""
        elapsed, first, growth = now - self.start, self.first, self.growth
        if not growth:
            return min(self.count, elapsed // first)
        middle = 2 * first - growth
        count = (isqrt(middle * middle + 8 * growth * elapsed) - middle) // (2 * growth)
        while self.lasts(count + 1) <= elapsed:
            count += 1
        return min(self.count, count)

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
