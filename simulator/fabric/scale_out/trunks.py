"""Networks of switches between nodes: trees of trunks.

A network card enters the lowest group of switches that its node belongs to; groups of one level are joined by the
trunks that lead up from them, and above the last level everything is joined without blocking. Parallel switches and
cables of a trunk are one link with their total capacity: ideal spreading over equal paths. Leaf-spine and fat trees are
this (with oversubscription as a divisor of the trunk's capacity); a dragonfly is this with one level, whose trunk is
all global links of a group: adaptive routing that uses them evenly. What is left out: collisions of hashed flows, and
the longer way of non-minimal routes.

Nodes of several kinds enter by their own cards. A trunk of nodes of several kinds is the mean, over the places of its
group, of what it would be if all were of each kind; places that no node takes count as those of the last node.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem
from simulator.fabric.nodes import locate
from simulator.fabric.scale_out.base import Block, Floats, Ints, Point, ScaleOut
from simulator.fabric.scale_out.cards import place
from simulator.specs.hardware import Cluster
from simulator.specs.text.numbering import Numbering


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

    joins_kinds: ClassVar[bool] = True
    each_alone: ClassVar[bool] = True
    top: ClassVar[str] = "core"
    """What the groups of the highest level meet in."""

    numbering: Numbering
    """Of nodes and devices."""
    cards_of: Numbering
    """Of nodes and ports; cards that one device has for itself alone count as one port."""
    trunks: tuple[Trunk, ...]
    """Levels, as they are over nodes of the first kind."""
    trunk_capacity: tuple[Floats, ...]
    """Bytes per second up, and as many down, from one plane of each group of each level; (groups,)."""
    card_capacity: Floats
    """Bytes per second and direction; (ports,)."""
    card_latency: tuple[Floats, Floats]
    """Seconds from device memory through the first switch, and from the last switch to device memory; (ports,)."""

    speaks: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """What ports talk RDMA in, negative for those that do not; empty where all understand each other; (ports,)."""
    socket_capacity: Floats = field(default_factory=lambda: np.zeros(0))
    """Bytes per second and direction of ports that do not understand each other; (ports,)."""

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """Cards and trunks; InputError where the nodes have no cards."""
        numbering, trunks, capacity, latency = cluster.numbering, [], [], []
        ports: list[int] = []
        for part in cluster.partitions:
            nics = part.node.nics
            if nics is None:
                raise InputError(f"a cluster on a network of kind `{cluster.network.kind}` needs nodes with `nics`")
            ports.append(min(nics.count, part.node.devices))
            owned = np.diff(np.arange(ports[-1] + 1) * nics.count // ports[-1])
            levels, entry = cls.levels(cluster, nics.count * nics.bandwidth.value, ports[-1])
            wire = nics.latency.value / 2 if nics.latency else 0.0
            trunks.append(levels)
            capacity.append(np.tile(owned * nics.bandwidth.value, part.nodes))
            latency.append(np.tile([[wire + entry], [wire]], part.nodes * ports[-1]))
        widths = tuple(_capacity(kinds, numbering) for kinds in zip(*trunks, strict=True))
        up, down = np.concatenate(latency, axis=1)
        cards = Numbering(numbering.nodes, tuple(ports))
        speaks, sockets = _languages(cluster, cards)
        return cls(numbering, cards, trunks[0], widths, np.concatenate(capacity), (up, down), speaks, sockets)

    @classmethod
    @abstractmethod
    def levels(cls, cluster: Cluster, injected: float, cards: int) -> tuple[tuple[Trunk, ...], float]:
        """Trunks from the lowest level up, and seconds through the first switches; `injected` are the bytes per second
        of a node's cards together."""

    @property
    def blocks(self) -> list[Block]:
        """(kind, links, capacity, latency) of each block of links in the order of their numbers."""
        cards = self.cards_of.all_devices
        blocks = [
            (f"NIC {way}", cards, self.card_capacity, seconds)
            for way, seconds in zip(("up", "down"), self.card_latency, strict=True)
        ]
        for trunk, of_group in zip(self.trunks, self.trunk_capacity, strict=True):
            count = self.groups(trunk) * trunk.rails
            capacity = np.repeat(of_group, trunk.rails)
            blocks.append((f"{trunk.name} up", count, capacity, np.full(count, trunk.up_latency)))
            blocks.append((f"{trunk.name} down", count, capacity, np.full(count, trunk.down_latency)))
        if len(self.speaks):
            none = np.zeros(cards)
            blocks += [(f"sockets {way}", cards, self.socket_capacity, none) for way in ("up", "down")]
        return blocks

    def groups(self, trunk: Trunk) -> int:
        """Groups of a level."""
        return -(-self.numbering.all_nodes // trunk.nodes)

    def paths(self, src: Ints, dst: Ints, first: int = 0) -> Ints:
        """Links, counted from `first`, of flows between ranks, padded with -1; shape (2 + 2 levels, flows)."""
        (node, card, port), (to_node, to_card, to_port) = self._place(src), self._place(dst)
        levels = len(self.trunks)
        matrix = np.full((2 + 2 * levels, len(node)), -1, np.int64)
        cards = self.cards_of.all_devices
        matrix[0] = port + first
        matrix[-1] = to_port + (first + cards)
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
        if len(self.speaks):
            apart = (self.speaks[port] != self.speaks[to_port]) | (self.speaks[port] < 0)
            over = np.where(apart, [port + base, to_port + (base + cards)], -1)
            return np.concatenate([matrix, over])
        return matrix

    def reduced(self, rank: Ints, tree: Ints, first: int = 0) -> tuple[Ints, Ints]:
        """Card, then trunks as far up as ranks of the tree are apart."""
        node, card, port = self._place(rank)
        _, which = np.unique(tree, return_inverse=True)
        cards = self.cards_of.all_devices
        up, down = np.full((2, 1 + len(self.trunks), len(rank)), -1, np.int64)
        up[0], down[0], base = port + first, port + first + cards, first + 2 * cards
        apart = np.ones(len(rank), bool)
        for level, trunk in enumerate(self.trunks, 1):
            group, count = node // trunk.nodes * trunk.rails + card % trunk.rails, self.groups(trunk) * trunk.rails
            apart &= _differ(group, which)
            up[level, apart], down[level, apart] = base + group[apart], base + count + group[apart]
            base += 2 * count
        return up, down

    def tiers(self, src: Ints, dst: Ints) -> Ints:
        """2 where flows meet in the lowest switch, one more for each level that they climb."""
        climbed: Ints = (self.paths(src, dst)[1 : 1 + len(self.trunks)] >= 0).sum(axis=0)
        return 2 + climbed

    def cards(self, rank: Ints) -> int:
        """Ports that ranks of a node share."""
        return len(set(self._place(rank)[1].tolist()))

    def _place(self, rank: Ints) -> tuple[Ints, Ints, Ints]:
        """(node, port of the node, port of all) of ranks."""
        return place(self.numbering, self.cards_of, rank)

    def edges(self) -> Iterator[tuple[Point, Point, int | None]]:
        """(from, to, link or None where the way is free) of everything, links counted from the first card."""
        node, number, _ = self._place(np.arange(self.numbering.all_devices))
        for rank, home in enumerate(zip(node.tolist(), number.tolist(), strict=True)):
            card = ("NIC", *home)
            yield from (((("device", rank), card, None)), (card, ("device", rank), None))
        cards = self.cards_of.all_devices
        base = 2 * cards
        _, node, number = locate(self.cards_of, np.arange(cards))
        for link, home in enumerate(zip(node.tolist(), number.tolist(), strict=True)):
            leaf = self._above(-1, *home)
            yield ("NIC", *home), leaf, link
            yield leaf, ("NIC", *home), cards + link
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
            return (self.top,)
        trunk = self.trunks[level + 1]
        return (trunk.name, node // trunk.nodes, rail % trunk.rails)


def _capacity(kinds: tuple[Trunk, ...], numbering: Numbering) -> Floats:
    """Capacity of the groups of a level, given as what it is over nodes of each kind; (groups,)."""
    places, rails = kinds[0].nodes, {trunk.rails for trunk in kinds}
    if len(rails) > 1:
        message = (
            f"planes of `{kinds[0].name}` join equal cards, and nodes have {' and '.join(map(str, sorted(rails)))}"
        )
        raise InputError(Problem(message, path="cluster.network.rail_optimised", hint="write `rail_optimised: false`"))
    count = -(-numbering.all_nodes // places)
    begin = np.arange(count, dtype=np.float64) * places
    stops = (*numbering.first_node[1:-1], np.inf)
    share: dict[float, Floats] = {}
    for trunk, first, stop in zip(kinds, numbering.first_node, stops, strict=False):
        inside = np.clip(np.minimum(begin + places, stop) - np.maximum(begin, first), 0, None)
        share[trunk.capacity] = share.get(trunk.capacity, np.zeros(count)) + inside
    widths: Floats = sum((width * (inside / places) for width, inside in share.items()), np.zeros(count))
    return widths


def _differ(value: Ints, which: Ints) -> NDArray[np.bool_]:
    """For each place whether values of its kind (`which`, from 0) differ."""
    low, high = np.full(which.max() + 1, np.iinfo(np.int64).max), np.full(which.max() + 1, -1)
    np.minimum.at(low, which, value)
    np.maximum.at(high, which, value)
    found: NDArray[np.bool_] = (low != high)[which]
    return found


_LANGUAGES = {"infiniband": 0, "roce": 1, "none": -1}


def _languages(cluster: Cluster, cards: Numbering) -> tuple[Ints, Floats]:
    """What ports talk RDMA in and what they reach without, (ports,) each; empty where all understand each other."""
    nics = [part.node.nics for part in cluster.partitions]
    if any(card is None or card.rdma is None for card in nics):
        return np.zeros(0, np.int64), np.zeros(0)
    spoken, reached = [], []
    for card, nodes, ports in zip(nics, cards.nodes, cards.per_node, strict=True):
        assert card is not None and card.rdma is not None and card.sockets is not None  # the spec demands them
        owned = np.diff(np.arange(ports + 1) * card.count // ports)
        spoken.append(np.full(nodes * ports, _LANGUAGES[card.rdma]))
        reached.append(np.tile(owned * card.sockets.value, nodes))
    return np.concatenate(spoken), np.concatenate(reached)
