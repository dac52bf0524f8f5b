"""What a phase asks of the fabric: the ways of its transfers, the bytes on each link, each group's busiest link."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.collectives.phase import Phase, to_ranks
from simulator.fabric import Fabric
from simulator.fabric.fabric import NETWORK

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LinkDemand:
    """One phase of groups of one layout on the fabric."""

    phase: Phase
    """Over positions and shares of the size; or over ranks and bytes, where made for a plan."""
    paths: Ints
    """Links of all transfers, group after group; (longest way, groups * transfers)."""
    wire: tuple[Floats, Floats]
    """Seconds of wire of the average transfer inside nodes and between them; (groups,) each."""

    @property
    def groups(self) -> int:
        """How many groups run the phase."""
        return len(self.wire[0])

    def load(self, fabric: Fabric, weights: Floats | None = None) -> Floats:
        """Bytes on each link in one repetition, for a collective of one byte, or of `weights` (groups,); (links,)."""
        sizes = np.tile(self.phase.size, self.groups) if weights is None else np.outer(weights, self.phase.size).ravel()
        total = np.zeros(len(fabric.capacity))
        for links in self.paths:
            used = np.flatnonzero(links >= 0)
            if len(used):
                link = links[used]
                first = int(link.min())  # most ways lead over links of one kind, which are neighbours
                load = np.bincount(link - first, sizes[used])
                total[first : first + len(load)] += load
        return total

    def sparse(self) -> dict[int, tuple[float, int]]:
        """(bytes, transfers) of each link that is used in one repetition, for a collective of one byte."""
        sizes = np.broadcast_to(np.tile(self.phase.size, self.groups), self.paths.shape)
        used = self.paths >= 0
        links, which = np.unique(self.paths[used], return_inverse=True)
        load = np.bincount(which.reshape(-1), sizes[used], len(links))
        flows = np.bincount(which.reshape(-1), minlength=len(links))
        return {
            link: (size, count) for link, size, count in zip(*map(np.ndarray.tolist, (links, load, flows)), strict=True)
        }

    def busiest(self, seconds: Floats, first_outer: int) -> tuple[Floats, Floats]:
        """Longest of `seconds` (links,) that a group meets inside nodes and between them; (groups,) each."""
        inside, outside = np.zeros((2, len(seconds) + 1))  # the last for the padding of ways
        inside[:first_outer], outside[first_outer:-1] = seconds[:first_outer], seconds[first_outer:]
        return self._longest(inside), self._longest(outside)

    def alone(self, fabric: Fabric) -> tuple[Floats, Floats]:
        """`busiest` of links that carry nothing else, for a collective of one byte."""
        return self.busiest(self.load(fabric) / fabric.capacity, fabric.first_outer)

    def slowest_link(self, group: int, seconds: Floats, per_byte: tuple[float, float], first_outer: int) -> int:
        """Of the links that a group uses, the one with the most of `seconds` (links,) times what a byte takes of links
        inside nodes and between them; -1 where it uses none."""
        links = self.paths.reshape(len(self.paths), self.groups, -1)[:, group].ravel()
        taken = np.append(seconds, -1.0)[links] * np.where(links >= first_outer, per_byte[1], per_byte[0])
        return int(links[np.argmax(taken)])

    def planned(self, fabric: Fabric) -> tuple[Floats, Floats]:
        """`alone` as a library plans with it, which knows nothing of slow links."""
        return self.busiest(self.load(fabric) / fabric.rated, fabric.first_outer)

    def _longest(self, seconds: Floats) -> Floats:
        """Longest of `seconds` (links + 1,), the last for the padding, by group."""
        worst = seconds[self.paths[0]]
        for links in self.paths[1:]:
            np.maximum(worst, seconds[links], out=worst)
        longest: Floats = worst.reshape(self.groups, -1).max(axis=1)
        return longest


def demand_of(phase: Phase, groups: Ints, fabric: Fabric) -> LinkDemand:
    """What a phase over positions asks of the fabric when groups (g, n) of ranks run it."""
    parts = fabric.parts(len(groups) * len(phase.src))
    phase = phase.split(parts)
    src, dst = to_ranks(groups, phase.src), to_ranks(groups, phase.dst)
    return _demand(phase, src, dst, fabric, parts)


def demand_of_ranks(phase: Phase, fabric: Fabric) -> LinkDemand:
    """What a phase over ranks asks of the fabric."""
    return _demand(phase, phase.src[None], phase.dst[None], fabric, phase.parts)


def _demand(phase: Phase, src: Ints, dst: Ints, fabric: Fabric, parts: int) -> LinkDemand:
    """The demand of transfers between ranks, (groups, transfers) each, of `parts` flows in a row."""
    if (phase.src <= NETWORK).any() or (phase.dst <= NETWORK).any():
        paths, seconds = _through_network(src, dst, fabric, parts)
    else:
        ways = fabric.outer if phase.cards else fabric.paths
        paths = ways(src.ravel(), dst.ravel(), parts)
        seconds = fabric.path_latency(paths)
    outer = (paths >= fabric.first_outer).any(axis=0).reshape(len(src), -1)
    seconds = seconds.reshape(len(src), -1)
    return LinkDemand(phase, paths, (_average(seconds, ~outer), _average(seconds, outer)))


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


def _average(seconds: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Mean of the chosen ones of each row, 0 where none is."""
    mean: Floats = (seconds * chosen).sum(axis=1) / np.maximum(chosen.sum(axis=1), 1)
    return mean
