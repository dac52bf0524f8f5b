"""The network of a run and how busy it was, in the header of a result's file and in its JSON."""

from math import isfinite
from typing import Any

from simulator.results.documents.network import DrawnJoin, DrawnPoint, LoadedNetwork
from simulator.results.parts import LARGEST, mapping, require, text, whole

MOST = 100_000
"""Points and joins of a file that are read."""


def written(network: LoadedNetwork | None) -> dict[str, Any] | None:
    """What stands in a file; None where there is nothing."""
    if network is None:
        return None
    return {
        "cluster": network.cluster,
        "kind": network.kind,
        "nodes": network.nodes,
        "collective": network.collective,
        "points": [[point.kind, list(point.numbers), point.name] for point in network.points],
        "joins": [[join.start, join.stop, join.links, join.capacity, join.heat] for join in network.joins],
    }


def read(header: Any) -> LoadedNetwork | None:
    """The network of a file; Misfit for what `written` does not write."""
    if header is None:
        return None
    known = mapping(header)
    points, joins = known["points"], known["joins"]
    require(isinstance(points, list) and isinstance(joins, list), "the points of its network are no lists")
    require(len(points) <= MOST and len(joins) <= MOST, "its network is too large")
    drawn = tuple(DrawnPoint(text(kind), tuple(map(whole, numbers)), text(name)) for kind, numbers, name in points)
    return LoadedNetwork(
        text(known["cluster"]),
        text(known["kind"]),
        whole(known["nodes"]),
        text(known["collective"]),
        drawn,
        tuple(_join(join, len(drawn)) for join in joins),
    )


def _join(parts: Any, points: int) -> DrawnJoin:
    start, stop, links, capacity, heat = parts
    require(0 <= whole(start) < points and 0 <= whole(stop) < points, "a join of its network has no end")
    require(isinstance(capacity, (int, float)) and 0 <= capacity <= LARGEST, "a join of its network has no rate")
    require(isinstance(heat, (int, float)) and isfinite(heat) and 0 <= heat <= 1, "a join is busy for no share")
    return DrawnJoin(start, stop, whole(links), float(capacity), float(heat))


def listed(network: LoadedNetwork) -> list[dict[str, Any]]:
    """What joins two points each, the busiest first."""
    names = [point.name for point in network.points]
    return [
        {
            "from": names[join.start],
            "to": names[join.stop],
            "links": join.links,
            "capacity_bytes_per_s": join.capacity,
            "busy": join.heat,
        }
        for join in sorted(network.joins, key=lambda join: -join.heat)
        if join.heat > 0
    ]
