"""Published dispatches and combines of mixtures of experts, priced on the machine that they ran on."""

from simulator import collectives
from simulator.collectives import Plan
from simulator.interop.rows.exchanges import MappedExchange
from simulator.run.measured.network import machine_of, placed
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.units import TICKS_PER_SECOND


def predicted(mapped: MappedExchange, profile: CollectiveProfile) -> float:
    """Seconds of a row under a profile of its library."""
    return collectives.cost(planned(mapped, profile)).slowest / TICKS_PER_SECOND


def planned(mapped: MappedExchange, profile: CollectiveProfile) -> Plan:
    """The transfers of a row; raises Refused where its ranks do not fit the nodes that it names."""
    machine = machine_of(mapped.cluster, mapped.nodes)
    group = placed(machine, mapped.row.num_ranks, mapped.nodes)
    return collectives.plan(mapped.operation, [group], mapped.size_bytes, machine, profile, routing=mapped.routing)
