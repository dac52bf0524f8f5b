"""Dimensions of ASTRA-sim that are no levels of a tree, as a graph of cables.

Each NPU has a point of its own, where the card of its device is plugged in. NPUs that differ in one coordinate only
are joined in that dimension: each to its two neighbours (Ring), each to all (FullyConnected), or all to one switch, two
hops from each other. A link has the bandwidth and the hop the latency of its dimension. The points of one node are
joined as the node is inside, at its rate: these cables carry only what goes on to another place of another node, and
ASTRA-sim has no second set of them beside the node's own links. Ways are the shortest, in any order of dimensions.
"""

from itertools import combinations
from math import prod
from typing import Any

from simulator.errors import InputError, Problem

Dimension = tuple[str, int, float, float]
"""(kind, NPUs, GB/s of a link, ns of a hop)."""

ASSUMED = "a way that leaves the node at another place than it came to passes cables beside the node's own links"
_MOST_CABLES = 12_000
"""A file holds no more values than such a list has."""


def sent(dimensions: list[Dimension]) -> float:
    """GB/s of all links of an NPU that leave its node."""
    return sum(rate * _links(kind, size) for kind, size, rate, _ in dimensions[1:])


def _links(kind: str, size: int) -> int:
    """Links of an NPU in a dimension."""
    if size == 1:
        return 0
    return {"ring": 2 if size > 2 else 1, "fullyconnected": size - 1}.get(kind, 1)


def network(dimensions: list[Dimension], name: str) -> dict[str, Any]:
    """Hosts and cables; InputError where a file could not hold them."""
    devices, total = dimensions[0][1], prod(size for _, size, _, _ in dimensions)
    ends = sum(_links(kind, size) * (2 if kind == "switch" else 1) for kind, size, *_ in dimensions)
    cables = total * ends // 2
    if cables > _MOST_CABLES:
        message = f"{cables:,} cables of their own; up to {_MOST_CABLES:,} are modelled"
        raise InputError(Problem(message, name, path="npus_count", hint="write Switch above the first dimension"))
    hosts = [{"switches": [f"n{npu}" for npu in range(first, first + devices)]} for first in range(0, total, devices)]
    joined, step = list[dict[str, Any]](), 1
    for place, (kind, size, rate, delay) in enumerate(dimensions):
        figures = {"bandwidth": f"{rate:.12g} GB/s", "latency": f"{delay:.12g} ns"}
        firsts = [npu for npu in range(total) if npu // step % size == 0] if size > 1 else []
        for group, first in enumerate(firsts):
            members = [f"n{first + at * step}" for at in range(size)]
            joined += [{"between": list(ends)} | figures for ends in _pairs(kind, members, f"d{place}.{group}")]
        step *= size
    return {"kind": "graph", "hosts": hosts, "cables": joined}


def _pairs(kind: str, members: list[str], switch: str) -> list[tuple[str, str]]:
    """What the cables of a group join."""
    if kind == "switch":
        return [(member, switch) for member in members]
    if kind == "fullyconnected" or len(members) < 3:
        return list(combinations(members, 2))
    return list(zip(members, [*members[1:], members[0]], strict=True))
