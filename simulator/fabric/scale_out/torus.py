"""A torus or mesh of devices: the network goes through the devices themselves, as in a TPU pod.

Ranks count along the last dimension first. Packets follow the dimensions in their order (dimension-ordered routing), in
each the shorter way round; opposite devices of a ring are reached upwards from even coordinates and downwards from odd
ones. What is left out: twisted tori and optical reconfiguration.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np

from simulator.errors import InputError, Problem
from simulator.fabric.scale_out.base import NETWORKS, Block, Ints, Point, ScaleOut
from simulator.specs.hardware import Cluster


@NETWORKS.add("torus")
@dataclass(frozen=True, slots=True, eq=False)
class Torus(ScaleOut):
    """Link `(2 * dimension + downwards) * devices + device` leaves a device towards its neighbour."""

    shape: tuple[int, ...]
    wrap: bool
    bandwidth: float
    """Bytes per second of a link, one direction."""
    latency: float
    """Seconds a hop."""

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """The torus of a cluster; InputError where its shape does not hold the cluster's devices."""
        network = cluster.network
        if prod(network.shape) != cluster.devices:
            sizes = " x ".join(map(str, network.shape))
            message = (
                f"{cluster.nodes:,} nodes x {cluster.node.devices} = {cluster.devices:,} devices, but the network is a"
                f" torus of {sizes} = {prod(network.shape):,} devices"
            )
            hint = f"write a `cluster.network.shape` of {cluster.devices:,} devices as well"
            if prod(network.shape) % cluster.node.devices == 0:
                hint = f"{hint}, or `cluster.nodes: {prod(network.shape) // cluster.node.devices}`"
            raise InputError(Problem(message, path="cluster.nodes", hint=hint))
        if words := network.beyond(cluster.devices):
            raise InputError(words)
        assert network.bandwidth is not None  # the spec demands it
        return cls(
            network.shape, network.wrap, network.bandwidth.value, network.latency.value if network.latency else 0.0
        )

    @property
    def devices(self) -> int:
        """Devices in the torus."""
        return prod(self.shape)

    @property
    def blocks(self) -> list[Block]:
        """(kind, links, capacity, latency) of each block of links in the order of their numbers."""
        names = [f"torus {dimension}{sign}" for dimension in range(len(self.shape)) for sign in "+-"]
        capacity, latency = np.full(self.devices, self.bandwidth), np.full(self.devices, self.latency)
        return [(name, self.devices, capacity, latency) for name in names]

    def coordinates(self, rank: Ints) -> Ints:
        """Coordinates of ranks; shape (*ranks, dimensions)."""
        return np.stack(np.unravel_index(rank, self.shape), axis=-1).astype(np.int64)

    def hops(self, start: Ints, stop: Ints) -> Ints:
        """Signed steps along each dimension between coordinates; shape (flows, dimensions)."""
        size = np.array(self.shape)
        if not self.wrap:
            return stop - start
        ahead = (stop - start) % size
        tie = 2 * ahead == size
        backwards = (2 * ahead > size) | (tie & (start % 2 == 1))
        steps: Ints = np.where(backwards, ahead - size, ahead)
        return steps

    def paths(self, src: Ints, dst: Ints, first: int = 0) -> Ints:
        """Links of flows between ranks, counted from `first`, padded with -1; shape (longest way, flows)."""
        here = self.coordinates(src)
        steps = self.hops(here, self.coordinates(dst))
        longest = max(int(np.abs(steps).sum(axis=1).max(initial=0)), 1)
        matrix = np.full((longest, len(src)), -1, np.int64)
        flows, done = np.arange(len(src)), np.zeros(len(src), np.int64)
        for dimension, size in enumerate(self.shape):
            step = steps[:, dimension]
            for hop in range(int(np.abs(step).max(initial=0))):
                moving = np.abs(step) > hop
                block = 2 * dimension + (step < 0)
                link = block * self.devices + np.ravel_multi_index(tuple(here.T), self.shape)
                matrix[done[moving], flows[moving]] = first + link[moving]
                done += moving
                here[:, dimension] = (here[:, dimension] + moving * np.sign(step)) % size
        return matrix

    def tiers(self, src: Ints, dst: Ints) -> Ints:
        """1 + their distance."""
        far: Ints = 1 + (self.paths(src, dst) >= 0).sum(axis=0)
        return far

    def edges(self) -> Iterator[tuple[Point, Point, int]]:
        """(from, to, link) of all links."""
        for rank in range(self.devices):
            here = self.coordinates(np.array([rank]))[0]
            for block in range(2 * len(self.shape)):
                there = here.copy()
                there[block // 2] += 1 - 2 * (block % 2)
                size = self.shape[block // 2]
                # Two devices have no seam: they are neighbours once.
                if (self.wrap and size > 2) or 0 <= there[block // 2] < size:
                    to = int(np.ravel_multi_index(tuple(there % np.array(self.shape)), self.shape))
                    yield ("device", rank), ("device", to), block * self.devices + rank
