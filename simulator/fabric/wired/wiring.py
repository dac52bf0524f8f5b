"""Switches and cables while a network is put together, and as they are then."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.errors import InputError, Problem
from simulator.specs.network import Degraded

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Point = tuple[str | int, ...]

MOST_SWITCHES, MOST_CABLES = 20_000, 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Cables:
    """Cables in one direction each, block after block."""

    start: Ints
    """Switch that each leaves; (cables,)."""
    stop: Ints
    """Switch that it leads to; (cables,)."""
    capacity: Floats
    """Bytes per second; (cables,)."""
    latency: Floats
    """Seconds, passage through the switch at its end included; (cables,)."""
    cost: Ints
    """What it counts in the length of a way; (cables,)."""
    blocks: tuple[tuple[str, int], ...]
    """(kind, how many) of cables with consecutive numbers."""


class Wiring:
    """Switches by number, and what joins them."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.points: list[Point] = []
        self._passage: list[float] = []
        self._joined: list[tuple[str, Ints, Ints, Floats, Floats, int]] = []
        self._count = 0

    def switches(self, points: Sequence[Point], passage: float) -> Ints:
        """Numbers of new switches, each with its name and the seconds of a passage."""
        first = len(self.points)
        if first + len(points) > MOST_SWITCHES:
            message = f"more than {MOST_SWITCHES:,} switches, each of its own"
            raise InputError(Problem(message, path="cluster.network", hint="write `kind: tree`, which adds them up"))
        self.points += points
        self._passage += [passage] * len(points)
        return np.arange(first, len(self.points))

    def join(
        self, kind: str, low: ArrayLike, high: ArrayLike, capacity: ArrayLike, latency: ArrayLike = 0.0, cost: int = 1
    ) -> None:
        """A cable from each of `low` to the one of `high` in its place, and one back; bytes/s and seconds of each."""
        start, stop = np.atleast_1d(np.asarray(low, np.int64)), np.atleast_1d(np.asarray(high, np.int64))
        rate, delay = (np.broadcast_to(np.asarray(what, np.float64), start.shape) for what in (capacity, latency))
        self._count += 2 * len(start)
        if self._count > MOST_CABLES:
            message = f"more than {MOST_CABLES:,} cables, each of its own"
            raise InputError(Problem(message, path="cluster.network", hint="write `kind: tree`, which adds them up"))
        self._joined.append((kind, start, stop, rate, delay, cost))

    def cables(self) -> Cables:
        """All of them, those of a kind and direction in a row."""
        passage, kinds = np.array(self._passage), list(dict.fromkeys(each[0] for each in self._joined))
        ends: list[tuple[Ints, Ints, Floats, Floats, Ints]] = [(_none(), _none(), np.zeros(0), np.zeros(0), _none())]
        blocks: list[tuple[str, int]] = []
        for kind in kinds:
            of_kind = [each for each in self._joined if each[0] == kind]
            for way in ("up", "down"):
                for _, low, high, rate, delay, length in of_kind:
                    begin, end = (low, high) if way == "up" else (high, low)
                    ends.append((begin, end, rate, delay + passage[end], np.full(len(begin), length)))
                blocks.append((f"{kind} {way}", sum(len(each[1]) for each in of_kind)))
        start, stop, capacity, latency, cost = (np.concatenate(column) for column in zip(*ends, strict=True))
        return Cables(start, stop, capacity, latency, cost, tuple(blocks))

    def passage(self, switch: Ints) -> Floats:
        """Seconds of a passage through switches."""
        found: Floats = np.array(self._passage)[switch]
        return found


def _none() -> Ints:
    return np.zeros(0, np.int64)


def left_of(cables: Cables, degraded: Sequence[Degraded]) -> Floats:
    """Share of each cable that is left; InputError for a cable that is not there."""
    left = np.ones(len(cables.start))
    starts = np.cumsum([0, *(count for _, count in cables.blocks)])
    for place, one in enumerate(degraded):
        kind, _, number = one.link.rpartition(" ")
        ways = {kind, f"{kind} up", f"{kind} down"}
        links = [
            int(first) + int(number)
            for (name, count), first in zip(cables.blocks, starts, strict=False)
            if name in ways and number.isdecimal() and int(number) < count
        ]
        if not links:
            known = ", ".join(f"`{name} 0` to `{name} {count - 1}`" for name, count in cables.blocks if count)
            message = f"there is no cable `{one.link}`"
            raise InputError(Problem(message, path=f"cluster.network.degraded[{place}].link", hint=f"known: {known}"))
        left[links] *= one.left
    return left
