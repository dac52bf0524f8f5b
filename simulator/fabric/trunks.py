"""Networks of switches between nodes: trees of trunks.

A network card enters the lowest group of switches that its node belongs to; groups of one level are joined by the
trunks that lead up from them, and above the last level everything is joined without blocking. Parallel switches and
cables of a trunk are one link with their total capacity: ideal spreading over equal paths. Leaf-spine and fat trees are
this (with oversubscription as a divisor of the trunk's capacity); a dragonfly is this with one level, whose trunk is
all global links of a group: adaptive routing that uses them evenly. What is left out: collisions of hashed flows, and
the longer way of non-minimal routes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.specs.hardware import Cluster, Nics

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Point = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Trunk:
    """One level of switch groups."""

    name: str
    nodes: int
    """Nodes below one group."""
    rails: int
    """Separate planes in a group: cards r of all its nodes meet in plane r; 1 where all cards meet."""
    capacity: float
    """Bytes per second up, and as many down, from one plane of one group."""
    up_latency: float
    """Seconds of a packet on the way up, passage through the switches above included."""
    down_latency: float
    """Seconds of a packet on the way down, passage through this level's switches included."""


@dataclass(frozen=True, slots=True, eq=False)
class Trunks:
    """Cards and trunks with their links: cards up, cards down, then for each level trunks up and trunks down."""

    nodes: int
    cards: int
    """Ports per node; cards that one device has for itself alone count as one port."""
    trunks: tuple[Trunk, ...]
    card_capacity: Floats
    """Bytes per second and direction; (cards,)."""
    card_latency: tuple[float, float]
    """Seconds from device memory through the first switch, and from the last switch to device memory."""

    @property
    def blocks(self) -> list[tuple[str, int, Floats, Floats]]:
        """(kind, links, capacity, latency) of each block of links in the order of their numbers."""
        cards = self.nodes * self.cards
        card_capacity = np.tile(self.card_capacity, self.nodes)
        blocks = [
            (f"NIC {way}", cards, card_capacity, np.full(cards, seconds))
            for way, seconds in zip(("up", "down"), self.card_latency, strict=True)
        ]
        for trunk in self.trunks:
            count = self.groups(trunk) * trunk.rails
            capacity = np.full(count, trunk.capacity)
            blocks.append((f"{trunk.name} up", count, capacity, np.full(count, trunk.up_latency)))
            blocks.append((f"{trunk.name} down", count, capacity, np.full(count, trunk.down_latency)))
        return blocks

    def groups(self, trunk: Trunk) -> int:
        """Groups of a level."""
        return -(-self.nodes // trunk.nodes)

    def paths(self, node: Ints, card: Ints, to_node: Ints, to_card: Ints, first: int = 0) -> Ints:
        """Links, counted from `first`, of flows between cards of nodes, padded with -1; shape (2 + 2 levels, flows)."""
        levels = len(self.trunks)
        matrix = np.full((2 + 2 * levels, len(node)), -1, np.int64)
        cards = self.nodes * self.cards
        matrix[0] = node * self.cards + (card + first)
        matrix[-1] = to_node * self.cards + (to_card + first + cards)
        base, met = first + 2 * cards, np.zeros(len(node), bool)
        for level, trunk in enumerate(self.trunks):
            up = node // trunk.nodes * trunk.rails + card % trunk.rails
            down = to_node // trunk.nodes * trunk.rails + to_card % trunk.rails
            met |= up == down
            count = self.groups(trunk) * trunk.rails
            climbing = np.flatnonzero(~met)
            matrix[1 + level, climbing] = base + up[climbing]
            matrix[-2 - level, climbing] = base + count + down[climbing]
            base += 2 * count
        return matrix

    def tiers(self, node: Ints, card: Ints, to_node: Ints, to_card: Ints) -> Ints:
        """Levels of switches that flows climb before they meet; 0 where they meet in the lowest one."""
        paths = self.paths(node, card, to_node, to_card)
        climbed: Ints = (paths[1 : 1 + len(self.trunks)] >= 0).sum(axis=0)
        return climbed

    def card_of(self, device: Ints, devices: int) -> Ints:
        """The port of a device, by its number in the node."""
        return device * self.cards // devices

    def edges(self, devices: int) -> Iterator[tuple[Point, Point, int | None]]:
        """(from, to, link or None where the way is free) of everything, links counted from the first card."""
        for rank in range(self.nodes * devices):
            node, device = divmod(rank, devices)
            card = ("NIC", node, device * self.cards // devices)
            yield from (((("device", rank), card, None)), (card, ("device", rank), None))
        base = 2 * self.nodes * self.cards
        for node in range(self.nodes):
            for card_number in range(self.cards):
                link = node * self.cards + card_number
                leaf = self._above(-1, node, card_number)
                yield ("NIC", node, card_number), leaf, link
                yield leaf, ("NIC", node, card_number), self.nodes * self.cards + link
        for level, trunk in enumerate(self.trunks):
            count = self.groups(trunk) * trunk.rails
            for index in range(count):
                group, rail = divmod(index, trunk.rails)
                here, above = (trunk.name, group, rail), self._above(level, group * trunk.nodes, rail)
                yield here, above, base + index
                yield above, here, base + count + index
            base += 2 * count

    def _above(self, level: int, node: int, rail: int) -> Point:
        """The switch group over level `level` (over the cards: -1) at a node."""
        if level + 1 == len(self.trunks):
            return ("core",)
        trunk = self.trunks[level + 1]
        return (trunk.name, node // trunk.nodes, rail % trunk.rails)


def build_trunks(cluster: Cluster) -> Trunks:
    """Cards and trunks of a tree or dragonfly; InputError where the nodes have no cards."""
    nics = cluster.node.nics
    if nics is None:
        raise InputError(f"a cluster on a network of kind `{cluster.network.kind}` needs nodes with `nics`")
    devices = cluster.node.devices
    cards = min(nics.count, devices)
    owned = np.diff(np.arange(cards + 1) * nics.count // cards)
    wire = nics.latency.value / 2 if nics.latency else 0.0
    trunks, entry = _dragonfly(cluster) if cluster.network.kind == "dragonfly" else _tree(cluster, nics, cards)
    return Trunks(cluster.nodes, cards, trunks, owned * nics.bandwidth.value, (wire + entry, wire))


def _tree(cluster: Cluster, nics: Nics, cards: int) -> tuple[tuple[Trunk, ...], float]:
    """Levels of a leaf-spine network or fat tree, only the lowest split into rails, and the latency of a leaf."""
    levels = cluster.network.levels
    latency = [level.latency.value if level.latency else 0.0 for level in levels]
    trunks, per_node = [], nics.count * nics.bandwidth.value
    for depth, level in enumerate(levels):
        rails = cards if cluster.network.rail_optimised and depth == 0 else 1
        per_node /= level.oversubscription
        # What joins the highest level is not described: it is taken to be as quick as that level.
        above = latency[min(depth + 1, len(levels) - 1)]
        trunks.append(Trunk(level.name, level.nodes, rails, level.nodes * per_node / rails, above, latency[depth]))
    return tuple(trunks), latency[0]


def _dragonfly(cluster: Cluster) -> tuple[tuple[Trunk, ...], float]:
    """One level, the group, left through all its global links together; two switches in a group, four across groups."""
    network = cluster.network
    assert network.group_nodes is not None and network.global_bandwidth is not None  # the spec demands both
    passage = network.latency.value if network.latency else 0.0
    group = Trunk("group", network.group_nodes, 1, network.global_bandwidth.value, passage, passage)
    return (group,), 2 * passage
