"""Published copies, priced on the links of the machine that they ran on.

Between the devices of a node they take what a send of the machine's library takes, to and from a host the rate of its
link as profiles state it, and from card to card the rate of a card and the latency of the way, for each message of a
batch in turn. Left out: what engines of copies and cards take to start, and the host, which posts messages one by one.
"""

from simulator import collectives
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.kernels import ARRAY, KernelRow, device_of
from simulator.interop.rows.network import NetworkRow, cluster_of
from simulator.interop.rows.single.copies import MappedCopy
from simulator.run.measured.network import machine_of, placed
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec
from simulator.units import TICKS_PER_SECOND

HOST, CARDS, MEMORY = "host link", "network card", "host memory"
"""What prices a copy that no library makes."""


def copied(mapped: MappedCopy) -> tuple[float, str]:
    """(seconds of a row, what priced it); raises Refused where the machine's profile lacks the link."""
    if mapped.way == "host":
        return _from_host(mapped), HOST
    if mapped.way == "cards":
        return _between_cards(mapped), CARDS
    machine, spec = machine_of(mapped.cluster, mapped.nodes), load_spec(Cluster, mapped.cluster)
    profile = load_spec(CollectiveProfile, spec.collectives)
    here, there = placed(machine, 2, mapped.nodes).tolist()
    pairs = [(here, there), (there, here)] if mapped.both else [(here, there)]
    cost = collectives.cost_of("send", pairs, mapped.moved, machine, profile)
    return cost.slowest / TICKS_PER_SECOND, profile.name


def _from_host(mapped: MappedCopy) -> float:
    accelerator = load_spec(Cluster, mapped.cluster).node.accelerator
    if accelerator.host_link is None:
        raise Refused(f"{accelerator.name} has no `host_link`")
    return mapped.moved / accelerator.host_link.value


def _between_cards(mapped: MappedCopy) -> float:
    nics = load_spec(Cluster, mapped.cluster).node.nics
    if nics is None:
        raise Refused(f"the nodes of {mapped.cluster} have no network card")
    machine = machine_of(mapped.cluster, mapped.nodes)
    here, there = placed(machine, 2, mapped.nodes).tolist()
    way = float(machine.path_latency(machine.paths([here], [there]))[0])
    return way * (1 + mapped.returns) + mapped.moved / (mapped.card or nics.bandwidth.value)


def host_pass(row: KernelRow) -> tuple[float, float, str]:
    """(measured seconds, ours, what priced it) of 256 MiB in which the processors of a node pass over its memory: at
    the peak of all channels, which is a bound. Raises Refused where the profile of the node lacks it."""
    name, _ = device_of(row)
    named = NetworkRow(id=row.id, source=row.source, op=row.op, accelerator_id=name, metrics=row.metrics)
    cluster = cluster_of(named)
    cpu = load_spec(Cluster, cluster).node.cpu
    if cpu is None or cpu.memory_bandwidth is None:
        raise Refused(f"the node of {cluster} has no `cpu.memory_bandwidth`")
    rate = row.metrics.get("bytes_per_s")
    if not rate:
        raise Refused("neither a time nor a rate")
    return ARRAY / rate, ARRAY / cpu.memory_bandwidth.value, MEMORY
