"""Networks of switches between nodes: trees of trunks.

A network card enters the lowest group of switches that its node belongs to; groups of one level are joined by the
trunks that lead up from them, and above the last level everything is joined without blocking. Parallel switches and
cables of a trunk are one link with their total capacity: ideal spreading over equal paths. Leaf-spine and fat trees are
this (with oversubscription as a divisor of the trunk's capacity); a dragonfly is this with one level, whose trunk is
all global links of a group: adaptive routing that uses them evenly. What is left out: collisions of hashed flows, and
the longer way of non-minimal routes.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from simulator.errors import InputError
from simulator.fabric.scale_out.base import Block, Floats, Ints, Point, ScaleOut
from simulator.specs.hardware import Cluster


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
class Trunks(ScaleOut):
    """Cards and trunks with their links: cards up, cards down, then for each level trunks up and trunks down."""

    nodes: int
    per_node: int
    """Devices of a node."""
    ports: int
    """Ports per node; cards that one device has for itself alone count as one port."""
    trunks: tuple[Trunk, ...]
    card_capacity: Floats
    """Bytes per second and direction; (ports,)."""
    card_latency: tuple[float, float]
    """Seconds from device memory through the first switch, and from the last switch to device memory."""

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """Cards and trunks; InputError where the nodes have no cards."""
        nics = cluster.node.nics
        if nics is None:
            raise InputError(f"a cluster on a network of kind `{cluster.network.kind}` needs nodes with `nics`")
        devices = cluster.node.devices
        ports = min(nics.count, devices)
        owned = np.diff(np.arange(ports + 1) * nics.count // ports)
        wire = nics.latency.value / 2 if nics.latency else 0.0
        trunks, entry = cls.levels(cluster, nics.count * nics.bandwidth.value, ports)
        return cls(cluster.nodes, devices, ports, trunks, owned * nics.bandwidth.value, (wire + entry, wire))

    @classmethod
    @abstractmethod
    def levels(cls, cluster: Cluster, injected: float, cards: int) -> tuple[tuple[Trunk, ...], float]:
        """Trunks from the lowest level up, and seconds through the first switches; `injected` are the bytes per second
        of a node's cards together."""

    @property
    def blocks(self) -> list[Block]:
        """(kind, links, capacity, latency) of each block of links in the order of their numbers."""
        cards = self.nodes * self.ports
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

    def paths(self, src: Ints, dst: Ints, first: int = 0) -> Ints:
        """Links, counted from `first`, of flows between ranks, padded with -1; shape (2 + 2 levels, flows)."""
        (node, card), (to_node, to_card) = self._place(src), self._place(dst)
        levels = len(self.trunks)
        matrix = np.full((2 + 2 * levels, len(node)), -1, np.int64)
        cards = self.nodes * self.ports
        matrix[0] = node * self.ports + (card + first)
        matrix[-1] = to_node * self.ports + (to_card + first + cards)
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

    def tiers(self, src: Ints, dst: Ints) -> Ints:
        """2 where flows meet in the lowest switch, one more for each level that they climb."""
        climbed: Ints = (self.paths(src, dst)[1 : 1 + len(self.trunks)] >= 0).sum(axis=0)
        return 2 + climbed

    def cards(self, rank: Ints) -> int:
        """Ports that ranks of a node share."""
        return len(np.unique(self._place(rank)[1]))

    def _place(self, rank: Ints) -> tuple[Ints, Ints]:
        """Node and port of ranks."""
        node, device = np.divmod(rank, self.per_node)
        return node, device * self.ports // self.per_node

    def edges(self) -> Iterator[tuple[Point, Point, int | None]]:
        """(from, to, link or None where the way is free) of everything, links counted from the first card."""
        for rank in range(self.nodes * self.per_node):
            node, device = divmod(rank, self.per_node)
            card = ("NIC", node, device * self.ports // self.per_node)
            yield from (((("device", rank), card, None)), (card, ("device", rank), None))
        base = 2 * self.nodes * self.ports
        for node in range(self.nodes):
            for card_number in range(self.ports):
                link = node * self.ports + card_number
                leaf = self._above(-1, node, card_number)
                yield ("NIC", node, card_number), leaf, link
                yield leaf, ("NIC", node, card_number), self.nodes * self.ports + link
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
