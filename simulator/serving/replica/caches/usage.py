"""Cache blocks in use over the iterations of stretches, in closed form.

Iteration j of m begins with u_j = u + sum of t_i over i < j blocks, where t_i is how many sequences take a block in
iteration i: those whose last block is then full, so that t_i depends on i modulo the block size only. With L(k) the
ticks of the first k iterations,

    sum over j of u_j (L(j + 1) - L(j)) = u L(m) + sum over i < m - 1 of t_i (L(m) - L(i + 1))

and the sum over all i of one remainder is one of squares, as L is a polynomial of degree two.
"""

from array import array
from collections.abc import Sequence
from struct import Struct

import numpy as np
from numpy.typing import NDArray

MOST = 1 << 16
"""Remembered counts from which they are summed up."""

_packed = Struct("5q").pack

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Usage:
    """Mean and last number of blocks of each stretch of a replica."""

    __slots__ = ("_counts", "_pack", "_size", "_stretches", "last", "mean")

    def __init__(self, block_size: int) -> None:
        """No stretches yet."""
        self._size, self._pack = block_size, Struct(f"{block_size}q").pack
        self._stretches, self._counts = array("q"), array("q")
        self.mean = array("d")
        """Blocks in use over the ticks of each stretch, on average."""
        self.last = array("q")
        """Blocks in use when its last iteration begins."""

    def note(self, count: int, first: int, growth: int, used: int, iteration: int, counts: Sequence[int]) -> None:
        """A stretch of `count` iterations is over; number `iteration` was its first and began with `used` blocks.

        `counts` are sequences by (cached tokens - iterations) modulo the block size.
        """
        self._stretches.frombytes(_packed(count, first, growth, used, iteration))
        self._counts.frombytes(self._pack(*counts))
        if len(self._counts) >= MOST:
            self.settle()

    def extend(self, stretches: Ints, counts: Ints) -> None:
        """Many stretches are over: what `note` takes of each, (stretches, 5) and (stretches, block size)."""
        self._stretches.frombytes(np.ascontiguousarray(stretches).tobytes())
        self._counts.frombytes(np.ascontiguousarray(counts).tobytes())
        if len(self._counts) >= MOST:
            self.settle()

    def settle(self) -> None:
        """Sum up what is remembered."""
        if not self._stretches:
            return
        stretches = np.frombuffer(self._stretches, np.int64).reshape(-1, 5).T
        counts = np.frombuffer(self._counts, np.int64).reshape(-1, self._size)
        mean, last = _held(stretches, counts)
        self.mean.extend(mean.tolist())
        self.last.extend(last.tolist())
        self._stretches, self._counts = array("q"), array("q")

    def forget(self, count: int) -> tuple[Floats, Ints]:
        """(mean, last) of the first so many stretches, which are no longer kept."""
        self.settle()
        found = np.array(self.mean[:count], np.float64), np.array(self.last[:count], np.int64)
        del self.mean[:count], self.last[:count]
        return found


def _held(stretches: Ints, counts: Ints) -> tuple[Floats, Ints]:
    """(mean, last) blocks of each stretch, from columns of what `note` takes; `counts` is (stretches, block size)."""
    count, first, growth, used, iteration = stretches
    size = counts.shape[1]
    offset = np.arange(size)
    place = (-iteration % size)[:, None] - offset
    taken = np.take_along_axis(counts, place + size * (place < 0), axis=1)
    whole, rest = np.divmod(count - 1, size)
    times = whole[:, None] + (offset < rest[:, None])
    last = used + (taken * times).sum(axis=1)
    # Sums over i = offset, offset + size, ... of i + 1 and of its square, of everything that is taken.
    some, q, k = taken.astype(np.float64), times.astype(np.float64), offset + 1.0
    pairs = q * (q - 1.0) * (size / 2.0)
    ends = (some * (q * k + pairs)).sum(axis=1)
    squares = (some * (q * k**2 + pairs * (2.0 * k + (size / 3.0) * (2.0 * q - 1.0)))).sum(axis=1)
    m, a, b = (column.astype(np.float64) for column in (count, first, growth))
    whole_ticks = a * m + b * m * (m - 1.0) / 2.0
    held = (last - used) * whole_ticks - a * ends - b * (squares - ends) / 2.0
    return used + held / whole_ticks, last
