"""Slices of a TPU pod joined by the data-centre network (Google's Multislice; Gemini, arXiv:2312.11805, section 4).

Every slice is a torus of its own. What goes to another slice leaves through the card of the host, crosses a network
that joins all cards without blocking, or with an `oversubscription` of what leads out of a slice, and enters through
the card of the other host. Ranks count slice after slice. What is left out: several paths inside the data-centre
network, and what other users of it send.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np

from simulator.errors import InputError, Problem
from simulator.fabric.scale_out.base import NETWORKS, Block, Ints, Point, ScaleOut
from simulator.fabric.scale_out.cards import Cards
from simulator.fabric.scale_out.torus import Torus
from simulator.specs.hardware import Cluster
from simulator.specs.network import Multislice


@NETWORKS.add("multislice", Multislice)
@dataclass(frozen=True, slots=True, eq=False)
class JoinedSlices(ScaleOut):
    """Links: those of the tori by dimension and direction, slice after slice; cards up, cards down; ways out of slices
    and into them."""

    torus: Torus
    """One slice."""
    slices: int
    """How many."""
    hosts: Cards
    """Cards of the hosts."""
    oversubscription: float

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """The slices of a cluster; InputError where its devices are not whole slices or its nodes have no cards."""
        network, keys, size = cluster.network, cluster.network.more, prod(cluster.network.shape)
        assert isinstance(keys, Multislice)
        if words := network.beyond(size):
            raise InputError(Problem(words, path="cluster.network.shape"))
        if cluster.devices % size or size % cluster.node.devices:
            sizes = f"{' x '.join(map(str, network.shape))} = {size:,}"
            message = f"{cluster.devices:,} devices on hosts of {cluster.node.devices} are no whole slices of {sizes}"
            hint = f"write {-(-size // cluster.node.devices)} nodes a slice, or another `cluster.network.shape`"
            raise InputError(Problem(message, path="cluster.nodes", hint=hint))
        return cls(Torus.of(network), cluster.devices // size, Cards.of(cluster), keys.oversubscription)

    @property
    def devices(self) -> int:
        """Devices of all slices."""
        return self.slices * self.torus.devices

    @property
    def blocks(self) -> list[Block]:
        """(kind, links, capacity, latency) of each block of links in the order of their numbers."""
        inside = [
            (name, self.slices * count, np.tile(capacity, self.slices), np.tile(latency, self.slices))
            for name, count, capacity, latency in self.torus.blocks
        ]
        cards, none = self.hosts.count, np.zeros(self.slices)
        out = self.hosts.capacity.reshape(self.slices, -1).sum(axis=1) / self.oversubscription
        return [
            *inside,
            *((f"NIC {way}", cards, self.hosts.capacity, self.hosts.wire) for way in ("up", "down")),
            *((f"slice {way}", self.slices, out, none) for way in ("up", "down")),
        ]

    def coordinates(self, rank: Ints) -> Ints:
        """Slice, and coordinates in it; shape (*ranks, 1 + dimensions)."""
        number, place = np.divmod(rank, self.torus.devices)
        found: Ints = np.concatenate([number[..., None], self.torus.coordinates(place)], axis=-1)
        return found

    @property
    def sliced(self) -> bool:
        """Yes: the first coordinate is the slice."""
        return True

    def paths(self, src: Ints, dst: Ints, first: int = 0) -> Ints:
        """Links, counted from `first`, in the order of the way, padded with -1; shape (longest way, flows)."""
        own = self.torus.devices
        (number, place), (to_number, to_place) = np.divmod(src, own), np.divmod(dst, own)
        near, far = np.flatnonzero(number == to_number), np.flatnonzero(number != to_number)
        ways = self.torus.paths(place[near], to_place[near])
        block, device = np.divmod(ways, own)
        matrix = np.full((max(len(ways), 4 if len(far) else 1), len(src)), -1, np.int64)
        matrix[: len(ways), near] = np.where(ways >= 0, first + (block * self.slices + number[near]) * own + device, -1)
        if len(far):
            base, cards = first + 2 * len(self.torus.shape) * self.devices, self.hosts.count
            up, down = self.hosts.place(src[far])[2], self.hosts.place(dst[far])[2]
            trunk = base + 2 * cards
            matrix[:4, far] = base + up, trunk + number[far], trunk + self.slices + to_number[far], base + cards + down
        return matrix

    def tiers(self, src: Ints, dst: Ints) -> Ints:
        """1 + their distance in a slice; one more than the size of a slice between slices."""
        far = src // self.torus.devices != dst // self.torus.devices
        found: Ints = np.where(far, 2 + sum(self.torus.shape), 1 + (self.paths(src, dst) >= 0).sum(axis=0))
        return found

    def cards(self, rank: Ints) -> int:
        """As a torus: every device counts as a node."""
        return len(rank)

    def edges(self) -> Iterator[tuple[Point, Point, int | None]]:
        """(from, to, link or None where the way is free) of everything."""
        own = self.torus.devices
        for start, stop, link in self.torus.edges():
            block, device = divmod(link, own)
            for number in range(self.slices):
                moved = ("device", int(start[1]) + number * own), ("device", int(stop[1]) + number * own)
                yield *moved, (block * self.slices + number) * own + device
        base, cards = 2 * len(self.torus.shape) * self.devices, self.hosts.count
        ports = self.hosts.place(np.arange(self.devices))[2]
        first = np.unique(ports, return_index=True)[1]
        for rank, owner in enumerate(first[ports].tolist()):
            yield ("device", rank), ("card", owner), None
            yield ("card", owner), ("device", rank), None
        for port, owner in enumerate(first.tolist()):
            gate = ("slice", owner // own)
            yield ("card", owner), gate, base + port
            yield gate, ("card", owner), base + cards + port
        for number in range(self.slices):
            yield ("slice", number), ("core",), base + 2 * cards + number
            yield ("core",), ("slice", number), base + 2 * cards + self.slices + number
