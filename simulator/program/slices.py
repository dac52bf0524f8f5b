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
        lengths = balanced_lengths(GRAIN, count, float(attention))
        return cls(tuple(Fraction(length, GRAIN) for length in lengths), attention)

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


def balanced_lengths(sequence: int, count: int, attention: float, unit: int = 1) -> tuple[int, ...]:
    """Tokens of slices with equally long forward passes, to multiples of `unit`, of which the sequence is one.

    After a part c of the sequence (1 - a) c + a c^2 of the pass has been done.
    """
    linear = 1 - attention
    shares = [at / count for at in range(count + 1)]
    if attention:
        shares = [(sqrt(linear**2 + 4 * attention * one) - linear) / (2 * attention) for one in shares]
    ends = [round(one * sequence / unit) * unit for one in shares]
    return tuple(after - before for before, after in pairwise(ends))
