"""One collective of the first ranks of a cluster, or a dispatch or combine of a mixture of experts, priced alone."""

from dataclasses import dataclass

import numpy as np

from simulator import collectives, fabric
from simulator.collectives import CollectiveCost, Routing, library_of
from simulator.collectives.custom_all_reduce import (
    ENGINES,
    check_engine,
    custom_seconds,
    kernels_of,
    moving_share,
    shot_bytes,
    shots,
)
from simulator.errors import InputError, Problem
from simulator.results.documents.collective import CollectiveDocument
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec
from simulator.units import TICKS_PER_SECOND


@dataclass(frozen=True, slots=True)
class AskedCollective:
    """What to price."""

    cluster: str
    operation: str
    size_bytes: float
    """As of `collectives.plan`."""
    ranks: int | None = None
    """The first ones; None: all."""
    nodes: int | None = None
    """Of the cluster; None: as its profile says, or as many as the ranks need."""
    library: str | None = None
    """Of exchanges with experts; None: all-to-alls of the machine's own library. Of all-reduces one of `ENGINES`, whose
    kernels run where it has some for the machine and the size; the library's otherwise."""
    algorithm: str = "auto"
    routing: Routing | None = None


def price(asked: AskedCollective) -> CollectiveDocument:
    """The collective with nothing else on the fabric; InputError where it cannot be."""
    cluster = _cluster(asked)
    machine = fabric.build(cluster)
    ranks = asked.ranks or machine.devices
    profile, algorithm = load_spec(CollectiveProfile, cluster.collectives), asked.algorithm
    operation = collectives.operation_of(asked.operation)
    engine = asked.library if operation == "all_reduce" and asked.library in ENGINES else None
    if engine is not None and (found := _by_engine(engine, asked, cluster, machine, profile)):
        return found
    if asked.library is not None and engine is None:
        profile, own = library_of(asked.library, profile)
        algorithm = own if asked.algorithm == "auto" else asked.algorithm
    group = [range(ranks)]
    cost = collectives.cost_of(operation, group, asked.size_bytes, machine, profile, algorithm, asked.routing)
    return CollectiveDocument(
        operation=operation,
        cluster=cluster.name,
        library=profile.name,
        algorithm=", ".join(cost.algorithms),
        ranks=ranks,
        nodes=-(-ranks // machine.numbering.per_node[0]),
        size_bytes=asked.size_bytes,
        time_s=cost.slowest / TICKS_PER_SECOND,
        moving_s=int(cost.moving.max(initial=0)) / TICKS_PER_SECOND,
        bottleneck=machine.kinds[cost.bottleneck[0]] if cost.bottleneck[0] >= 0 else "",
        busiest_bytes=_busiest(cost, machine),
    )


def _by_engine(
    engine: str, asked: AskedCollective, cluster: Cluster, machine: fabric.Fabric, profile: CollectiveProfile
) -> CollectiveDocument | None:
    """An all-reduce by an engine's own kernels; None where the engine hands it to the library. InputError where it has
    none that are known for these machines, or an algorithm of the library is asked for."""
    check_engine(engine, profile, asked.algorithm)
    group = tuple(range(asked.ranks or machine.devices))
    own = kernels_of(profile, engine, asked.size_bytes, group, machine)
    if own is None:
        return None
    seconds = custom_seconds(asked.size_bytes, group, machine, own)
    read = shot_bytes(asked.size_bytes, group, machine, own)
    cost = collectives.cost_of("all_to_all", [group], read, machine, profile, "direct")
    return CollectiveDocument(
        operation="all_reduce",
        cluster=cluster.name,
        library=f"kernels of {engine}",
        algorithm=shots(asked.size_bytes, group, machine, own),
        ranks=len(group),
        nodes=1,
        size_bytes=asked.size_bytes,
        time_s=seconds,
        moving_s=seconds * moving_share(asked.size_bytes, group, machine, own),
        bottleneck=machine.kinds[cost.bottleneck[0]] if cost.bottleneck[0] >= 0 else "",
        busiest_bytes=_busiest(cost, machine),
    )


def _cluster(asked: AskedCollective) -> Cluster:
    """The cluster with the nodes that are asked for; InputError where it has too few devices."""
    cluster = load_spec(Cluster, asked.cluster)
    nodes = asked.nodes
    if nodes is None and asked.ranks is not None and not cluster.more_nodes:
        nodes = max(cluster.nodes, -(-asked.ranks // cluster.node.devices))
    if nodes is not None:
        cluster = cluster.model_copy(update={"nodes": nodes})
    devices = fabric.build(cluster).devices
    if (asked.ranks or devices) > devices:
        raise InputError(Problem(f"{asked.ranks:,} ranks on {devices:,} devices", hint="raise `--nodes`"))
    return cluster


def _busiest(cost: CollectiveCost, machine: fabric.Fabric) -> dict[str, float]:
    """Bytes on the busiest link of each kind that is used."""
    starts = [*machine.block_start, len(cost.load)]
    found: dict[str, float] = {}
    for kind, first, stop in zip(machine.kinds, starts, starts[1:], strict=False):
        most = float(np.max(cost.load[first:stop], initial=0.0))
        if most:
            found[kind] = max(most, found.get(kind, 0.0))
    return found
