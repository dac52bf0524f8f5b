"""Layout and machine of published serving rows: parallel sizes by their many names, and the nodes that hold them.

Publications count the ranks of attention in two ways: vLLM's `tp` are those of one attention rank, beside `dp`;
SGLang's and TensorRT-LLM's `tp` are all ranks of an engine, which `enable-dp-attention` (`enable_attention_dp`) then
deals whole requests to. Which one a row means follows from its number of accelerators.
"""

import re
from typing import TYPE_CHECKING

from simulator.interop.rows import serving_names as names
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.machines import joined
from simulator.interop.rows.pools import APART
from simulator.interop.rows.slices import slice_of
from simulator.interop.rows.words import vocabulary
from simulator.specs.hardware import Cluster, Node
from simulator.specs.serving import Layout, ServingStack

if TYPE_CHECKING:
    from simulator.interop.rows.serving import ServingRow

RACK = 32
"""Devices from which a node of ours is a rack, whose trays others call nodes."""
HOSTS = ("host", "pcie")
"""Kinds of nodes that are a host with cards in its slots, of which others have more."""
SHARED = re.compile(r"(enable[-_ ]|--)?(dp[-_ ]attention|attention[-_ ]dp)(?![\w= ]*(false|off|0))", re.I)
"""Options of SGLang and TensorRT-LLM by which ranks of attention hold whole requests."""
SIZES = ("tp", "pp", "dp", "ep", "dcp", "attention_dp", "moe_tp")
WHOLE = ("ep", "attention_dp")
"""Axes that a row may only say to be there: they then span all ranks of an engine."""


def spread(row: "ServingRow") -> dict[str, int]:
    """Parallel sizes by our names; raises Refused for an axis or a size that is not known."""
    found: dict[str, int] = {}
    axes, all_of = vocabulary().serving.axes, []
    for key, size in (row.parallelism or {}).items():
        plain = re.sub(r"[- ]", "_", key.lower())
        names_of = axes.get(plain, (plain,))
        if size is None or size is False:
            continue
        if size is True and names_of[0] in WHOLE:
            all_of.append(names_of[0])
            continue
        if isinstance(size, bool) or not isinstance(size, int):
            raise Refused(f"key `parallelism.{key}`: `{str(size)[:40]}` is not a whole number")
        for name in names_of:
            if name not in SIZES and size != 1:
                raise Refused(f"parallelism `{key}`")
            found[name] = max(size, found.get(name, size))
    if row.kind != APART and SHARED.search(row.engine_options or "") and not {"dp", "attention_dp"} & set(found):
        all_of.append("attention_dp")
    ranks = found.get("tp", 1) * (found.get("dp", 1) if "ep" in all_of else 1)
    return {**{name: ranks for name in all_of if ranks > 1}, **found}


