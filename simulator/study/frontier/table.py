"""All structures of a space as columns, and what closed forms say of each at a rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simulator.study.frontier.options import Option
from simulator.study.frontier.space import Structure, aggregated, ratios

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FILLED = 0.8
"""Share of the time of a run in which requests come, at least, where it is not cut short by its number of requests."""
_HURRIED = 1.5
"""Times the mean time to first token that the wanted share of requests keeps to, as a rule."""
_SLACK = 1.15
"""Times an objective up to which a guess is not trusted that it is missed."""
_OVERLOADED = 1.2
"""Times the prompts that a worker can likely work on up to which a guess is not trusted that their queue never ends."""
_ENDLESS_S = 1e6
"""Seconds that stand for a queue of prompts without an end, times how often too many they are."""
_SAME = 1e-9
_ROOM = 2.0
"""Times the likely decodes at once from which on a limit of sequences is taken to change nothing."""


@dataclass(frozen=True)
class Table:
    """Structures that may be simulated, one a row; options by number, -1 where there are no prefill workers."""

    options: Sequence[Option]
    devices: int
    decode: Ints
    decodes: Ints
    prefill: Ints
    prefills: Ints
    copies: Ints
    capacity: Floats
    """Requests per second that all devices together carry at most."""

    def __len__(self) -> int:
        return len(self.decode)

    def structure(self, row: int) -> Structure:
        """A row as a structure."""
        own, first = self.options[self.decode[row]].worker, int(self.prefill[row])
        beside = None if first < 0 else self.options[first].worker
        return Structure(own, int(self.decodes[row]), int(self.copies[row]), beside, int(self.prefills[row]))

    def users(self, rate: float, requests: int, longest_s: float) -> Floats:
        """Tokens per second and user that each reaches at most at a rate of all devices; 0 where it cannot.

        Runs are of up to so many requests, each of which takes up to `longest_s`: as they fill and empty the system,
        they ask for less than the rate in the mean over all of their time.
        """
        found = np.zeros(len(self))
        filled = np.minimum(FILLED, requests / (requests + rate / self.copies * longest_s))
        for number, rows in self._decoders():
            one = self.options[number].ceiling
            for mine, alone in self._parted(rows):
                place = np.searchsorted(one.rate if alone else one.decode_rate, self._each(rate, mine) * filled[mine])
                ends = np.append(1.0 / one.step, 0.0)
                found[mine] = np.where(place >= len(one.means), 0.0, ends[np.maximum(place - 1, 0)])
        return np.where(self.capacity >= rate * filled, found, 0.0)

    def likely(self, rate: float, ttft: float | None, tpot: float | None, bold: bool = False) -> Floats:
        """Tokens per second and user that each is likely to reach at a rate; 0 where an objective is likely missed.

        `bold`: first tokens are only late where prompts come much faster than they can be worked on.
        """
        found = np.zeros(len(self))
        for number, rows in self._decoders():
            one, own = self.options[number].ceiling.guess, self.options[number].worker
            for mine, alone in self._parted(rows):
                each = self._each(rate, mine)
                rates, gaps = (one.rate, one.gap) if alone else (one.decode_rate, one.decode_gap)
                gap, decodes = np.interp(each, rates, gaps), np.interp(each, rates, one.decodes)
                good = (each <= rates[-1]) & (decodes <= own.sequences) & (tpot is None or gap <= _SLACK * tpot)
                limit = _OVERLOADED * _ENDLESS_S if bold or ttft is None else ttft / _HURRIED
                good &= self._first(each, mine, alone) <= limit
                good &= self._bind(number, decodes)
                found[mine] = np.where(good, 1.0 / gap, 0.0)
        return found

    def soon(self, rate: float) -> Floats:
        """Likely mean seconds to the first token of each at a rate, above `_ENDLESS_S` where prompts come too fast."""
        found = np.zeros(len(self))
        for mine, alone in self._parted(np.arange(len(self))):
            found[mine] = self._first(self._each(rate, mine), mine, alone)
        return found

    def _bind(self, number: int, decodes: Floats) -> Bools:
        """Whether the limit of sequences is the least one that is likely to change nothing, or one that binds."""
        lower = self.lesser[number]
        return (lower == 0) | (decodes * _ROOM > lower)

    @cached_property
    def lesser(self) -> dict[int, int]:
        """The next lower limit of sequences among options that are otherwise the same; 0 where there is none."""
        alike: dict[tuple[object, ...], list[int]] = {}
        for one in self.options:
            alike.setdefault((one.worker.mesh, one.worker.chunk), []).append(one.worker.sequences)
        found = {}
        for number, one in enumerate(self.options):
            less = [size for size in alike[one.worker.mesh, one.worker.chunk] if size < one.worker.sequences]
            found[number] = max(less, default=0)
        return found

    def _each(self, rate: float, rows: Ints) -> Floats:
        """Rate of each decode worker."""
        return np.asarray(rate / (self.copies[rows] * self.decodes[rows]), dtype=np.float64)

    def _first(self, each: Floats, rows: Ints, alone: bool) -> Floats:
        """Likely seconds to the first token where prompts come at random, as of a queue with equal times of service."""
        numbers = self.decode[rows] if alone else self.prefill[rows]
        asked = each if alone else each * self.decodes[rows] / self.prefills[rows]
        first, taken = self.prompts
        busy = asked * taken[numbers]
        waiting = taken[numbers] * busy / (2.0 * np.maximum(1.0 - busy, _SAME))
        return np.where(busy < 1.0, first[numbers] + waiting, _ENDLESS_S * busy)

    @cached_property
    def prompts(self) -> tuple[Floats, Floats]:
        """(seconds until the first token of a mean prompt alone, seconds that it takes from others), by option."""
        guesses = [one.ceiling.guess for one in self.options]
        return np.array([one.prompt_s for one in guesses]), np.array([one.prompt_busy_s for one in guesses])

    def _decoders(self) -> list[tuple[int, Ints]]:
        order = np.argsort(self.decode, kind="stable")
        numbers, starts = np.unique(self.decode[order], return_index=True)
        return list(zip(numbers.tolist(), np.split(order, starts[1:]), strict=True))

    def _parted(self, rows: Ints) -> list[tuple[Ints, bool]]:
        alone = self.prefill[rows] < 0
        return [(mine, what) for mine, what in ((rows[alone], True), (rows[~alone], False)) if len(mine)]


def table(options: Sequence[Option], devices: int, apart: bool, together: bool) -> Table:
    """All structures of options on so many devices; `apart`: prefill and decode pools, `together`: neither."""
    rows: list[tuple[int, int, int, int, int, float]] = []
    for number, one in enumerate(options if together else ()):
        made = aggregated(one.worker, devices)
        if made.copies and not one.late and one.most > 0:
            rows.append((number, 1, -1, 0, made.copies, made.copies * one.ceiling.capacity(one.most, True)))
    first, last = _apart(options) if apart and options else ([], [])
    for p in first:
        for d in last:
            rows += _ratios(options, p, d, devices)
    columns = np.array(rows, dtype=np.float64).reshape(-1, 6)
    decode, decodes, prefill, prefills, copies = (columns[:, i].astype(np.int64) for i in range(5))
    return Table(options, devices, decode, decodes, prefill, prefills, copies, columns[:, 5])


def _apart(options: Sequence[Option]) -> tuple[list[int], list[int]]:
    """Options for prefill and for decode: of those that only differ in what does not matter there, one each."""
    least, most = min(o.worker.sequences for o in options), max(o.worker.chunk for o in options)
    first = [i for i, one in enumerate(options) if one.worker.sequences == least and not one.prompts_late]
    numbered = [(i, one) for i, one in enumerate(options) if one.worker.chunk == most]
    return first, [i for i, one in numbered if not one.decodes_late and one.most > 0]


def _ratios(options: Sequence[Option], p: int, d: int, devices: int) -> list[tuple[int, int, int, int, int, float]]:
    prefill, decode = options[p], options[d]
    each = decode.ceiling.capacity(decode.most, False)
    return [
        (d, decodes, p, prefills, copies, copies * min(decodes * each, prefills * prefill.ceiling.prompt_rate))
        for prefills, decodes, copies in ratios(prefill.worker, decode.worker, devices)
    ]
