"""What a phase asks of the fabric: the ways of its transfers, the bytes on each link, each group's busiest link."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.collectives.phase import Phase, to_ranks
from simulator.fabric import Fabric

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
    paths = _paths(phase, to_ranks(groups, phase.src).ravel(), to_ranks(groups, phase.dst).ravel(), fabric, parts)
    return _demand(phase, paths, len(groups), fabric)


def demand_of_ranks(phase: Phase, fabric: Fabric) -> LinkDemand:
    """What a phase over ranks asks of the fabric."""
    return _demand(phase, _paths(phase, phase.src, phase.dst, fabric, phase.parts), 1, fabric)


def _paths(phase: Phase, src: Ints, dst: Ints, fabric: Fabric, parts: int) -> Ints:
    """Links of transfers between ranks, each of `parts` flows in a row, as `Fabric.paths` gives them."""
    return fabric.outer(src, dst, parts) if phase.cards else fabric.paths(src, dst, parts)


def _demand(phase: Phase, paths: Ints, groups: int, fabric: Fabric) -> LinkDemand:
    seconds = fabric.path_latency(paths).reshape(groups, -1)
    outer = (paths >= fabric.first_outer).any(axis=0).reshape(groups, -1)
    return LinkDemand(phase, paths, (_average(seconds, ~outer), _average(seconds, outer)))


def _average(seconds: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Mean of the chosen ones of each row, 0 where none is."""
    mean: Floats = (seconds * chosen).sum(axis=1) / np.maximum(chosen.sum(axis=1), 1)
    return mean
