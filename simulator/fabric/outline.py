"""What a network looks like from outside: nodes, switches, what joins them, and how far and wide that is."""

from collections import defaultdict
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from simulator.fabric.fabric import Fabric
from simulator.fabric.scale_out.base import DIRECT

Ints = NDArray[np.int64]
Point = tuple[str | int, ...]

_MOST_JOINED = 60_000
"""Pairs of points up to which the narrowest cut is looked for."""
_MOST_FROM, _MOST_TO, _MOST_ON_GRID = 16, 1024, 4096
"""Devices from which and to which ways are measured."""


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """All links from one point to another."""

    start: int
    """Number of a point."""
    stop: int
    links: tuple[int, ...]
    """Of the fabric; none where the way is free."""
    capacity: float
    """Bytes per second of all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """Points and what joins them, one way each."""

    points: tuple[Point, ...]
    """`("node", number)`, or `("device", rank)` where the network goes through devices, and switches by their names."""
    joins: tuple[Join, ...]
    unused: frozenset[int] = frozenset()
    """Links of the fabric that lead up from the only group of the highest level, where they join nothing."""

    def kinds(self) -> dict[str, list[int]]:
        """Numbers of points by the first word of their names, in order."""
        found: dict[str, list[int]] = defaultdict(list)
        for number, point in enumerate(self.points):
            found[str(point[0])].append(number)
        return dict(found)


def outline(fabric: Fabric) -> Outline:
    """The network between nodes; of a single node what joins its devices."""
    between = fabric.numbering.all_nodes > 1 or fabric.network.coordinates(np.zeros(1, np.int64)) is not None
    links: dict[tuple[Point, Point], list[int]] = defaultdict(list)
    if between:
        for start, stop, link in fabric.network.edges():
            if link is not None:
                links[_seen(start), _seen(stop)].append(fabric.first_outer + link)
    else:
        inside = fabric.nodes[0].links
        for link, (begin, end) in enumerate(inside.ends):
            links[_inside(begin), _inside(end)].append(link)
        for begin, end in inside.free:
            links[_inside(begin), _inside(end)] += []
    tops: tuple[Point, ...] = (("core",), (DIRECT,))
    unused = frozenset[int]()
    if len([pair for pair in links if pair[1] in tops]) == 1:  # it joins nothing
        unused = frozenset(link for pair, some in links.items() for link in some if {*pair} & {*tops})
        links = {pair: some for pair, some in links.items() if pair[0] not in tops and pair[1] not in tops}
    ends: list[Point] = [("node", node) for node in range(fabric.numbering.all_nodes)]
    met = dict.fromkeys(point for pair in links for point in pair)
    points = [point for point in ends if point in met] + sorted((p for p in met if p[0] == "device"), key=_number)
    points += [point for point in met if point[0] not in ("node", "device")]
    number = {point: place for place, point in enumerate(points)}
    joins = (
        Join(number[start], number[stop], tuple(some), float(fabric.capacity[some].sum()))
        for (start, stop), some in links.items()
        if start != stop  # the way through a bus
    )
    return Outline(tuple(points), tuple(joins), unused)


def _seen(point: Point) -> Point:
    """A card belongs to its node, or to the first device that has it."""
    if point[0] == "card":
        return ("device", point[1])
    return ("node", point[1]) if point[0] == "NIC" else point


def _inside(point: int | str) -> Point:
    """A device of the only node, or what stands between its devices, such as `switch 0`."""
    if isinstance(point, int):
        return ("device", point)
    name, _, number = point.partition(" ")
    return (name, int(number)) if number.isdecimal() else (name,)


def _number(point: Point) -> int:
    return int(point[1])


def bisection(fabric: Fabric, drawn: Outline) -> float | None:
    """Bytes per second from the first half of the nodes (or devices) to the other: the narrowest cut between them, and
    no more than their pairs get; None where there are no two halves, devices share a bus, or the network is too large
    and has switches."""
    ends = [place for place, point in enumerate(drawn.points) if point[0] in ("node", "device")]
    if len(ends) < 2 or not all(join.links for join in drawn.joins):
        return None
    first = set(ends[: len(ends) // 2])
    if len(ends) == len(drawn.points):
        return sum(join.capacity for join in drawn.joins if join.start in first and join.stop not in first)
    if len(drawn.joins) > _MOST_JOINED:
        return None
    import networkx

    second, graph = set(ends) - first, networkx.DiGraph()
    for join in drawn.joins:
        start = "first" if join.start in first else "second" if join.start in second else join.start
        stop = "first" if join.stop in first else "second" if join.stop in second else join.stop
        if start not in ("second", stop) and stop != "first":
            before = graph.get_edge_data(start, stop, {"capacity": 0.0})["capacity"]
            graph.add_edge(start, stop, capacity=before + join.capacity)
    if "first" not in graph or "second" not in graph:
        return 0.0
    width = float(networkx.maximum_flow_value(graph, "first", "second"))
    return min(width, _of_pairs(fabric, drawn, sorted(first), sorted(second)))


def _of_pairs(fabric: Fabric, drawn: Outline, first: list[int], second: list[int]) -> float:
    """Bytes per second that pairs of nodes of two halves get together, each node no more than its cards carry; infinite
    where pairs have no limit of their own."""
    rates = fabric.network.between_nodes()
    if rates is None:
        return inf
    out, into = np.zeros((2, len(drawn.points)))
    for join in drawn.joins:
        out[join.start] += join.capacity
        into[join.stop] += join.capacity
    senders, receivers = ([_number(drawn.points[place]) for place in half] for half in (first, second))
    across = rates[np.ix_(senders, receivers)]
    sent, received = np.minimum(across.sum(axis=1), out[first]), np.minimum(across.sum(axis=0), into[second])
    return float(min(sent.sum(), received.sum()))


def longest_way(fabric: Fabric) -> tuple[int, float]:
    """(links, seconds of wire) of the longest way between devices, from 16 of them to all, or to 1,024 of them (on a
    grid 4,096)."""
    grid = fabric.network.coordinates(np.zeros(1, np.int64)) is not None
    firsts, lasts = _some(fabric.devices, _MOST_FROM), _some(fabric.devices, _MOST_ON_GRID if grid else _MOST_TO)
    src, dst = np.repeat(firsts, len(lasts)), np.tile(lasts, len(firsts))
    apart = src != dst
    if not apart.any():
        return 0, 0.0
    ways = fabric.paths(src[apart], dst[apart])
    return int((ways >= 0).sum(axis=0).max()), float(fabric.path_latency(ways).max())


def _some(count: int, most: int) -> Ints:
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