def layout(row: "ServingRow", stack: ServingStack, assumed: list[str]) -> tuple[Layout, int]:
    """(layout of a replica, replicas)."""
    sizes = _dealt(spread(row), row.num_accelerators)
    tp, pp, dp = (sizes.get(key) or 1 for key in ("tp", "pp", "dp"))
    ep, among = (sizes.get(key) or 1 for key in ("ep", "attention_dp"))
    if min(tp, pp, dp, ep, among, sizes.get("moe_tp") or 1) < 1:
        raise Refused("a parallel size below 1")
    each = sizes.get("moe_tp") or max(tp * among // ep, 1)
    sharers = ep * each / tp
    if ((tp * among) % ep and ep % (tp * among)) or sizes.get("attention_dp", sharers) != sharers or sharers % 1:
        raise Refused(f"attention tp {tp} x dp {among}, experts tp {each} x ep {ep}: not the same devices")
    etp = each if each != (tp if ep == 1 else 1) else None
    parallel = Layout(tp=tp, pp=pp, ep=ep, etp=etp, dcp=sizes.get("dcp") or 1)
    dp *= parallel.sharers
    if row.num_accelerators is None:
        if not sizes:
            raise Refused("how many accelerators is not stated")
    elif tp * pp * dp != row.num_accelerators:
        if stack.split == "layer":
            tp, pp, dp = 1, row.num_accelerators, 1
        elif not sizes:
            tp = row.num_accelerators
        else:
            dp = _replicas(row, sizes, (tp, pp, dp), assumed)
    return parallel.model_copy(update={"tp": tp, "pp": pp}), dp


def _dealt(sizes: dict[str, int], devices: int | None) -> dict[str, int]:
    """Sizes with `tp` as the ranks of one attention rank, and ranks that share their experts as `attention_dp`."""
    tp, pp, dp, ep = (sizes.get(key) or 1 for key in ("tp", "pp", "dp", "ep"))
    among = sizes.get("attention_dp") or 1
    if devices == tp * pp and among == 1 < dp and not tp % dp:  # SGLang's --tp 8 --dp 8 on 8 devices
        return {**sizes, "tp": tp // dp, "attention_dp": dp, "dp": 1}
    if among > 1 and devices in (None, tp * pp) and not tp % among:
        return {**sizes, "tp": tp // among}
    if ep > tp and among == 1 < dp and ep == tp * dp:  # vLLM's --data-parallel-size with expert parallelism
        return {**sizes, "attention_dp": dp, "dp": 1}
    return sizes


def _replicas(row: "ServingRow", sizes: dict[str, int], layout: tuple[int, int, int], assumed: list[str]) -> int:
    """Replicas that fill the accelerators of a row which does not say how many there are."""
    tp, pp, dp = layout
    devices = row.num_accelerators or 1
    if "dp" in sizes or devices % (tp * pp * dp):
        raise Refused(f"tp {tp} x pp {pp} x dp {dp} is not {devices} accelerators")
    assumed.append(f"{devices // (tp * pp * dp)} replicas, which fill {devices} accelerators")
    return devices // (tp * pp)


def machine(row: "ServingRow", assumed: list[str]) -> Cluster:
    """The machine of a row of one engine: one node, or as many as the row says and its accelerators fill."""
    found, devices = names.cluster(row.accelerator), row.num_accelerators or 1
    if found.network.kind == "torus":
        hosts = -(-devices // found.node.devices)
        return slice_of(found, hosts * found.node.devices)
    if row.num_nodes in (None, 1) and devices > found.node.devices and found.node.scale_up.kind in HOSTS:
        assumed.append(f"one host with {devices} cards")
        node = found.node.model_copy(update={"devices": devices})
        return found.model_copy(update={"node": node, "nodes": 1})
    nodes = row.num_nodes or (1 if row.kind == APART else -(-devices // found.node.devices))
    if row.num_nodes is None and nodes > 1:
        assumed.append(f"{nodes} nodes, as {devices} accelerators fill")
    if nodes == 1 or row.kind == APART or devices <= 1:
        return found.model_copy(update={"nodes": 1})
    if found.node.devices > devices:  # a rack that NVLink joins counts as one node here
        if found.node.devices < RACK:
            return _thinner(found, devices, nodes, assumed)
        return found.model_copy(update={"nodes": 1})
    return joined(found.model_copy(update={"nodes": -(-devices // found.node.devices)}), assumed)


def _thinner(found: Cluster, devices: int, nodes: int, assumed: list[str]) -> Cluster:
    """Nodes with fewer devices than the profile's."""
    if devices % nodes or found.node.scale_up.kind not in (*HOSTS, "switch"):
        raise Refused(f"{nodes} nodes with {devices} accelerators of {found.node.devices} in each")
    each = devices // nodes
    changes: dict[str, object] = {"devices": each}
    if nics := found.node.nics:
        changes["nics"] = nics.model_copy(update={"count": max(nics.count * each // found.node.devices, 1)})
    assumed.append(f"{each} accelerators a node")
    node: Node = found.node.model_copy(update=changes)
    return joined(found.model_copy(update={"node": node, "nodes": nodes}), assumed)
