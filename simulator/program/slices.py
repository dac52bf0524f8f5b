"""Microbatches that are cut along their sequences: what of a pass each slice takes.

Products take a slice's share of the tokens. Under a causal mask attention of a slice sees the keys of all before it, so
that its share of the pairs grows from slice to slice, (c + x)^2 - c^2 for a slice of x after c, in parts of a sequence.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import sqrt
from typing import Self

GRAIN = 1024
"""Parts of a sequence at whose ends it may be cut."""


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices of a microbatch, first tokens first."""

    tokens: tuple[Fraction, ...]
    """Share of the sequence of each."""
    attention: Fraction = Fraction(0)
    """Share of F and of I of a whole sequence that goes with the pairs of tokens; W has none."""

    @classmethod
    def equal(cls, count: int, attention: Fraction = Fraction(0)) -> Self:
        """Equally many tokens each."""
        return cls((Fraction(1, count),) * count, attention)

    @classmethod
    def balanced(cls, count: int, attention: Fraction) -> Self:
        """Equally long forward passes, as near as cuts at parts of a `GRAIN`-th come."""
        ends = [Fraction(0), *(_end(Fraction(at, count), attention) for at in range(1, count)), Fraction(1)]
        return cls(tuple(after - before for before, after in pairwise(ends)), attention)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def passes(self) -> tuple[Fraction, ...]:
        """Share of F and of I of each slice."""
        ends = (Fraction(0), *accumulate(self.tokens))
        pairs = (after**2 - before**2 for before, after in pairwise(ends))
        return tuple(
            (1 - self.attention) * own + self.attention * seen for own, seen in zip(self.tokens, pairs, strict=True)
        )


def _end(share: Fraction, attention: Fraction) -> Fraction:
    """Where so much of a forward pass has been done: (1 - a) c + a c^2 = share."""
    a, linear = float(attention), float(1 - attention)
    found = (sqrt(linear**2 + 4 * a * float(share)) - linear) / (2 * a) if a else float(share)
    return Fraction(round(found * GRAIN), GRAIN)
