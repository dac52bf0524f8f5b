"""How many nodes of a cluster an imported job gets, and how many replicas that makes."""

from math import lcm
from typing import NamedTuple

from simulator.interop.draft import Draft
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster

MOST_DEVICES = 1 << 19
"""Devices above which no job is imported."""


class Machine(NamedTuple):
    """The machine that a user named for the job."""

    cluster: str
    """Name or file of the cluster."""
    nodes: int | None = None
    """Nodes that the job gets; None derives them."""


class Said(NamedTuple):
    """What the file says about the number of devices."""

    devices: int
    """How many."""
    note: str
    """Where it says so."""
    exact: bool = False
    """Whether the layout depends on it."""


def place(draft: Draft, machine: Machine, replica: int, said: Said | None, note: str) -> int | None:
    """Write the cluster and return the data-parallel size; None, and a problem, where the sizes do not fit.

    `replica` is tp x pp, described by `note`. Raises InputError where there is no such cluster.
    """
    per_node = load_spec(Cluster, machine.cluster).node.devices
    draft.put("cluster.extends", machine.cluster, "--cluster")
    nodes = _nodes(draft, machine, per_node, replica, said)
    if nodes is None:
        return None
    devices = nodes * per_node
    if devices > MOST_DEVICES:
        draft.wrong(f"{devices:,} devices are needed ({note}), more than {MOST_DEVICES:,}", "are the sizes right?")
        return None
    if devices % replica:
        message = f"{nodes} nodes of {per_node} devices are {devices}, no multiple of {note} = {replica}"
        draft.wrong(message, f"write --nodes {_smallest(replica, per_node)} or a multiple of it")
        return None
    return devices // replica


def _smallest(replica: int, per_node: int) -> int:
    return lcm(replica, per_node) // per_node


def _nodes(draft: Draft, machine: Machine, per_node: int, replica: int, said: Said | None) -> int | None:
    """Nodes of the job: the user's, else the file's, else the fewest that hold one replica."""
    if machine.nodes is not None:
        draft.put("cluster.nodes", machine.nodes, "--nodes")
        if said is not None and said.devices != machine.nodes * per_node:
            draft.assumed.append(
                f"{machine.nodes * per_node} devices (--nodes) instead of {said.devices} ({said.note})"
            )
        return machine.nodes
    if said is not None and said.devices % per_node == 0 and said.devices % replica == 0:
        draft.put("cluster.nodes", said.devices // per_node, f"{said.devices} devices: {said.note}")
        return said.devices // per_node
    if said is not None and said.exact:
        message = f"{said.devices} devices are needed ({said.note}), and a node of {machine.cluster} has {per_node}"
        draft.wrong(message, "name another cluster, or give --nodes")
        return None
    nodes = _smallest(replica, per_node)
    reason = "the fewest for one replica, whether or not they have the memory for it"
    if said is not None:
        reason += f"; the {said.devices} devices that the file says ({said.note}) cannot"
    draft.assume("cluster.nodes", nodes, f"{reason}; give --nodes for more")
    return nodes
