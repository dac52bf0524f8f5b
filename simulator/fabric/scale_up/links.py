"""An explicit list of connections; packets are forwarded by devices between.

Among equally short ways the widest wins, then the one through lower device numbers.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from simulator.fabric.scale_up.base import SCALE_UPS, Floats, NodeLinks, bandwidth_of, latency_of
from simulator.specs.hardware import ScaleUp


@SCALE_UPS.add("links")
def links(devices: int, spec: ScaleUp) -> NodeLinks:
    """An explicit list of connections; packets are forwarded by devices between."""
    width: dict[tuple[int, int], int] = {}
    for link in spec.links:
        a, b = link.between
        for pair in ((a, b), (b, a)):
            width[pair] = width.get(pair, 0) + link.count
    capacity = np.array([bandwidth_of(spec) * count for count in width.values()])
    return _direct(devices, list(width), capacity, spec)


def _direct(devices: int, pairs: Sequence[tuple[int, int]], capacity: Floats, spec: ScaleUp) -> NodeLinks:
    """Links between devices, with the shortest ways over them."""
    ways = [_ways(start, devices, pairs, capacity) for start in range(devices)]
    longest = max((len(way) for row in ways for way in row), default=1)
    table = np.array([[way + [-1] * (max(longest, 1) - len(way)) for way in row] for row in ways], np.int64)
    by_hop = np.ascontiguousarray(np.moveaxis(table, 2, 0))
    latency = np.full(len(pairs), latency_of(spec))
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
