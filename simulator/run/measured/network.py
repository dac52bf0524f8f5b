"""Published collectives, priced on the machine that they ran on."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from simulator import collectives, fabric
from simulator.collectives.custom_all_reduce import custom_seconds, kernels_of
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.network import MappedCollective
from simulator.specs.hardware import Cluster, Nics
from simulator.specs.libraries.collectives import CollectiveProfile, Scope, Scopes
from simulator.specs.resolve import load_spec
from simulator.units import TICKS_PER_SECOND

Ints = NDArray[np.int64]
SOCKETS = "ethernet"
"""The profile that says what TCP takes between nodes."""


def profile_of(mapped: MappedCollective) -> CollectiveProfile:
    """The profile of the machine's library."""
    return load_spec(CollectiveProfile, _spec(mapped.cluster).collectives)


def predicted(mapped: MappedCollective, profile: CollectiveProfile) -> float:
    """Seconds of a row under a profile of its library; raises Refused where the ranks do not fit the nodes."""
    machine = machine_of(mapped.cluster, mapped.nodes, mapped.cards)
    group = group_of(mapped)
    if mapped.engine:
        return _by_engine(mapped, machine, profile, tuple(group.tolist()))
    if mapped.sockets:
        profile = over_sockets(profile)
    if mapped.environment is not None:
        profile = profile.model_copy(update={"environment": mapped.environment.over(profile.environment)})
    algorithm = _known(mapped.algorithm, mapped.operation, profile)
    cost = collectives.cost_of(mapped.operation, group, mapped.size_bytes, machine, profile, algorithm)
    return cost.slowest / TICKS_PER_SECOND


def _by_engine(
    mapped: MappedCollective, machine: fabric.Fabric, profile: CollectiveProfile, group: tuple[int, ...]
) -> float:
    """Seconds of an all-reduce by an engine's own kernels; raises Refused where none are known to run."""
    own = kernels_of(profile, mapped.engine, mapped.size_bytes, group, machine)
    if own is None:
        raise Refused(f"no kernels of {mapped.engine} for {mapped.size_bytes:.0f} bytes beside {profile.name}")
    return custom_seconds(mapped.size_bytes, group, machine, own)


def over_sockets(profile: CollectiveProfile) -> CollectiveProfile:
    """A library whose nodes talk TCP: between them its protocols start and hop as the profile `ethernet` does, and
    reach that share of what they reach over RDMA."""
    tcp = load_spec(CollectiveProfile, SOCKETS).protocols["tcp"].scale_out

    def slowed(scope: Scope) -> Scope:
        reached = scope.efficiency.value * tcp.efficiency.value
        efficiency = tcp.efficiency.model_copy(update={"value": reached})
        return scope.model_copy(update={"launch": tcp.launch, "latency": tcp.latency, "efficiency": efficiency})

    def scopes(of: Scopes) -> dict[str, Scope]:
        return {"scale_out": slowed(of.scale_out)}

    protocols = {}
    for name, protocol in profile.protocols.items():
        trees = protocol.trees and protocol.trees.model_copy(update=scopes(protocol.trees))
        protocols[name] = protocol.model_copy(update=scopes(protocol) | {"trees": trees})
    return profile.model_copy(update={"protocols": protocols})


def group_of(mapped: MappedCollective) -> Ints:
    """The devices of the ranks of a row; raises Refused where they do not fit the nodes."""
    return placed(machine_of(mapped.cluster, mapped.nodes, mapped.cards), mapped.ranks, mapped.nodes)


def placed(machine: fabric.Fabric, ranks: int, nodes: int) -> Ints:
    """The devices of the ranks of a row, as many on each node; raises Refused where they do not fit the nodes."""
    share, rest = divmod(ranks, nodes)
    held = machine.numbering.per_node[0]
    if rest or share > held:
        raise Refused(f"{ranks} ranks on {nodes} nodes of {held}")
    found: Ints = (np.arange(nodes)[:, None] * held + np.arange(share)).ravel()
    return found


def _known(algorithm: str, operation: str, profile: CollectiveProfile) -> str:
    """The pinned algorithm where the profile has it, else what its library chooses."""
    name, _, protocol = algorithm.partition("/")
    if name not in profile.algorithms.get(operation, ()):  # type: ignore[call-overload]
        return "auto"
    return algorithm if not protocol or protocol in profile.protocols_of(name) else name


@cache
def _spec(cluster: str) -> Cluster:
    return load_spec(Cluster, cluster)


def has_other_cards(mapped: MappedCollective) -> bool:
    """Whether the cards that a row states carry less or more than those of the cluster that stands for its machine."""
    return _nics(_spec(mapped.cluster), mapped.cards) is not None


def _nics(spec: Cluster, cards: tuple[int, float] | None) -> Nics | None:
    """The cards that a row states; None where they carry together what those of the cluster do."""
    own = spec.node.nics
    if own is None or cards is None or abs(cards[0] * cards[1] / (own.count * own.bandwidth.value) - 1) < 0.01:
        return None
    bandwidth = own.bandwidth.model_copy(update={"value": cards[1]})
    return own.model_copy(update={"count": cards[0], "bandwidth": bandwidth})


@cache
def machine_of(cluster: str, nodes: int, cards: tuple[int, float] | None = None) -> fabric.Fabric:
    """The first nodes of a cluster, with the cards that a row states."""
    spec = _spec(cluster).model_copy(update={"nodes": nodes})
    if nics := _nics(spec, cards):
        spec = spec.model_copy(update={"node": spec.node.model_copy(update={"nics": nics})})
    return fabric.build(spec)
