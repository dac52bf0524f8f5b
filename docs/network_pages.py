"""The gallery of networks: one of each kind as a file of a few lines, drawn and counted by the program."""

from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from markdown_tables import table

from simulator.report.network.page import figures
from simulator.report.svg.fabric import svg
from simulator.results.documents.network import NetworkDocument
from simulator.study.network import AskedNetwork, count

_RATE = {"value": "50 GB/s", "status": "estimate", "source": "an example"}
_SITES = ("Oregon", "Tokyo", "London")
_WIDE = [
    {"between": list(pair), "delay": f"{delay} ms", "flow_bandwidth": f"{rate} Gbit/s"}
    for *pair, delay, rate in (
        ("Oregon", "Tokyo", 48, 0.523),
        ("Oregon", "London", 68, 0.42),
        ("Tokyo", "London", 105, 0.366),
    )
]
_RING = [{"between": [f"s{i}", f"s{(i + 1) % 6}"], "bandwidth": "400 GB/s"} for i in range(6)]

_GALLERY: dict[str, tuple[str, int, dict[str, object], str]] = {
    "Leaf-spine": ("dgx-h100", 12, {"kind": "leaf-spine", "leaf_nodes": 3, "spines": 6}, ""),
    "Leaf-spine of rails": (
        "dgx-h100",
        8,
        {"kind": "leaf-spine", "leaf_nodes": 4, "spines": 8, "rail_optimised": True},
        "Card *r* of each node is on leaf *r* of its rail.",
    ),
    "Fat tree of three levels": (
        "dgx-h100",
        16,
        {
            "kind": "fat-tree",
            "uplinks": [4, 2],
            "levels": [{"name": "leaf", "nodes": 2}, {"name": "pod", "nodes": 8, "oversubscription": 2}],
        },
        "Oversubscribed 2:1 above the pods.",
    ),
    "Rail-only": (
        "dgx-h100",
        8,
        {"kind": "rail-only", "leaf_nodes": 8},
        "A plane for each card number; between planes data goes through the node. With `spines` each is a leaf-spine.",
    ),
    "Dragonfly": (
        "dgx-h100",
        72,
        {"kind": "dragonfly-links", "group_switches": 4, "switch_nodes": 2, "global_links": 2, "bandwidth": _RATE},
        "Nine groups of four switches, one cable between any two groups.",
    ),
    "Dragonfly+": (
        "dgx-h100",
        20,
        {"kind": "dragonfly-plus", "leaves": 2, "spines": 2, "leaf_nodes": 2, "global_links": 2, "bandwidth": _RATE},
        "Groups are leaf-spine networks, joined by their spines.",
    ),
    "Full mesh": (
        "dgx-h100",
        16,
        {"kind": "full-mesh", "shape": [4, 4], "bandwidth": _RATE},
        "Switches that differ in one coordinate are joined; with one dimension all are.",
    ),
    "Torus": ("tpu-v4-pod", 16, {"kind": "torus", "shape": [4, 4, 4]}, "Seams are drawn as stubs."),
    "Twisted torus": (
        "tpu-v4-pod",
        32,
        {"kind": "torus", "shape": [4, 4, 8], "twist": True},
        "Seams of short dimensions lead half of the long one further: six links to the farthest device, not eight.",
    ),
    "Slices over a data-centre network": (
        "tpu-v5p-multislice",
        8,
        {
            "kind": "multislice",
            "shape": [2, 2, 4],
            "slices": {"block": [2, 2, 4]},
            "oversubscription": 2,
            "latency": {"value": "1 us", "status": "estimate", "source": "an example"},
            "bandwidth": {"value": "100 GB/s", "status": "estimate", "source": "an example"},
        },
        "Two slices of 16 chips; half of what their hosts' cards carry leaves a slice.",
    ),
    "Sites": (
        "dgx-h100",
        6,
        {"kind": "sites", "sites": [{"name": name, "nodes": 2} for name in _SITES], "links": _WIDE},
        "Delays and rates of single connections (DS3Lab/DT-FM).",
    ),
    "Any graph": (
        "dgx-h100",
        6,
        {"kind": "graph", "hosts": [{"switches": [f"s{i}"]} for i in range(6)], "cables": _RING},
        "A list of cables; here a ring.",
    ),
}


def network_gallery() -> str:
    """A picture, the keys and the figures of each."""
    return "\n".join(_drawn(name) for name in _GALLERY)


def _drawn(name: str) -> str:
    cluster, nodes, network, sentence = _GALLERY[name]
    text = yaml.safe_dump({"network": network}, sort_keys=False, width=110, default_flow_style=None)
    shown = table(("", ""), figures(_counted(name, cluster, nodes, network)))
    picture = f'<div class="schedule">\n{svg(_counted(name, cluster, nodes, network))}\n</div>'
    return f"### {name}\n\n{sentence}\n\n```text\n{text}```\n\n{picture}\n\n{shown}\n"


def _counted(name: str, cluster: str, nodes: int, network: dict[str, object]) -> NetworkDocument:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.yaml"
        written = {"extends": f"clusters/{cluster}", "name": name, "nodes": nodes, "network": network}
        path.write_text(yaml.safe_dump(written), encoding="utf-8")
        return count(AskedNetwork(str(path)))
