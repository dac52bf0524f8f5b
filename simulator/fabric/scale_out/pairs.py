"""Nodes of which each pair has a bandwidth of its own, as it was measured.

A flow takes the card of its device, the link of its pair of nodes, one way, and the card there. The link has what was
measured between the two; all flows of the pair share it, and flows to several nodes share the sender's card. What pairs
have in common inside the network is not in a matrix of pairs: where two of them cross one trunk, and were not measured
at the same time, they are taken to have it twice. Libraries plan with what cards promise and know nothing of the
matrix, as NCCL does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from simulator.errors import InputError, Problem
from simulator.fabric.scale_out.base import NETWORKS, UNLIMITED, Block, Floats, Ints, Point, ScaleOut
from simulator.fabric.scale_out.cards import Cards
from simulator.specs.hardware import Cluster
from simulator.specs.network import Pairs
from simulator.specs.network.measured import PATH, read_pairs


@NETWORKS.add("pairs", Pairs)
@dataclass(frozen=True, slots=True, eq=False)
class PairsNetwork(ScaleOut):
    """Links: cards up, cards down, then one of each ordered pair of nodes, those that leave node 0 first."""

    each_alone: ClassVar[bool] = True

    cards_in: Cards
    rates: Floats
    """Bytes per second from node to node, infinite on the diagonal; (nodes, nodes)."""
    passage: float
    """Seconds through what lies between two cards."""

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """The pairs of a cluster; InputError where its file has fewer nodes."""
        keys, cards = cluster.network.more, Cards.of(cluster)
        assert isinstance(keys, Pairs)
        rates, nodes = read_pairs(keys.matrix).rates, cluster.nodes
        if nodes > len(rates):
            message = f"the cluster has {nodes:,} nodes, and `{keys.matrix}` bandwidths of {len(rates):,}"
            raise InputError(Problem(message, path=PATH, hint=f"write `nodes: {len(rates)}` or less"))
        latency = cluster.network.latency
        many = cards.ports.per_node[0] if keys.of == "card" else 1
        return cls(cards, rates[:nodes, :nodes] * many, latency.value if latency else 0.0)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """(kind, links, capacity, latency) of each block of links in the order of their numbers."""
        cards, pairs = self.cards_in, self.rates[~np.eye(len(self.rates), dtype=bool)]
        return (
            ("NIC up", cards.count, cards.capacity, cards.wire + self.passage),
            ("NIC down", cards.count, cards.capacity, cards.wire),
            ("pair", len(pairs), pairs, np.zeros(len(pairs))),
        )

    def promised(self, capacity: Floats) -> Floats:
        """What hardware promises: cards; no library knows the matrix."""
        found = capacity.copy()
        found[len(found) - len(self.rates) * (len(self.rates) - 1) :] = UNLIMITED
        return found

    def paths(self, src: Ints, dst: Ints, first: int = 0) -> Ints:
        """Card, pair, card; ranks of one node have no pair between them."""
        (node, _, port), (to_node, _, to_port) = self.cards_in.place(src), self.cards_in.place(dst)
        cards, others = self.cards_in.count, len(self.rates) - 1
        pair = np.where(node == to_node, -1, first + 2 * cards + node * others + to_node - (to_node > node))
        return np.stack([port + first, pair, to_port + first + cards])

    def tiers(self, src: Ints, dst: Ints) -> Ints:
        """2 of all."""
        return np.full(len(src), 2, np.int64)

    def cards(self, rank: Ints) -> int:
        """Ports that ranks of a node share."""
        return len(set(self.cards_in.place(rank)[1].tolist()))

    def ends(self, link: int) -> str:
        """The nodes of a pair."""
        pair = link - 2 * self.cards_in.count
        return "" if pair < 0 else "node {} > node {}".format(*self._nodes(pair))

    def _nodes(self, pair: int) -> tuple[int, int]:
        """From which node to which a pair leads."""
        begin, end = divmod(pair, len(self.rates) - 1)
        return begin, end + (end >= begin)

    def edges(self) -> Iterator[tuple[Point, Point, int | None]]:
        """Devices, ports, and what leaves and enters each node."""
        node, number, _ = self.cards_in.place(np.arange(self.cards_in.numbering.all_devices))
        for rank, home in enumerate(zip(node.tolist(), number.tolist(), strict=True)):
            yield from (((("device", rank), ("NIC", *home), None)), (("NIC", *home), ("device", rank), None))
        ports, nodes = self.cards_in.count, len(self.rates)
        for link, home in enumerate(zip(*map(np.ndarray.tolist, self.cards_in.homes()), strict=True)):
            yield ("NIC", *home), ("NIC", home[0], "out"), link
            yield ("NIC", home[0], "in"), ("NIC", *home), ports + link
        for pair in range(nodes * (nodes - 1)):
            begin, end = self._nodes(pair)
            yield ("NIC", begin, "out"), ("NIC", end, "in"), 2 * ports + pair
