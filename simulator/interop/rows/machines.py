"""What sources say of machines that their rows ran on: how one is named, what runs on it need, when it was slower.

One number a statement, as its authors make it; nothing here is fitted.
"""

import re
from typing import Any, NamedTuple

from simulator.interop.rows.jsonl import Refused
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster, Node, apart_of

NODES = (("4 inter-GPU connects", "bloom-jean-zay"),)
"""Clusters for rows whose `intra_node` says that they are not as usual, by words of it."""

BLOCKING = {"bloom-jean-zay": 320}
"""Devices from which runs on a cluster hang unless launches block (bigscience-workshop/bigscience
train/tr11-176B-ml/chronicles-prequel.md, "dealing with JZ hanging on the large model")."""


class Mended(NamedTuple):
    """A machine whose authors say that all runs on it became faster on a day, and by how much."""

    earlier: re.Pattern[str]
    """Words of the tables with the runs before that day."""
    slowdown: float
    """How many times as long the kernels of all devices took in them."""
    words: str
    """What is assumed of such a row."""


MENDED = {
    "bloom-jean-zay": Mended(
        re.compile(
            r"best tflops|dealing with jz hanging|choosing the fastest 3d topology|tile and wave quantization"
            r"|48 node contenders|final round comparison|(?<!another round of )nheads comparison",
            re.IGNORECASE,
        ),
        1.036,
        "kernels 3.6 % slower on all devices: the source says that this machine became 1 to 5 % faster later",
    )
}
"""Of Jean Zay: "A100s PCI-Express/NUMA was improved today so all TFLOPs have changed for the better (1-5%) - thus do
not compare today's numbers to yesterday's" (chronicles-prequel.md, "GBS Variations", 25 February 2022). Which part of a
step became faster is not said: all kernels are slower in the sections before, by as much as makes the step 3 % longer,
the middle of that range (kernels and the bubble are five sixths of it; collectives keep their rates)."""


def named(intra_node: str | None) -> str | None:
    """The cluster that the words of a row's nodes name; None where they are as usual for the device."""
    return next((name for words, name in NODES if words in (intra_node or "")), None)


_RACK, _TRAYS = re.compile(r"NVL ?\d+ domain"), re.compile(r"NVL ?[24](?!\d)")


def in_racks(intra_node: str | None, card: str) -> bool:
    """Whether trays are joined to racks, nodes of the profile whatever a row has of devices in a node: where it says
    so, and those of GB200 and GB300 unless it says that they stand alone (NVL2, NVL4)."""
    said = intra_node or ""
    return bool(_RACK.search(said)) or (card.startswith(("gb200", "gb300")) and not _TRAYS.search(said))


def blocking(cluster: str, devices: int, assumed: list[str]) -> bool:
    """Whether the machine makes launches block in a run of this size."""
    if devices < BLOCKING.get(cluster, devices + 1):
        return False
    assumed.append("launches block, as on this machine in runs of this size")
    return True


def noise(cluster: str, table: str | None, devices: int, assumed: list[str]) -> dict[str, Any]:
    """`training.noise` of a row whose table is of a time when its machine was slower; empty for all others."""
    mended = MENDED.get(cluster)
    if mended is None or not mended.earlier.search(table or ""):
        return {}
    assumed.append(mended.words)
    return {"stragglers": {"devices": tuple(range(devices)), "slowdown": mended.slowdown}}


USUAL = "l40s-cluster"
"""What joins nodes whose own profile stands alone: a switch of data-centre Ethernet and cards on PCIe."""


def joined(cluster: Cluster, assumed: list[str]) -> Cluster:
    """The cluster, with a usual network where its profile stands alone and there are several nodes."""
    if cluster.network.kind != "none":
        return cluster
    usual = load_spec(Cluster, USUAL)
    assumed.append("nodes joined by one switch of data-centre Ethernet")
    node = cluster.node.model_copy(update={"nics": cluster.node.nics or usual.node.nics})
    return cluster.model_copy(update={"network": usual.network, "node": node})


def with_devices(node: Node, devices: int) -> dict[str, Any]:
    """What a node with the first of its devices has instead; Refused where no listed link joins these."""
    changes: dict[str, Any] = {"devices": devices}
    if node.scale_up.kind != "links" or devices == node.devices:
        return changes
    links = tuple(link for link in node.scale_up.links if max(link.between) < devices)
    if apart_of(devices, links):
        raise Refused(f"{devices} of {node.devices} devices of a node, which its links do not join")
    return changes | {"scale_up": node.scale_up.model_copy(update={"links": links})}
