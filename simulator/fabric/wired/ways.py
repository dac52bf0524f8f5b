"""The shortest ways between switches, and which of several equal ones a flow takes.

From each switch the next cables towards a destination are those on a shortest way. Where there are several, a flow
takes one by the rule of the policy: by a hash of its ends, its connection and the seed (ECMP; SplitMix64 as in
`alike`), or by its number in mixed radix, one digit for each choice (D-mod-k: Zahavi, *Journal of Parallel and
Distributed Computing* 72(11), 2012), which lays the flows of a shift evenly on equal trees. Cables that carry less get
fewer numbers under `planned` and `adaptive`.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.fabric.alike import mixed
from simulator.fabric.wired.wiring import Cables
from simulator.specs.network.routing import Policy

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FAR = np.int32(1 << 29)
"""Length of a way that is not there."""
_SLOTS = 8  # numbers that the quickest of several cables gets where they differ
_MOST_AT_ONCE = 8_000_000  # numbers of a table that is worked on
_STEP = 0x9E3779B97F4A7C15  # that SplitMix64 counts by
_BY_RATE = ("planned", "adaptive")


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """Who chooses; (flows,) each."""

    key: NDArray[np.uint64]
    """Of the ends and the connection, for a hash."""
    number: Ints
    """In mixed radix."""


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Next cables of every switch, and lengths of ways to those that were asked for."""

    cables: Cables
    rate: Floats
    """Bytes per second of each cable as it is now, 0 where no route leads over it; (cables,)."""
    switches: int
    policy: Policy
    seed: int
    _out: Ints = field(init=False)
    """Cables that leave each switch, padded with -1; (switches, most)."""
    _live: Ints = field(init=False)
    """Cables in use, by the switch that they leave."""
    _length: dict[int, NDArray[np.int32]] = field(init=False, default_factory=dict)
    """Of the shortest way from every switch, by destination; (switches,) each."""

    def __post_init__(self) -> None:
        live = np.flatnonzero(self.rate > 0)
        order = live[np.argsort(self.cables.start[live], kind="stable")]
        start = self.cables.start[order]
        count = np.bincount(start, minlength=self.switches)
        out = np.full((self.switches, max(int(count.max(initial=0)), 1)), -1, np.int64)
        out[start, np.arange(len(start)) - (np.cumsum(count) - count)[start]] = order
        object.__setattr__(self, "_out", out)
        object.__setattr__(self, "_live", order)

    def lengths(self, goal: Ints) -> NDArray[np.int32]:
        """Of the shortest ways from all switches to different ones; (goals, switches)."""
        new = np.array([one for one in goal.tolist() if one not in self._length], np.int64)
        for part in np.array_split(new, max(1, len(new) * len(self._live) // _MOST_AT_ONCE)):
            self._length.update(zip(part.tolist(), self._measured(part), strict=True))
        known = [self._length[one] for one in goal.tolist()]
        return np.stack(known) if known else np.zeros((0, self.switches), np.int32)

    def _measured(self, goal: Ints) -> NDArray[np.int32]:
        """Lengths by relaxation over all cables until nothing changes."""
        length = np.full((len(goal), self.switches), FAR, np.int32)
        length[np.arange(len(goal)), goal] = 0
        stop, cost = self.cables.stop[self._live], self.cables.cost[self._live].astype(np.int32)
        leaving, first = np.unique(self.cables.start[self._live], return_index=True)
        while len(leaving):
            nearest = np.minimum.reduceat(length[:, stop] + cost, first, axis=1)
            nearer = np.minimum(nearest, length[:, leaving])
            if (nearer == length[:, leaving]).all():
                break
            length[:, leaving] = nearer
        found: NDArray[np.int32] = np.minimum(length, FAR)
        return found

    def walk(self, here: Ints, goal: Ints, flows: Flows) -> Ints:
        """Cables from switches to switches, padded with -1; (longest way, flows). All goals can be reached."""
        goals, place = np.unique(goal, return_inverse=True)
        length, here = self.lengths(goals), here.copy()
        radix, hops = np.ones(len(here), np.int64), list[Ints]()
        while len(going := np.flatnonzero(here != goal)):
            pairs, which = np.unique(here[going] * len(goals) + place[going], return_inverse=True)
            next_ = self._next(pairs // len(goals), pairs % len(goals), length)
            count, slots = self._slots(next_)
            number = self._digit(flows, going, radix, count[which], len(hops))
            cable = slots[which, number]
            radix[going] *= count[which]
            hop = np.full(len(here), -1, np.int64)
            hop[going] = cable
            hops.append(hop)
            here[going] = self.cables.stop[cable]
        return np.stack(hops) if hops else np.full((1, len(here)), -1, np.int64)

    def choices(self, here: Ints, goal: Ints) -> Ints:
        """Product of the choices on the way between switches; (flows,)."""
        many, same = np.ones(len(here), np.int64), Flows(np.zeros(len(here), np.uint64), np.zeros(len(here), np.int64))
        goals, place = np.unique(goal, return_inverse=True)
        length, way = self.lengths(goals), self.walk(here, goal, same)
        for hop in way:
            on = np.flatnonzero(hop >= 0)
            many[on] *= self._slots(self._next(self.cables.start[hop[on]], place[on], length))[0]
        return many

    def _next(self, here: Ints, place: Ints, length: NDArray[np.int32]) -> Ints:
        """Cables on shortest ways from switches to the goals at `place`, before others, which are -1; (pairs, most)."""
        turns = np.array_split(np.arange(len(here)), max(1, len(here) * self._out.shape[1] // _MOST_AT_ONCE))
        parts = [self._ahead(here[turn], place[turn], length) for turn in turns]
        found = np.full((len(here), max(part.shape[1] for part in parts)), -1, np.int64)
        for turn, part in zip(turns, parts, strict=True):
            found[turn, : part.shape[1]] = part
        return found

    def _ahead(self, here: Ints, place: Ints, length: NDArray[np.int32]) -> Ints:
        """The same of some pairs."""
        out = self._out[here]
        rest = length[place[:, None], self.cables.stop[out]] + self.cables.cost[out] if len(self.cables.stop) else out
        good = (rest == length[place, here][:, None]) & (out >= 0)
        count = good.sum(axis=1)
        row, column = np.nonzero(good)
        found = np.full((len(here), max(1, int(count.max(initial=1)))), -1, np.int64)
        found[row, np.arange(len(row)) - (np.cumsum(count) - count)[row]] = out[row, column]
        return found

    def _slots(self, cables: Ints) -> tuple[Ints, Ints]:
        """(how many numbers each row has, cable of each number); by rates where the policy heeds them."""
        known = cables >= 0
        count = known.sum(axis=1)
        if self.policy == "shortest":
            return np.ones_like(count), cables
        if self.policy not in _BY_RATE:
            return count, cables
        rate = np.where(known, np.append(self.rate, 0.0)[cables], 0.0)
        top = rate.max(axis=1, keepdims=True)
        uneven = ((rate != top) & known).any(axis=1)
        if not uneven.any():
            return count, cables
        many = np.where(uneven[:, None], np.rint(_SLOTS * rate / top), 1).astype(np.int64) * known
        slots = np.full((len(cables), int(many.sum(axis=1).max())), -1, np.int64)
        for row, times in enumerate(many):
            # Numbers of a cable lie apart, so that flows in a row do not all meet on the quickest one.
            turn = np.concatenate([(np.arange(n) + 0.5) / n for n in times.tolist() if n])
            slots[row, : times.sum()] = np.repeat(cables[row], times)[np.argsort(turn, kind="stable")]
        return many.sum(axis=1), slots

    def _digit(self, flows: Flows, going: Ints, radix: Ints, count: Ints, hop: int) -> Ints:
        """Which of their numbers flows take."""
        if self.policy in ("ecmp", "valiant", "ugal"):
            with np.errstate(over="ignore"):
                salt = mixed(np.array([(self.seed + (hop + 1) * _STEP) % (1 << 64)], np.uint64))
                bits = mixed(flows.key[going] + salt)
            return (bits >> np.uint64(11)).astype(np.int64) % count
        return flows.number[going] // radix[going] % count
