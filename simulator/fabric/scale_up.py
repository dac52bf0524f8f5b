"""The fabric inside a node: links among a few devices, with the route of every pair written down.

One function for each `ScaleUp.kind`. A packet goes the shortest way; on a `ring` the two ways round are equally long
for opposite devices and the sender's parity decides; among equally short ways through `links` the widest wins, then the
one through lower device numbers. Ways are closed forms, so that memory grows with the links and not with the pairs of
devices; only `links` keeps a table. What is left out: buffers, and traffic of network cards through the host bus.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.registry import Registry
from simulator.specs.hardware import ScaleUp

Point = int | str
"""A device of the node, or the name of something between devices."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Ways = Callable[[Ints, Ints], Ints]


@dataclass(frozen=True, slots=True, eq=False)
class NodeLinks:
    """Links of one node, numbered from 0."""

    ends: tuple[tuple[Point, Point], ...]
    """From where to where each link goes; (links,)."""
    capacity: Floats
    """Bytes per second; (links,)."""
    latency: Floats
    """Seconds; (links,)."""
    ways: Ways
    """(start, stop) of flows, each (flows,), to their links in the order of the way, then -1; (longest way, flows).
    A device has no way to itself."""
    free: tuple[tuple[Point, Point], ...] = ()
    """Ways that cost nothing, for drawing: a device's tap on a shared bus."""
    switched: bool = False
    """Whether link i goes from device i into a switch and link devices + i comes back."""

    @property
    def joined(self) -> bool:
        """Whether devices of the node reach each other here."""
        return bool(self.ends)


Builder = Callable[[int, ScaleUp], NodeLinks]
BUILDERS: Registry[Builder] = Registry("scale-up fabric")
"""Builders by `ScaleUp.kind`: (devices, spec) to links."""


def build_node(devices: int, spec: ScaleUp) -> NodeLinks:
    """The links of a node with that many devices."""
    return BUILDERS.get(spec.kind if devices > 1 else "none")(devices, spec)


@BUILDERS.add("none")
def nothing(devices: int, spec: ScaleUp) -> NodeLinks:
    """No link at all."""
    return NodeLinks((), np.zeros(0), np.zeros(0), lambda start, stop: np.full((1, len(start)), -1))


@BUILDERS.add("switch")
def switch(devices: int, spec: ScaleUp) -> NodeLinks:
    """One link up to and one down from an ideal switch for each device."""
    up: list[tuple[Point, Point]] = [(i, "switch") for i in range(devices)]
    down: list[tuple[Point, Point]] = [("switch", i) for i in range(devices)]

    def ways(start: Ints, stop: Ints) -> Ints:
        return np.where(start == stop, -1, np.stack([start, devices + stop]))

    # The latency of a traversal lies on the way up, so that up and down together have it once.
    latency = np.repeat([_latency(spec), 0.0], devices)
    return NodeLinks((*up, *down), np.full(2 * devices, _bandwidth(spec)), latency, ways, switched=True)


@BUILDERS.add("mesh")
def mesh(devices: int, spec: ScaleUp) -> NodeLinks:
    """A direct link between any two devices; a device's bandwidth is split evenly over its links."""
    pairs = [(i, j) for i in range(devices) for j in range(devices) if i != j]

    def ways(start: Ints, stop: Ints) -> Ints:
        return np.where(start == stop, -1, start * (devices - 1) + stop - (stop > start))[None]

    capacity = np.full(len(pairs), _bandwidth(spec) / (devices - 1))
    return NodeLinks(tuple(pairs), capacity, np.full(len(pairs), _latency(spec)), ways)


@BUILDERS.add("ring")
def ring(devices: int, spec: ScaleUp) -> NodeLinks:
    """Two neighbours for each device, which share its bandwidth evenly."""
    steps = (1,) if devices == 2 else (1, -1)
    ends = tuple((i, (i + step) % devices) for step in steps for i in range(devices))
    capacity, latency = np.full(len(ends), _bandwidth(spec) / len(steps)), np.full(len(ends), _latency(spec))

    def ways(start: Ints, stop: Ints) -> Ints:
        ahead = (stop - start) % devices
        upwards = (2 * ahead < devices) | ((2 * ahead == devices) & ((start % 2 == 0) | (devices == 2)))
        length = np.where(upwards, ahead, devices - ahead) * (ahead > 0)
        hop = np.arange(max(int(length.max(initial=0)), 1))[:, None]
        here = (start + np.where(upwards, hop, -hop)) % devices
        return np.where(hop < length, here + np.where(upwards, 0, devices), -1)

    return NodeLinks(ends, capacity, latency, ways)


@BUILDERS.add("links")
def links(devices: int, spec: ScaleUp) -> NodeLinks:
    """An explicit list of connections; packets are forwarded by devices between."""
    width: dict[tuple[int, int], int] = {}
    for link in spec.links:
        a, b = link.between
        for pair in ((a, b), (b, a)):
            width[pair] = width.get(pair, 0) + link.count
    capacity = np.array([_bandwidth(spec) * count for count in width.values()])
    return _direct(devices, list(width), capacity, spec)


@BUILDERS.add("host")
def host(devices: int, spec: ScaleUp) -> NodeLinks:
    """One bus through which all traffic between devices goes."""
    taps: list[tuple[Point, Point]] = [(i, "bus in") for i in range(devices)]
    taps += [("bus out", i) for i in range(devices)]
    bus = (("bus in", "bus out"),)

    def ways(start: Ints, stop: Ints) -> Ints:
        return np.where(start == stop, -1, 0)[None]

    return NodeLinks(bus, np.array([_bandwidth(spec)]), np.array([_latency(spec)]), ways, tuple(taps))


def _bandwidth(spec: ScaleUp) -> float:
    assert spec.bandwidth is not None  # the spec demands it of every kind but `none`
    return spec.bandwidth.value


def _latency(spec: ScaleUp) -> float:
    return spec.latency.value if spec.latency else 0.0


def _direct(devices: int, pairs: Sequence[tuple[int, int]], capacity: Floats, spec: ScaleUp) -> NodeLinks:
    """Links between devices, with the shortest ways over them."""
    ways = [_ways(start, devices, pairs, capacity) for start in range(devices)]
    longest = max((len(way) for row in ways for way in row), default=1)
    table = np.array([[way + [-1] * (max(longest, 1) - len(way)) for way in row] for row in ways], np.int64)
    by_hop = np.ascontiguousarray(np.moveaxis(table, 2, 0))
    latency = np.full(len(pairs), _latency(spec))
    return NodeLinks(tuple(pairs), capacity, latency, lambda start, stop: by_hop[:, start, stop])


def _ways(start: int, devices: int, pairs: Sequence[tuple[int, int]], capacity: Floats) -> list[list[int]]:
    """Shortest way from a device to each device, as links; the widest of the shortest, then by device number."""
    beside: list[list[tuple[int, int]]] = [[] for _ in range(devices)]
    for link, (a, b) in enumerate(pairs):
        beside[a].append((b, link))
    for neighbours in beside:
        neighbours.sort()
    distance, order = {start: 0}, deque([start])
    best: dict[int, tuple[float, list[int]]] = {start: (float("inf"), [])}
    while order:
        here = order.popleft()
        width, way = best[here]
        for there, link in beside[here]:
            if there not in distance:
                distance[there] = distance[here] + 1
                order.append(there)
            if distance[there] == distance[here] + 1 and min(width, capacity[link]) > best.get(there, (0.0, []))[0]:
                best[there] = (min(width, float(capacity[link])), [*way, link])
    return [best.get(there, (0.0, []))[1] for there in range(devices)]
