"""What a phase asks of the fabric: the ways of its transfers, the bytes on each link, each group's busiest link."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.collectives.link_range import LinkRange
from simulator.collectives.phase import Phase, to_ranks
from simulator.collectives.ways import Ways, averages, found_ways, hops_of
from simulator.fabric import Fabric
from simulator.fabric.fabric import NETWORK

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LinkDemand:
    """One phase of groups of one layout on the fabric."""

    phase: Phase
    """Over positions and shares of the size; or over ranks and bytes, where made for a plan."""
    ways: Ways
    """Of all transfers, group after group."""

    @property
    def paths(self) -> Ints:
        """Links of all transfers, group after group, padded with -1; (longest way, groups * transfers)."""
        return self.ways.matrix

    @property
    def wire(self) -> tuple[Floats, Floats]:
        """Seconds of wire of the average transfer inside nodes and between them; (groups,) each."""
        return self.ways.wire

    @property
    def groups(self) -> int:
        """How many groups run the phase."""
        return len(self.ways.wire[0])

    def of_group(self, group: int, ranks: Ints, size_bytes: float) -> "LinkDemand":
        """That of one group, over its `ranks` (members,) and bytes; this one is over positions and shares."""
        return LinkDemand(self.phase.bind(ranks, size_bytes), self.ways.only(group))

    def load(self, weights: Floats | None = None) -> LinkRange:
        """Bytes on each link in one repetition, for a collective of one byte, or of `weights` (groups,)."""
        hops = self.ways.hops
        if not hops:
            return LinkRange(0, np.zeros(0))
        if weights is None:
            sizes = self.phase.size if self.groups == 1 else np.tile(self.phase.size, self.groups)
        else:
            sizes = np.outer(weights, self.phase.size).ravel()
        return LinkRange.total([LinkRange(hop.low, hop.summed(sizes)) for hop in hops])

    def load_at(self, link: int, weights: Floats | None = None) -> float:
        """Of `load`, the bytes on one link."""
        total, each = 0.0, self.phase.size
        for _, flows in self.ways.on(link):
            size = each[flows % len(each)]
            size = size if weights is None else weights[flows // len(each)] * size
            total += float(np.bincount(np.zeros(len(flows), np.int64), size)[0])
        return total

    def sparse(self) -> dict[int, tuple[float, int]]:
        """(bytes, transfers) of each link that is used in one repetition, for a collective of one byte."""
        sizes = np.tile(self.phase.size, self.groups)
        used = np.concatenate([np.zeros(0, np.int64), *(hop.link for hop in self.ways.hops)])
        size = np.concatenate([np.zeros(0), *(hop.of(sizes) for hop in self.ways.hops)])
        links, which = np.unique(used, return_inverse=True)
        load = np.bincount(which.reshape(-1), size, len(links))
        flows = np.bincount(which.reshape(-1), minlength=len(links))
        return {
            link: (size, count) for link, size, count in zip(*map(np.ndarray.tolist, (links, load, flows)), strict=True)
        }

    def busiest(self, seconds: LinkRange, first_outer: int) -> tuple[Floats, Floats]:
        """Longest of `seconds` of links that a group meets inside nodes and between them; (groups,) each."""
        return self._longest(seconds, 0, first_outer), self._longest(seconds, first_outer, seconds.stop)

    def alone(self, fabric: Fabric) -> tuple[Floats, Floats]:
        """`busiest` of links that carry nothing else, for a collective of one byte."""
        return self.busiest(self.load().over(fabric.capacity), fabric.first_outer)

    def slowest_link(self, group: int, seconds: LinkRange, per_byte: tuple[float, float], first_outer: int) -> int:
        """Of the links that a group uses, the one with the most of `seconds` times what a byte takes of links inside
        nodes and between them; -1 where it uses none."""
        links = np.concatenate([np.zeros(0, np.int64), *self.ways.of_group(group)])
        if not len(links):
            return -1
        taken = seconds.values[links - seconds.first] * np.where(links >= first_outer, per_byte[1], per_byte[0])
        return int(links[np.argmax(taken)])

    def planned(self, fabric: Fabric) -> tuple[Floats, Floats]:
        """`alone` as a library plans with it, which knows nothing of slow links."""
        return self.busiest(self.load().over(fabric.rated), fabric.first_outer)

    def _longest(self, seconds: LinkRange, low: int, stop: int) -> Floats:
        """Longest of `seconds` of links from `low` up to `stop`, by group."""
        worst = np.zeros(self.ways.transfers)
        for hop in self.ways.hops:
            if hop.low >= stop or hop.high < low:
                continue
            taken = seconds.values[hop.link - seconds.first]
            if hop.low < low or hop.high >= stop:
                taken = np.where((hop.link >= low) & (hop.link < stop), taken, 0.0)
            if hop.flow is None:
                np.maximum(worst, taken, out=worst)
            else:
                worst[hop.flow] = np.maximum(worst[hop.flow], taken)
        longest: Floats = worst.reshape(self.groups, -1).max(axis=1)
        return longest


def demand_of(phase: Phase, groups: Ints, fabric: Fabric) -> LinkDemand:
    """What a phase over positions asks of the fabric when groups (g, n) of ranks run it."""
    parts = fabric.parts(len(groups) * len(phase.src))
    phase = phase.split(parts)
    src, dst = to_ranks(groups, phase.src), to_ranks(groups, phase.dst)
    return _demand(phase, src, dst, fabric, parts)


def _demand(phase: Phase, src: Ints, dst: Ints, fabric: Fabric, parts: int) -> LinkDemand:
    """The demand of transfers between ranks, (groups, transfers) each, of `parts` flows in a row."""
    if (phase.src <= NETWORK).any() or (phase.dst <= NETWORK).any():
        paths, seconds = _through_network(src, dst, fabric, parts)
        outer = (paths >= fabric.first_outer).any(axis=0).reshape(len(src), -1)
        wire = averages(seconds.reshape(len(src), -1), outer)
        hops = tuple(hop for hop in hops_of(paths) if hop is not None)
        return LinkDemand(phase, Ways(hops, src.size, wire))
    return LinkDemand(phase, found_ways(src, dst, fabric, parts, phase.cards))


def _through_network(src: Ints, dst: Ints, fabric: Fabric, parts: int) -> tuple[Ints, Floats]:
    """(links, seconds of wire) of transfers some of which switches between nodes add up or copy."""
    rows = np.broadcast_to(np.arange(len(src))[:, None], src.shape).ravel()
    src, dst, part = src.ravel(), dst.ravel(), np.arange(src.size) % parts
    trees = NETWORK - np.minimum(src, dst)
    rising, falling = np.flatnonzero(dst <= NETWORK), np.flatnonzero(src <= NETWORK)
    rest = np.flatnonzero(trees < 0)
    found = [(rest, fabric.paths(src[rest], dst[rest], parts), np.zeros(len(rest)))]
    found[0][2][:] = fabric.path_latency(found[0][1])
    for which, end, down in ((rising, src, False), (falling, dst, True)):
        tree = (rows[which] * (trees.max() + 1) + trees[which]) * parts + part[which]
        found.append((which, *fabric.reduced(end[which], tree, down)))
    paths, seconds = np.full((max(len(ways) for _, ways, _ in found), len(src)), -1, np.int64), np.zeros(len(src))
    for which, ways, wire in found:
        paths[: len(ways), which], seconds[which] = ways, wire
    return paths, seconds
