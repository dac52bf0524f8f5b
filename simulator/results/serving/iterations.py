"""Figures of a replica's iterations without writing out those that a row stands for.

Iteration j of a row (from 0) lasts `first + j growth`, so m of them last `m first + growth m (m - 1) / 2` together.
All times are picoseconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import Iterations, TokenGaps
from simulator.results.serving.packed import PackedIterations

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PART = 1 << 19
"""Gaps between tokens that are written out together."""


@dataclass(frozen=True, slots=True, eq=False)
class RowGaps:
    """Times between two tokens of a request, most of which rows of iterations say: those of a run of a million requests
    take as much memory as its rows when they are written out, so that they are only where they are asked for."""

    noted: TokenGaps
    """What no row says."""
    rows: Sequence[tuple[Iterations, Bools]]
    """Rows of each replica, and whether the first iteration of each is a gap of all its decodes."""

    @property
    def gap(self) -> Ints:
        """Picoseconds, written out."""
        return _joined(list(self._each())).gap

    @property
    def count(self) -> Ints:
        """How many gaps are that long, written out."""
        return _joined(list(self._each())).count

    def parts(self) -> Iterator[TokenGaps]:
        """All of them, at least `PART` at a time but for the last."""
        held: list[TokenGaps] = []
        size = 0
        for part in self._each():
            held.append(part)
            size += len(part.gap)
            if size >= PART:
                yield _joined(held)
                held, size = [], 0
        if size:
            yield _joined(held)

    def _each(self) -> Iterator[TokenGaps]:
        """Those noted, those before the first iterations, those in stretches."""
        yield self.noted
        for rows, plain in self.rows:
            for here, part in pieces(rows):
                decodes = part.decodes
                some = plain[here] & (decodes > 0)
                yield TokenGaps(part.first[some], decodes[some])
        for rows, _ in self.rows:
            stretches = _stretches(rows)
            upto = np.cumsum(stretches.count - 1)
            cuts = np.searchsorted(upto, np.arange(PART, upto[-1] if len(upto) else 0, PART), side="right")
            for begin, end in pairwise([0, *cuts.tolist(), len(upto)]):
                yield _inside(stretches, slice(begin, end))


def _joined(parts: Sequence[TokenGaps]) -> TokenGaps:
    return TokenGaps(np.concatenate([part.gap for part in parts]), np.concatenate([part.count for part in parts]))


@dataclass(frozen=True, slots=True, eq=False)
class _Stretches:
    """Rows that stand for several iterations."""

    count: Ints
    first: Ints
    growth: Ints
    decodes: Ints


def _stretches(rows: Iterations) -> _Stretches:
    parts = []
    for _, part in pieces(rows):
        some = np.flatnonzero(part.count > 1)
        parts.append([column[some] for column in (part.count, part.first, part.growth, part.decodes)])
    none = [np.zeros(0, np.int64)] * 4
    return _Stretches(*(np.concatenate(column) for column in zip(none, *parts, strict=True)))


def _inside(rows: _Stretches, here: slice) -> TokenGaps:
    """Gaps in some rows after their first iterations."""
    more = rows.count[here] - 1
    row = np.repeat(np.arange(len(more)), more)
    gaps = np.arange(1, len(row) + 1)
    gaps -= np.repeat(np.cumsum(more) - more, more)
    gaps *= rows.growth[here][row]
    gaps += rows.first[here][row]
    return TokenGaps(gaps, rows.decodes[here][row])


def lengths(iterations: Iterations) -> Ints:
    """How long the iterations of each row take together."""
    parts = [_together(rows.count, rows.first, rows.growth) for _, rows in pieces(iterations)]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def ends(iterations: Iterations) -> Ints:
    """When the last iteration of each row ends."""
    return iterations.start + lengths(iterations)


def overlap(iterations: Iterations) -> bool:
    """Whether iterations run at the same time, as batches in the stages of a pipeline do."""
    return bool((iterations.start[1:] < ends(iterations)[:-1]).any())


def written_out(iterations: Iterations) -> tuple[Ints, Ints, Ints]:
    """Every single iteration: its row, when it begins and when it ends."""
    row = np.repeat(np.arange(len(iterations.count)), iterations.count)
    number = np.arange(len(row)) - np.repeat(np.cumsum(iterations.count) - iterations.count, iterations.count)
    first, growth = iterations.first[row], iterations.growth[row]
    start = iterations.start[row] + _together(number, first, growth)
    return row, start, start + first + number * growth


def ended(iterations: Iterations, rows: Ints, moments: Ints) -> Ints:
    """How many iterations of row `rows[i]` ended before `moments[i]`."""
    count, first, growth = iterations.count[rows], np.maximum(iterations.first[rows], 1), iterations.growth[rows]
    past = moments - iterations.start[rows]
    slope = first - growth / 2
    grows = growth > 0
    root = np.sqrt(np.maximum(slope**2 + 2.0 * growth * np.maximum(past, 0), 0))
    guess = np.where(grows, (root - slope) / np.where(grows, growth, 1), past / first)
    found = np.clip(guess.astype(np.int64), 0, count)
    for step in (-1, -1, 1, 1):  # the guess may be off by rounding
        better = np.clip(found + step, 0, count)
        wrong = _together(found, first, growth) >= past if step < 0 else _together(better, first, growth) < past
        found = np.where(wrong, better, found)
    return found


def pieces(iterations: Iterations) -> Iterator[tuple[slice, Iterations]]:
    """At most `PART` rows at a time, and where they are, so that what is reckoned from many takes little memory."""
    if isinstance(iterations, PackedIterations):
        yield from iterations.some(PART)
        return
    for begin in range(0, len(iterations.count), PART):
        here = slice(begin, begin + PART)
        yield here, Iterations(*(getattr(iterations, field.name)[here] for field in fields(Iterations)))


def tokens_per_bin(iterations: Iterations, origin: int, width: int, bins: int) -> Floats:
    """Tokens that decoding sequences got in each of `bins` half-open stretches of `width` from `origin` on."""
    return sum((_tokens_of(rows, origin, width, bins) for _, rows in pieces(iterations)), np.zeros(bins))


def _tokens_of(iterations: Iterations, origin: int, width: int, bins: int) -> Floats:
    last = ends(iterations)
    single = iterations.count == 1
    tokens = np.zeros(bins)
    at = (last[single] - origin) // width
    inside = (at >= 0) & (at < bins)
    tokens += np.bincount(at[inside], iterations.decodes[single][inside], bins)[:bins]
    rows = np.flatnonzero(~single & (iterations.count > 0))
    begin = np.clip((iterations.start[rows] + iterations.first[rows] - origin) // width, 0, bins)
    stop = np.clip((last[rows] - origin) // width + 1, 0, bins)
    stretches = np.maximum(stop - begin, 0)
    row = np.repeat(rows, stretches)
    at = np.repeat(begin, stretches) + np.arange(len(row)) - np.repeat(np.cumsum(stretches) - stretches, stretches)
    number = ended(iterations, row, origin + (at + 1) * width) - ended(iterations, row, origin + at * width)
    tokens += np.bincount(at, number * iterations.decodes[row], bins)[:bins]
    return tokens


def accumulated(start: Ints, end: Ints, amount: Floats, moments: Ints) -> Floats:
    """How much of amounts that grow evenly from `start[i]` to `end[i]` is there at each moment, all together."""
    length = end - start
    some = length > 0
    origin = int(start.min()) if len(start) else 0
    rate = amount[some] / length[some]
    return _ramps(start[some] - origin, rate, moments - origin) - _ramps(end[some] - origin, rate, moments - origin)


def _together(number: Ints, first: Ints, growth: Ints) -> Ints:
    """How long the first `number` iterations of a row take."""
    total: Ints = number * first + growth * (number * (number - 1) // 2)
    return total


def _ramps(begin: Ints, rate: Floats, moments: Ints) -> Floats:
    """The sum of `rate[i] (t - begin[i])` over what has begun by each moment t."""
    if (begin[1:] < begin[:-1]).any():
        order = np.argsort(begin, kind="stable")
        begin, rate = begin[order], rate[order]
    begun = np.searchsorted(begin, moments, side="right")
    rates = np.append(0.0, np.cumsum(rate))[begun]
    offsets = np.append(0.0, np.cumsum(rate * begin))[begun]
    total: Floats = rates * moments - offsets
    return total
