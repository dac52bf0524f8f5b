"""A torus or mesh of devices: the network goes through the devices themselves, as in a TPU pod.

Ranks count along the last dimension first. Packets follow the dimensions in their order (dimension-ordered routing), in
each the shorter way round; opposite devices of a ring are reached upwards from even coordinates and downwards from odd
ones. In a twisted torus of sizes k and 2 k (TPU v4; Camarero, Martinez and Beivide, IEEE Transactions on Computers 59,
2010) the seam of a short dimension leads k further along each long one, and of all ways to a place the shortest is
taken. Slices of pods close where they are whole blocks (`Slices`). What is left out: reconfiguration while a job runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Self

import numpy as np

from simulator.errors import InputError, Problem
from simulator.fabric.scale_out.base import NETWORKS, Block, Ints, Point, ScaleOut
from simulator.specs.hardware import Cluster, Network


@NETWORKS.add("torus")
@dataclass(frozen=True, slots=True, eq=False)
class Torus(ScaleOut):
    """Link `(2 * dimension + downwards) * devices + device` leaves a device towards its neighbour."""

    shape: tuple[int, ...]
    closed: tuple[bool, ...]
    """Whether each dimension is a ring."""
    bandwidth: float
    """Bytes per second of a link, one direction."""
    latency: float
    """Seconds a hop."""
    twist: bool = False

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
        return cls.of(network)

    @classmethod
    def of(cls, network: Network) -> Self:
        """The torus that a network describes, whatever it joins."""
        assert network.bandwidth is not None  # the spec demands it
        latency = network.latency.value if network.latency else 0.0
        return cls(network.shape, network.closed, network.bandwidth.value, latency, network.twist)

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
        if not any(self.closed):
            return stop - start
        if not self.twist:
            return np.where(np.array(self.closed), self._shorter(start, stop - start), stop - start)
        short = np.array(self.shape) == min(self.shape)
        best = np.full(start.shape, 2 * sum(self.shape), np.int64)
        for seams in product((0, -1, 1), repeat=int(short.sum())):
            steps = stop - start + min(self.shape) * np.where(short, 0, sum(seams))
            steps[:, short] += min(self.shape) * np.array(seams)
            steps = np.where(short, steps, self._shorter(start, steps))
            nearer = np.abs(steps).sum(axis=1) < np.abs(best).sum(axis=1)
            best = np.where(nearer[:, None], steps, best)
        return best

    def _shorter(self, start: Ints, steps: Ints) -> Ints:
        """Steps that lead to the same places the shorter way round."""
        size = np.array(self.shape)
        ahead = steps % size
        tie = 2 * ahead == size
        backwards = (2 * ahead > size) | (tie & (start % 2 == 1))
        shorter: Ints = np.where(backwards, ahead - size, ahead)
        return shorter

    def _moved(self, here: Ints, dimension: int, step: Ints) -> Ints:
        """Coordinates one step along a dimension, or none; (flows, dimensions)."""
        there, size, k = here.copy(), self.shape[dimension], min(self.shape)
        there[:, dimension] += step
        if self.twist and size == k:
            seam = (there[:, dimension] < 0) | (there[:, dimension] >= size)
            there[seam] += np.where(np.array(self.shape) > k, k, 0)
        found: Ints = there % np.array(self.shape)
        return found

    def paths(self, src: Ints, dst: Ints, first: int = 0) -> Ints:
        """Links of flows between ranks, counted from `first`, padded with -1; shape (longest way, flows)."""
        here = self.coordinates(src)
        steps = self.hops(here, self.coordinates(dst))
        longest = max(int(np.abs(steps).sum(axis=1).max(initial=0)), 1)
        matrix = np.full((longest, len(src)), -1, np.int64)
        flows, done = np.arange(len(src)), np.zeros(len(src), np.int64)
        for dimension in range(len(self.shape)):
            step = steps[:, dimension]
            for hop in range(int(np.abs(step).max(initial=0))):
                moving = np.abs(step) > hop
                block = 2 * dimension + (step < 0)
                link = block * self.devices + np.ravel_multi_index(tuple(here.T), self.shape)
                matrix[done[moving], flows[moving]] = first + link[moving]
                done += moving
                here = self._moved(here, dimension, np.where(moving, np.sign(step), 0))
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
                # Two devices have no seam: they are neighbours once, if it does not lead elsewhere.
                if (self.closed[block // 2] and (size > 2 or self.twist)) or 0 <= there[block // 2] < size:
                    step = np.array([1 - 2 * (block % 2)])
                    place = self._moved(here[None], block // 2, step)[0]
                    to = int(np.ravel_multi_index(tuple(place), self.shape))
                    yield ("device", rank), ("device", to), block * self.devices + rank
