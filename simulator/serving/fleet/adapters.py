"""Adapters on machines: which systems can have them, and the ways that they are loaded over.

Adapters travel over the host links of the replica's devices, beside blocks from tiers of the cache. Storage is that of
the replica alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simulator import units
from simulator.errors import InputError, Problem
from simulator.results.serving.adapters import AdapterUse
from simulator.serving.fleet.tiers import Tiers
from simulator.serving.replica.adapters import AdapterRules, AdapterSlots
from simulator.serving.replica.replica import Replica
from simulator.serving.workload.adapters import BASE, apart, assigned
from simulator.serving.workload.generate import Workload
from simulator.specs.adapters import Adapters
from simulator.specs.hardware import Node
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Layout, Serving

if TYPE_CHECKING:
    from simulator.serving.fleet.system import System

PATH = "serving.adapters"


@dataclass(frozen=True, slots=True)
class Asked:
    """Adapters that requests ask for."""

    spec: Adapters
    of: Sequence[int]
    """That of each request."""


def check(serving: Serving, layout: Layout, node: Node) -> None:
    """InputError for systems that cannot have adapters."""
    if serving.adapters is None:
        return
    hint = "leave `adapters` out"
    if serving.switching is not None:
        message = "adapters of replicas that change their role are not simulated"
        raise InputError(Problem(message, path=PATH, hint="leave `adapters` or `switching` out"))
    if layout.sharers > 1:
        message = "adapters of replicas that share experts are not simulated"
        raise InputError(Problem(message, path=PATH, hint="write `ep: 1`, or leave `adapters` out"))
    if serving.pools and serving.fleet is not None and serving.fleet.failures is not None:
        message = "adapters beside pools whose replicas or links fail are not simulated"
        raise InputError(Problem(message, path=PATH, hint="leave `adapters` or `fleet.failures` out"))
    if node.accelerator.kind == "cpu":
        message = f"adapters are loaded over a host link, and the devices of {node.name} are the host"
        raise InputError(Problem(message, path=PATH, hint=hint))


def drawn(scenario: ServingScenario, workload: Workload) -> tuple[Workload, Asked | None]:
    """The workload with prefixes apart by adapter, and the adapter of each request; None where there are none."""
    spec = scenario.serving.adapters
    if spec is None:
        return workload, None
    of = assigned(workload, spec, scenario.seed, len(scenario.requests.tenants))
    return apart(workload, of), Asked(spec, of.tolist())


def attach(asked: Asked, replica: Replica, system: "System", tiers: Tiers) -> None:
    """Give a replica room for adapters."""
    spec, cost = asked.spec, system.cost
    tp = cost.devices // len(cost.stages)
    hosts = spec.host_slots if spec.storage is not None else None
    rules = AdapterRules(
        of=asked.of,
        ranks=spec.ranks,
        size=[tp * sum(own.bytes(rank) for own in cost.adapters) for rank in spec.ranks],
        blocks=cost.adapter_blocks,
        slots=spec.slots,
        products=cost.adapters,
        load=tiers.host_path(replica, system, spec.latency),
        host_slots=hosts,
        fetch=None if hosts is None else tiers.host_path(replica, system, spec.latency, spec.storage),
    )
    replica.adapters = AdapterSlots(replica, rules)
    if spec.slots is None:
        replica.blocks.spare = replica.adapters


def used(replicas: Sequence[Replica]) -> AdapterUse | None:
    """What became of the adapters of all replicas; None where there are none."""
    own = [replica.adapters for replica in replicas if replica.adapters is not None]
    if not own:
        return None
    waits = np.concatenate([np.frombuffer(one.counts.waits, np.int64) for one in own])
    return AdapterUse(
        count=len({adapter for adapter in own[0].rules.of if adapter != BASE}),
        requests=sum(one.counts.requests for one in own),
        hits=sum(one.counts.hits for one in own),
        loads=sum(one.counts.loads for one in own),
        fetched=sum(one.counts.fetched for one in own),
        evicted=sum(one.counts.evicted for one in own),
        most=sum(one.counts.most for one in own),
        largest=max(max(one.rules.size) for one in own),
        read=sum(one.counts.read_bytes for one in own),
        mean_wait=float(waits.mean()) / units.TICKS_PER_SECOND if len(waits) else 0.0,
        longest_wait=units.to_seconds(int(waits.max())) if len(waits) else 0.0,
    )
