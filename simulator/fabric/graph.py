"""A fabric as a networkx graph: for drawing, and for tests that hold the routes to the shortest paths."""

from typing import TYPE_CHECKING

import networkx

if TYPE_CHECKING:
    from simulator.fabric.fabric import Fabric

Point = tuple[str | int, ...]


def draw(fabric: "Fabric") -> networkx.DiGraph:
    """The graph that `Fabric.graph` describes."""
    graph = networkx.DiGraph()
    graph.add_nodes_from(("device", rank) for rank in range(fabric.devices))
    for kind in fabric.nodes:
        for node in range(kind.first, kind.first + kind.nodes):
            base = kind.first_link + (node - kind.first) * len(kind.links.ends)
            for link, (start, stop) in enumerate(kind.links.ends):
                _edge(graph, fabric, _point(fabric, node, start), _point(fabric, node, stop), base + link)
            for start, stop in kind.links.free:
                _edge(graph, fabric, _point(fabric, node, start), _point(fabric, node, stop), None)
    for begin, end, number in fabric.network.edges():
        _edge(graph, fabric, begin, end, None if number is None else fabric.first_outer + number)
    return graph


def _point(fabric: "Fabric", node: int, point: int | str) -> Point:
    return ("device", fabric.numbering.devices_of(node)[point]) if isinstance(point, int) else (point, node)


def _edge(graph: networkx.DiGraph, fabric: "Fabric", start: Point, stop: Point, link: int | None) -> None:
    capacity, latency = (float("inf"), 0.0) if link is None else (fabric.capacity[link], fabric.latency[link])
    graph.add_edge(
        start, stop, link=link, capacity=float(capacity), latency=float(latency), weight=int(link is not None)
    )
