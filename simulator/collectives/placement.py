"""How a group of ranks lies on the fabric: what algorithms need to know, and nothing else.

Members of one node are neighbours in every ring, and nodes follow one another as the group names them: NCCL numbers
nodes by the first rank on each (`init.cc`). On a grid members are sorted. Groups that lie alike share a layout and with
it all phases of an algorithm.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simulator.collectives import intra_node_rings
from simulator.fabric import Fabric
from simulator.fabric.nodes import EqualNodes, locate

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Transfers = tuple[Ints, Ints, Floats]


@dataclass(frozen=True, eq=False)
class GroupPlacement:
    """The places of a group's members, in order."""

    counts: tuple[int, ...]
    """Members on each node; in a torus every device counts as a node."""
    local: tuple[int, ...]
    """Number of each member in its node; zeros where all devices of a node are alike."""
    fabric: Fabric
    """What they lie on."""
    homes: tuple[EqualNodes, ...]
    """The kind of each node."""
    box: tuple[int, ...] = ()
    """In a torus: extent of the group along each dimension where it fills a box, else empty; of the box in each slice
    where it spans several."""
    slices: int = 1
    """Slices that the group spans where it fills a box in each, the same places in all."""

    @property
    def members(self) -> int:
        """Ranks in the group."""
        return len(self.local)

    @property
    def nodes(self) -> int:
        """Nodes that the group touches."""
        return len(self.counts)

    @property
    def even(self) -> bool:
        """Whether all nodes hold equally many members."""
        return len(set(self.counts)) == 1

    @cached_property
    def starts(self) -> Ints:
        """Position of the first member on each node, then the number of members; (nodes + 1,)."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    @property
    def rails(self) -> int:
        """Members on each node that can have a ring of their own between nodes, each through its card."""
        return min(self.counts)

    def rail(self, number: int) -> Ints:
        """Positions of the members of one rail, a node after the other; (nodes,)."""
        return self.starts[:-1] + number

    def inside(self) -> Transfers:
        """Traffic around each node in which every member sends one unit to others of its node.

        Nodes with one member have none. One ring through a switch or bus; over all direct links where there are such.
        """
        alike = {(count, home.first): home for count, home in zip(self.counts, self.homes, strict=True) if count > 1}
        parts = [self._around(count, alike[count, first]) for count, first in sorted(alike)]
        if not parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        src, dst, share = (np.concatenate(column) for column in zip(*parts, strict=True))
        return src, dst, share

    @property
    def switched(self) -> bool:
        """Whether the devices of every node meet in a switch."""
        return all(home.links.switched for home in self.homes)

    def _around(self, count: int, home: EqualNodes) -> Transfers:
        """The same for all nodes of a kind with that many members."""
        alike = [members == count and kind is home for members, kind in zip(self.counts, self.homes, strict=True)]
        starts, kind = self.starts[:-1][np.array(alike)], home.scale_up
        if kind in ("links", "ring"):
            of = defaultdict[tuple[int, ...], list[int]](list)  # starts by devices: whole nodes are all alike
            for s in starts.tolist():
                of[self.local[s : s + count]].append(s)
            parts = [
                self._shifted(intra_node_rings.around(home.links, local), np.array(begins))
                for local, begins in of.items()
            ]
            src, dst, share = (np.concatenate(column) for column in zip(*parts, strict=True))
            return src, dst, share
        pattern = intra_node_rings.everyone(count) if kind == "mesh" else intra_node_rings.once_around(count)
        return self._shifted(pattern, starts)

    @staticmethod
    def _shifted(pattern: Transfers, starts: Ints) -> Transfers:
        src, dst, share = pattern
        return (src + starts[:, None]).ravel(), (dst + starts[:, None]).ravel(), np.tile(share, len(starts))


def in_turn(groups: Ints, fabric: Fabric) -> Ints:
    """Groups (g, n) with the members of a node beside each other, nodes in the order of their first members."""
    if fabric.network.coordinates(groups[:1, :1]) is not None:
        return np.sort(groups, axis=-1)
    node, position = locate(fabric.numbering, groups)[1], np.arange(groups.shape[1])
    together = np.argsort(node, axis=1, kind="stable")
    alike = np.take_along_axis(node, together, axis=1)
    begins = np.concatenate([np.ones((len(groups), 1), np.bool_), np.diff(alike, axis=1) != 0], axis=1)
    # Of each place in that order, where the members of its node begin: there its first member stands.
    begin = np.maximum.accumulate(np.where(begins, position, 0), axis=1)
    first = np.empty_like(together)
    np.put_along_axis(first, together, np.take_along_axis(together, begin, axis=1), axis=1)
    found: Ints = np.take_along_axis(groups, np.lexsort((groups, first), axis=1), axis=1)
    return found


def placements(groups: Ints, fabric: Fabric) -> Iterator[tuple[GroupPlacement, Ints]]:
    """The different layouts of groups (g, n), each with the rows that have it; members of a node stand together."""
    kind, node, device = locate(fabric.numbering, groups)
    if (grid := fabric.network.coordinates(groups)) is not None:
        yield from _on_grid(grid, fabric)
        return
    parts: list[Ints | NDArray[np.bool_]] = [np.diff(node, axis=1) != 0]
    if any(nodes.scale_up in ("links", "ring") for nodes in fabric.nodes):
        # Which device it is matters only beside others of the same node.
        beside = np.diff(node, axis=1, prepend=-1, append=-1) == 0
        device = np.where(beside[:, :-1] | beside[:, 1:], device, 0)
        parts.append(device)
    numbered = len(parts) > 1
    kind = np.broadcast_to(kind, groups.shape)
    if len(fabric.nodes) > 1:
        parts.append(kind)
    for rows in _alike(np.concatenate(parts, axis=1)):
        first = rows[0]
        edges = np.flatnonzero(parts[0][first]) + 1
        counts = tuple(b - a for a, b in pairwise([0, *edges.tolist(), groups.shape[1]]))
        local = device[first] if numbered else np.zeros(groups.shape[1], np.int64)
        homes = tuple(fabric.nodes[each] for each in kind[first, [0, *edges.tolist()]].tolist())
        yield GroupPlacement(counts, tuple(local.tolist()), fabric, homes), rows


def _on_grid(places: Ints, fabric: Fabric) -> Iterator[tuple[GroupPlacement, Ints]]:
    """Layouts of groups on a grid, whose coordinates are (g, n, dimensions): by the boxes that they fill."""
    slices = np.ones(len(places), np.int64)
    if fabric.network.sliced:
        slices += np.count_nonzero(np.diff(places[..., 0], axis=1), axis=1)
        places = places[..., 1:]
    extent = places.max(axis=1) - places.min(axis=1) + 1
    members = places.shape[1]
    full = extent.prod(axis=1) * slices == members
    for rows in _alike(np.where(full[:, None], np.column_stack([slices, extent]), 0)):
        box, many = (tuple(extent[rows[0]].tolist()), int(slices[rows[0]])) if full[rows[0]] else ((), 1)
        yield GroupPlacement((1,) * members, (0,) * members, fabric, fabric.nodes * members, box, many), rows


def _alike(signatures: NDArray[np.generic]) -> Iterator[Ints]:
    """Indices of equal rows, in the order of first appearance."""
    if (signatures == signatures[:1]).all():
        yield np.arange(len(signatures))
        return
    _, first, which = np.unique(signatures, axis=0, return_index=True, return_inverse=True)
    for kind in np.argsort(first):
        yield np.flatnonzero(which.reshape(-1) == kind)
