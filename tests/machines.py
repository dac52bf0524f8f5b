"""Small clusters and collective profiles made by hand, for tests of fabrics and collectives."""

from typing import Any

from simulator.specs.hardware import Cluster, Node
from simulator.specs.libraries.collectives import CollectiveProfile


def figure(value: str | float) -> dict[str, Any]:
    """A number of the test's own making."""
    return {"value": value, "status": "estimate", "source": "this test"}


def node(
    devices: int = 8,
    kind: str = "switch",
    bandwidth: str = "300 GB/s",
    links: tuple[dict[str, Any], ...] = (),
    nics: int = 8,
    nic: str = "25 GB/s",
    nic_latency: str | None = None,
) -> Node:
    """A node of devices of no particular kind; without cards where `nics` is 0."""
    accelerator = {
        "name": "any",
        "vendor": "any",
        "kind": "gpu",
        "year": 2020,
        "peak": {"bf16": figure("1 TFLOP/s")},
        "memory": {"capacity": figure("80 GB"), "bandwidth": figure("2 TB/s")},
    }
    scale_up: dict[str, Any] = {"kind": kind, "links": links}
    if kind != "none":
        scale_up["bandwidth"] = figure(bandwidth)
    cards = {"count": nics, "bandwidth": figure(nic)} | ({"latency": figure(nic_latency)} if nic_latency else {})
    return Node.model_validate(
        {"name": "node", "accelerator": accelerator, "devices": devices, "scale_up": scale_up}
        | ({"nics": cards} if nics else {})
    )


def level(name: str, nodes: int, oversubscription: float = 1.0, latency: str | None = None) -> dict[str, Any]:
    """A level of a tree."""
    made: dict[str, Any] = {"name": name, "nodes": nodes, "oversubscription": oversubscription}
    return made | ({"latency": figure(latency)} if latency else {})


LEAF_SPINE = {"kind": "tree", "levels": [level("leaf", 2), level("spine", 8)]}
RAILS = LEAF_SPINE | {"rail_optimised": True}
DRAGONFLY = {"kind": "dragonfly", "group_nodes": 2, "global_bandwidth": figure("100 GB/s"), "latency": figure("350 ns")}


def torus(*shape: int, wrap: bool = True) -> dict[str, Any]:
    """A torus of links of 50 GB/s and 1 us."""
    return {
        "kind": "torus",
        "shape": shape,
        "wrap": wrap,
        "bandwidth": figure("50 GB/s"),
        "latency": figure("1 us"),
    }


def mixed(
    *more: tuple[int, dict[str, Any]], nodes: int = 1, network: dict[str, Any] | None = None, **of_node: Any
) -> Cluster:
    """Nodes of several kinds, `more` being (nodes, what is said of each) of those after the first."""
    kinds = [{"name": f"kind {i}", "node": node(**said), "nodes": count} for i, (count, said) in enumerate(more, 1)]
    first = {"name": "cluster", "node": node(**of_node), "nodes": nodes, "partition": "kind 0"}
    return Cluster.model_validate(first | {"more_nodes": kinds, "network": network or LEAF_SPINE})


def cluster(nodes: int = 1, network: dict[str, Any] | None = None, **of_node: Any) -> Cluster:
    """Nodes on a network; on leaves of two nodes where nothing is said."""
    chosen = network or ({"kind": "none"} if nodes == 1 else LEAF_SPINE)
    return Cluster.model_validate({"name": "cluster", "node": node(**of_node), "nodes": nodes, "network": chosen})


V100_LINKS = tuple(
    {"between": (a, b), "count": count}
    for a, b, count in (
        (0, 1, 1),
        (0, 2, 1),
        (0, 3, 2),
        (0, 4, 2),
        (1, 2, 2),
        (1, 3, 1),
        (1, 5, 2),
        (2, 3, 2),
        (2, 6, 1),
        (3, 7, 1),
        (4, 5, 1),
        (4, 6, 1),
        (4, 7, 2),
        (5, 6, 2),
        (5, 7, 1),
        (6, 7, 2),
    )
)
"""The hybrid cube mesh of eight V100: uneven links, six a device."""


def scope(launch: str | float, latency: str | float, efficiency: float) -> dict[str, Any]:
    """One protocol on one kind of fabric."""
    return {"launch": figure(launch), "latency": figure(latency), "efficiency": figure(efficiency)}


RINGS = {
    "all_reduce": ("ring",),
    "all_gather": ("ring",),
    "reduce_scatter": ("ring",),
    "broadcast": ("ring",),
    "all_to_all": ("direct",),
    "send": ("send",),
}


def profile(
    protocols: dict[str, Any] | None = None, algorithms: dict[str, Any] | None = None, **more: Any
) -> CollectiveProfile:
    """A library; where nothing is said of one protocol, with steps of 1 us in a node and 5 us between nodes."""
    plain = {"plain": {"scale_up": scope(0, "1 us", 1.0), "scale_out": scope(0, "5 us", 1.0)}}
    return CollectiveProfile.model_validate(
        {
            "name": "library",
            "algorithms": RINGS | (algorithms or {}),
            "protocols": protocols or plain,
            "wire": {"scale_up": figure(0), "scale_out": figure(0)},
        }
        | more
    )


def two_protocols() -> CollectiveProfile:
    """A library with a quick protocol and a wide one, a pipeline to fill and a piece of its own to copy."""
    wide = scope("20 us", "2 us", 0.8) | {"fill": {"fraction": figure(0.3), "bytes": figure("10 MB")}}
    far = scope("40 us", "12 us", 0.9) | {"fill": {"fraction": figure(0.2), "bytes": figure("50 MB")}}
    quick = {"scale_up": scope("5 us", "1 us", 0.2), "scale_out": scope("9 us", "4 us", 0.1)}
    return profile({"quick": quick, "wide": {"scale_up": wide, "scale_out": far}}, own_piece=figure(0.4))
