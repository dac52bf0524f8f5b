"""The ways of a phase's transfers over links, hop by hop, without the padding of short ways.

A hop holds who takes it and over which link, in half the bytes of a number: a million transfers of which one in a
hundred climbs to a spine cost what they use. Where a network finds the way of each transfer by itself, many are found
in parts, so that what lasts only for a moment stays in the cache of a processor.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from simulator.fabric import Fabric

Ints = NDArray[np.int64]
Short = NDArray[np.int32]
Floats = NDArray[np.float64]
Links = NDArray[np.integer]

AT_ONCE = 1 << 16
"""Transfers whose ways are found together where each is found by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Hop:
    """One link of the ways of some transfers."""

    flow: Links | NDArray[np.bool_] | None
    """Which transfers take it: their numbers, rising; whether each does, where most do; None for all."""
    link: Links
    """Over which link each does; as many."""
    low: int = field(init=False)
    """The lowest link."""
    high: int = field(init=False)
    """The highest link."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", int(self.link.min()))
        object.__setattr__(self, "high", int(self.link.max()))

    def of(self, values: Floats) -> Floats:
        """Of a value of each transfer, those of the ones that take it."""
        return values if self.flow is None else values[self.flow]

    def summed(self, values: Floats) -> Floats:
        """The sum of a value of each transfer over each link; from the lowest link to the highest."""
        return np.asarray(np.bincount(self.link - self.low, self.of(values)), np.float64)

    def short(self) -> "Hop":
        """The same in half the bytes."""
        return Hop(None if self.flow is None else self.flow.astype(np.int32), self.link.astype(np.int32))

    def flows(self, chosen: Ints) -> Ints:
        """Numbers of transfers, from places among those that take it."""
        if self.flow is None:
            return chosen
        numbers = np.flatnonzero(self.flow) if self.flow.dtype == np.bool_ else self.flow
        return numbers[chosen].astype(np.int64)

    def only(self, begin: int, stop: int) -> "Hop | None":
        """That of the transfers from `begin` up to `stop`, counted from `begin`; None where none of them takes it."""
        link = self.within(begin, stop)
        if not len(link):
            return None
        if len(link) == stop - begin or self.flow is None:
            return Hop(None, link)
        if self.flow.dtype == np.bool_:
            return Hop(np.flatnonzero(self.flow[begin:stop]), link)
        first = int(np.searchsorted(self.flow, begin))
        return Hop(self.flow[first : first + len(link)] - begin, link)

    def within(self, begin: int, stop: int) -> Links:
        """The links of the transfers from `begin` up to `stop`."""
        if self.flow is None:
            return self.link[begin:stop]
        if self.flow.dtype == np.bool_:
            first = int(np.count_nonzero(self.flow[:begin]))
            return self.link[first : first + int(np.count_nonzero(self.flow[begin:stop]))]
        return self.link[np.searchsorted(self.flow, begin) : np.searchsorted(self.flow, stop)]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Ways:
    """The ways of the transfers of groups, each of as many."""

    hops: tuple[Hop, ...]
    """In the order of the way, those of transfers inside nodes beside the first ones of others."""
    transfers: int
    """Of all groups."""
    wire: tuple[Floats, Floats]
    """Seconds of wire of the average transfer inside nodes and between them; (groups,) each."""

    @property
    def matrix(self) -> Ints:
        """Links of all transfers, padded with -1; (longest way, transfers)."""
        found = np.full((max(len(self.hops), 1), self.transfers), -1, np.int64)
        for row, hop in zip(found, self.hops, strict=False):
            row[slice(None) if hop.flow is None else hop.flow] = hop.link
        return found

    def only(self, group: int) -> "Ways":
        """Those of one group."""
        if len(self.wire[0]) == 1:
            return self
        each = self.transfers // len(self.wire[0])
        hops = [hop.only(group * each, (group + 1) * each) for hop in self.hops]
        inner, outer = self.wire
        wire = inner[group : group + 1], outer[group : group + 1]
        return Ways(tuple(hop for hop in hops if hop is not None), each, wire)

    def of_group(self, group: int) -> Iterator[Links]:
        """Links of the transfers of one group, hop by hop."""
        each = self.transfers // len(self.wire[0])
        for hop in self.hops:
            yield hop.within(group * each, (group + 1) * each)

    def on(self, link: int) -> Iterator[tuple[Hop, Ints]]:
        """Hops that lead over a link, and the transfers that take it there."""
        for hop in self.hops:
            if hop.low <= link <= hop.high and len(places := np.flatnonzero(hop.link == link)):
                yield hop, hop.flows(places)


def found_ways(src: Ints, dst: Ints, fabric: Fabric, parts: int, cards: bool) -> Ways:
    """The ways of transfers between ranks, (groups, transfers) each, of `parts` flows in a row; those that are held
    already are not found again. With `cards` they go through the cards of the devices also inside nodes."""
    digest = blake2b(np.ascontiguousarray(src).data)
    digest.update(np.ascontiguousarray(dst).data)
    key = src.shape, digest.digest(), parts, cards
    known = fabric.known.get(key)
    if known is None:
        known = _found(src, dst, fabric, parts, cards)
        fabric.known[key] = known
    return known


def _found(src: Ints, dst: Ints, fabric: Fabric, parts: int, cards: bool) -> Ways:
    ways = fabric.outer if cards else fabric.paths
    groups, src, dst = len(src), src.ravel(), dst.ravel()
    seconds, outer = np.zeros(len(src)), np.zeros(len(src), np.bool_)
    rows: list[list[tuple[int, Hop]]] = []
    step = AT_ONCE // parts * parts if fabric.network.each_alone else len(src)
    for begin in range(0, len(src), max(step, 1)):
        here = slice(begin, begin + max(step, 1))
        for number, hop in enumerate(hops_of(ways(src[here], dst[here], parts))):
            if number == len(rows):
                rows.append([])
            if hop is not None:
                rows[number].append((begin, hop.short()))
                takes = here if hop.flow is None else hop.flow + begin
                seconds[takes] += fabric.latency[hop.link]
                outer[takes] |= hop.link >= fabric.first_outer
    hops = tuple(_joined(row, len(src)) for row in rows if row)
    return Ways(hops, len(src), averages(seconds.reshape(groups, -1), outer.reshape(groups, -1)))


def hops_of(paths: Ints) -> Iterator[Hop | None]:
    """The hops of ways padded with -1, (longest way, transfers); None for one that no transfer takes."""
    for row in paths:
        used = np.flatnonzero(row >= 0)
        if not len(used):
            yield None
        else:
            yield Hop(None, row) if len(used) == len(row) else Hop(used, row[used])


def _joined(parts: list[tuple[int, Hop]], transfers: int) -> Hop:
    """A hop from those of transfers from a first one on."""
    if len(parts) == 1 and parts[0][0] == 0:
        return parts[0][1]
    link = np.concatenate([hop.link for _, hop in parts], dtype=np.int32, casting="unsafe")
    if len(link) == transfers:
        return Hop(None, link)
    if 4 * len(link) > transfers:
        takes = np.zeros(transfers, np.bool_)
        for begin, hop in parts:
            takes[slice(begin, begin + len(hop.link)) if hop.flow is None else hop.flow + begin] = True
        return Hop(takes, link)
    flows = [np.arange(len(hop.link)) + begin if hop.flow is None else hop.flow + begin for begin, hop in parts]
    return Hop(np.concatenate(flows, dtype=np.int32, casting="unsafe"), link)


def averages(seconds: Floats, outer: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Mean of each row (groups, transfers) over transfers inside nodes, and over those between; 0 where none is."""
    return _average(seconds, ~outer), _average(seconds, outer)


def _average(seconds: Floats, chosen: NDArray[np.bool_]) -> Floats:
    if not chosen.any():
        return np.broadcast_to(np.zeros(1), len(seconds))
    mean: Floats = (seconds * chosen).sum(axis=1) / np.maximum(chosen.sum(axis=1), 1)
    return mean
