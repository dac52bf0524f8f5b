"""A number for each link of a stretch of neighbours: most phases use links of one kind, and a large fabric has many."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LinkRange:
    """Values of consecutive links; those of all others are 0."""

    first: int
    """Link of the first value."""
    values: Floats
    """(links of the stretch,)."""

    @property
    def stop(self) -> int:
        """The first link behind the stretch."""
        return self.first + len(self.values)

    @classmethod
    def total(cls, parts: Sequence["LinkRange"]) -> Self:
        """The sum, added in order; nothing where there are no parts."""
        some = [part for part in parts if len(part.values)]
        if not some:
            return cls(0, np.zeros(0))
        if len(some) == 1:
            return cls(some[0].first, some[0].values)
        first = min(part.first for part in some)
        values = np.zeros(max(part.stop for part in some) - first)
        for part in some:
            values[part.first - first : part.stop - first] += part.values
        return cls(first, values)

    def times(self, factor: float) -> "LinkRange":
        """Each value so often."""
        return self if factor == 1.0 else LinkRange(self.first, self.values * factor)

    def over(self, each: Floats, factor: float = 1.0) -> "LinkRange":
        """Each value by `factor` times what its link has, of `each` (links,) of the fabric."""
        return LinkRange(self.first, self.values / (factor * each[self.first : self.stop]))

    def add_to(self, total: Floats) -> None:
        """Add to what all links (links,) have."""
        total[self.first : self.stop] += self.values

    def everywhere(self, links: int) -> Floats:
        """The values of all links of a fabric; (links,)."""
        found = np.zeros(links)
        found[self.first : self.stop] = self.values
        return found

    def at(self, link: int) -> float:
        """The value of a link."""
        return float(self.values[link - self.first]) if self.first <= link < self.stop else 0.0
