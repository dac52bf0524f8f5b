"""Rows of iterations in as few bytes as their numbers take, as 64-bit columns only where they are asked for.

Rows come in parts; a column of a part has the narrowest type that holds all its numbers, so that nothing is lost. A
million requests on one replica leave 3.6 million rows: 120 MB in this form, 370 MB in columns of 64 bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import Iterations

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PACKED = 1 << 16
"""Rows of a part; the last part may have fewer."""
NARROW = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32)
"""Types of a column, the narrowest first."""
COUNT, BLOCKS = 1, 8
"""Columns of a row that say how many iterations it stands for, and the blocks with which the first begins."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some rows of a replica's log."""

    columns: tuple[NDArray[Any], ...]
    """The numbers of a row (`Record.log`), column by column."""
    mean: Floats
    """Blocks in use on average, of rows that stand for several iterations; of the others as they begin."""
    last: NDArray[Any]
    """Blocks with which the last iteration of these rows begins."""

    def table(self) -> Ints:
        """The columns, (numbers of a row, rows)."""
        return np.array(self.columns, np.int64)

    def column(self, number: int) -> Ints:
        """One column."""
        return self.columns[number].astype(np.int64)


def narrowed(rows: Ints, mean: Floats, last: Ints) -> Part:
    """Rows, (rows, numbers of a row), with the mean and last blocks of those that stand for several iterations."""
    return Part(tuple(map(_narrow, rows.T)), mean, _narrow(last))


def _narrow(values: Ints) -> NDArray[Any]:
    """The same numbers in the narrowest type that holds them."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    held = (kind for kind in NARROW if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return values.astype(next(held, np.int64))


class PackedIterations(Iterations):
    """Iterations whose columns are made each time that they are asked for."""

    __slots__ = ("parts",)
    parts: tuple[Part, ...]

    def __init__(self, parts: Sequence[Part]) -> None:
        """All parts but the last have `PACKED` rows."""
        object.__setattr__(self, "parts", tuple(parts))

    def __reduce__(self) -> tuple[type[Iterations], tuple[NDArray[Any], ...]]:
        """As plain columns."""
        return Iterations, tuple(getattr(self, column.name) for column in fields(Iterations))

    def some(self, rows: int) -> Iterator[tuple[slice, "PackedIterations"]]:
        """At most so many rows at a time, a multiple of `PACKED`, and where they are."""
        for first in range(0, len(self.parts), each := max(rows // PACKED, 1)):
            here = PackedIterations(self.parts[first : first + each])
            yield slice(first * PACKED, first * PACKED + here.rows), here

    @property
    def rows(self) -> int:
        """How many."""
        return sum(len(part.columns[COUNT]) for part in self.parts)

    def _column(self, number: int) -> Ints:
        return self._joined([part.columns[number] for part in self.parts])

    def _joined(self, columns: Sequence[NDArray[Any]]) -> Ints:
        found = np.empty(self.rows, np.int64)
        return np.concatenate(columns, out=found) if columns else found

    start = property(lambda self: self._column(0))
    count = property(lambda self: self._column(COUNT))
    first = property(lambda self: self._column(2))
    growth = property(lambda self: self._column(3))
    decodes = property(lambda self: self._column(4))
    prompt_tokens = property(lambda self: self._column(5))
    prompts = property(lambda self: self._column(6))
    context = property(lambda self: self._column(7))
    blocks = property(lambda self: self._column(BLOCKS))
    waiting = property(lambda self: self._column(9))

    @property
    def waited(self) -> Ints:
        """Nothing: these replicas wait for no others."""
        return np.broadcast_to(np.int64(0), self.rows)

    done = waited
    """Nothing: no batch of theirs is static."""

    @property
    def mean_blocks(self) -> Floats:
        """Those of rows that stand for one iteration are what it begins with."""
        found: Floats = self.blocks.astype(np.float64)
        found[self.count > 1] = np.concatenate([np.zeros(0), *(part.mean for part in self.parts)])
        return found

    @property
    def last_blocks(self) -> Ints:
        """The same."""
        found: Ints = self.blocks
        found[self.count > 1] = np.concatenate([np.zeros(0, np.int64), *(part.last for part in self.parts)])
        return found
