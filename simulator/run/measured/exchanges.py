"""Published dispatches and combines of mixtures of experts, priced on the machine that they ran on."""

from functools import cache

from simulator import collectives, fabric
from simulator.collectives import Plan
from simulator.interop.rows.exchanges import MappedExchange
from simulator.run.measured.network import placed
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec
from simulator.units import TICKS_PER_SECOND


def predicted(mapped: MappedExchange, profile: CollectiveProfile) -> float:
    """Seconds of a row under a profile of its library."""
    return collectives.cost(planned(mapped, profile)).slowest / TICKS_PER_SECOND


def planned(mapped: MappedExchange, profile: CollectiveProfile) -> Plan:
    """The transfers of a row; raises Refused where its ranks do not fit the nodes that it names."""
    machine = _machine(mapped.cluster, mapped.nodes)
    group = placed(machine, mapped.row.num_ranks, mapped.nodes)
    return collectives.plan(mapped.operation, [group], mapped.size_bytes, machine, profile, routing=mapped.routing)


@cache
def _machine(cluster: str, nodes: int) -> fabric.Fabric:
    """The first nodes of a cluster."""
    return fabric.build(load_spec(Cluster, cluster).model_copy(update={"nodes": nodes}))
