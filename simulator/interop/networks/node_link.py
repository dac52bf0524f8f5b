"""A networkx graph as JSON in node-link form (`networkx.node_link_data`): switches, nodes and cables.

Points with `"kind": "node"` (or `host`, `server`) are nodes of the cluster, in their order; all others are switches. A
cable between switches has a `bandwidth` such as "400 Gbit/s", and may have a `latency` and a `count`; cables of nodes
say where their cards are plugged in.
"""

import json
from typing import Any

from simulator.errors import InputError, Problem
from simulator.interop.networks import Read
from simulator.specs.hardware import Cluster

NODES = ("node", "host", "server")
_MOST = 200_000


def read(text: str, name: str, cluster: Cluster) -> Read:
    """The graph as a network of kind `graph`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        line, column = getattr(error, "lineno", None), getattr(error, "colno", None)
        raise InputError(Problem(f"is no JSON: {getattr(error, 'msg', error)}", name, line, column)) from None
    points, cables = _list(data, name, "nodes"), _list(data, name, "links", "edges")
    kinds: dict[str, str] = {}
    for place, point in enumerate(points):
        if not isinstance(point, dict) or not isinstance(point.get("id"), (str, int)):
            raise InputError(Problem("has no `id`", name, path=f"nodes[{place}]"))
        kinds[str(point["id"])] = str(point.get("kind", point.get("type", "switch"))).lower()
    if not any(kind in NODES for kind in kinds.values()):
        hint = 'write "kind": "node" beside the ids of the nodes'
        raise InputError(Problem("no point of the graph is a node of the cluster", name, path="nodes", hint=hint))
    plugged: dict[str, list[str]] = {ident: [] for ident, kind in kinds.items() if kind in NODES}
    joined: list[dict[str, Any]] = []
    for place, cable in enumerate(cables):
        ends = _ends(cable, kinds, name, place)
        inside = [end for end in ends if end in plugged]
        count = cable.get("count", 1)
        if len(inside) == 2:
            raise InputError(Problem(f"joins two nodes, `{ends[0]}` and `{ends[1]}`", name, path=f"links[{place}]"))
        if inside:
            switch = ends[1] if ends[0] in plugged else ends[0]
            plugged[inside[0]] += [switch] * (count if isinstance(count, int) and 0 < count <= 64 else 1)
            continue
        if "bandwidth" not in cable:
            hint = 'write "bandwidth": "400 Gbit/s"'
            raise InputError(
                Problem("a cable between switches has no bandwidth", name, path=f"links[{place}]", hint=hint)
            )
        more = {key: cable[key] for key in ("latency", "count") if key in cable}
        joined.append({"between": list(ends), "bandwidth": cable["bandwidth"]} | more)
    if bare := next((ident for ident, switches in plugged.items() if not switches), None):
        raise InputError(Problem(f"the node `{bare}` is joined to no switch", name, path="nodes"))
    hosts = [{"switches": switches} for switches in plugged.values()]
    network = {"kind": "graph", "hosts": hosts, "cables": joined}
    return Read({"nodes": len(hosts), "network": network}, [])


def _list(data: Any, name: str, *keys: str) -> list[Any]:
    found = next((data[key] for key in keys if isinstance(data, dict) and key in data), None)
    if not isinstance(found, list) or len(found) > _MOST:
        hint = "networkx.node_link_data(graph) makes this form"
        raise InputError(Problem(f"has no list of {' or '.join(f'`{key}`' for key in keys)}", name, hint=hint))
    return found


def _ends(cable: Any, kinds: dict[str, str], name: str, place: int) -> tuple[str, str]:
    if not isinstance(cable, dict):
        raise InputError(Problem("is no cable", name, path=f"links[{place}]"))
    ends = str(cable.get("source")), str(cable.get("target"))
    for end in ends:
        if end not in kinds:
            raise InputError(Problem(f"there is no point `{end}`", name, path=f"links[{place}]"))
    return ends
