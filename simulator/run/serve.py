"""A serving scenario on its machines: requests drawn, replicas placed, the agenda run, the Result gathered."""

from collections.abc import Callable
from dataclasses import dataclass
from math import lcm

import numpy as np

from simulator import fabric, units
from simulator.engine.agenda import Agenda
from simulator.errors import InputError, Problem
from simulator.fabric.sharing import max_min
from simulator.interop import traces
from simulator.random import stream
from simulator.results.result import Result
from simulator.run.clock_overflow import clock_overflow
from simulator.run.service import gather
from simulator.serving.costs.iteration import library
from simulator.serving.fleet.contention import Placed, wire
from simulator.serving.fleet.fleet import Fleet
from simulator.serving.fleet.kv_transfer import KvTransfer
from simulator.serving.fleet.router import ROUTERS, Choice
from simulator.serving.fleet.system import System, resolve
from simulator.serving.replica.blocks import Memory
from simulator.serving.replica.ledger import Ledger, open_ledger
from simulator.serving.replica.lockstep import Lockstep
from simulator.serving.replica.prefix import PrefixCache
from simulator.serving.replica.replica import Replica
from simulator.serving.workload.generate import Workload, generate
from simulator.serving.workload.sharing import BLOCK
from simulator.specs import load_spec
from simulator.specs.collectives import CollectiveProfile
from simulator.specs.hardware import Cluster
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import ServingStack

HOST_LINK = 25e9
"""Bytes per second between a device and its host where the profile does not say: PCIe 4.0 x16 as measured."""


MOST_DEVICES = 1 << 16
"""Devices above which a cluster is refused."""
MOST_REQUESTS = 10_000_000
"""Requests above which a run is refused: a million takes some 2 GB."""


@dataclass(frozen=True, slots=True)
class ServingRun:
    """Everything that a finished run consists of."""

    scenario: ServingScenario
    systems: tuple[System, ...]
    workload: Workload
    ledger: Ledger
    replicas: tuple[Replica, ...]
    homes: tuple[System, ...]
    """The pool of each replica."""
    kv_transfer: KvTransfer | None
    events: int
    warnings: tuple[str, ...] = ()
    """Of replicas that share links as if they had them alone."""


def serve(
    scenario: ServingScenario, *, leap: bool | None = None, progress: Callable[[int], None] | None = None
) -> Result:
    """Simulate a serving scenario.

    `leap` overrides the scenario's. Raises InputError for what cannot be simulated; a model that does not fit into its
    devices is a Result with `feasible` False.
    """
    return gather(run_serving(scenario, leap=leap, progress=progress))


def run_serving(
    scenario: ServingScenario,
    *,
    leap: bool | None = None,
    progress: Callable[[int], None] | None = None,
    systems: tuple[System, ...] | None = None,
) -> ServingRun:
    """A serving scenario until its last request, not yet gathered into a Result.

    `systems` are its pools where they have been resolved already.
    """
    _check_sizes(scenario)
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            return _run(scenario, leap, progress, systems)
    except (OverflowError, FloatingPointError):
        raise clock_overflow(scenario) from None


def _check_sizes(scenario: ServingScenario) -> None:
    """InputError for more devices or requests than there is memory to think of."""
    clusters = [scenario.cluster, *(pool.cluster for pool in scenario.serving.pools if pool.cluster is not None)]
    for cluster in clusters:
        if cluster.devices > MOST_DEVICES:
            message = f"the cluster has {cluster.devices:,} devices, more than {MOST_DEVICES:,}"
            raise InputError(Problem(message, path="cluster.nodes", hint="simulate fewer nodes"))
    if (scenario.requests.count or 0) > MOST_REQUESTS:
        message = f"{scenario.requests.count:,} requests are more than {MOST_REQUESTS:,}"
        raise InputError(Problem(message, path="requests.count", hint="simulate fewer requests"))


def _run(
    scenario: ServingScenario,
    leap: bool | None,
    progress: Callable[[int], None] | None,
    systems: tuple[System, ...] | None,
) -> ServingRun:
    router = ROUTERS.get(scenario.serving.router, "serving.router")
    systems = resolve(scenario) if systems is None else systems
    workload = _workload(scenario, systems)
    ttft_slo = 0 if scenario.slo is None or scenario.slo.ttft is None else units.to_ticks(scenario.slo.ttft)
    ledger = open_ledger(workload, ttft_slo)
    if not all(system.cost.fits for system in systems):
        return ServingRun(scenario, systems, workload, ledger, (), (), None, 0)
    network = fabric.build(scenario.cluster)
    agenda = Agenda(network.capacity / units.TICKS_PER_SECOND, max_min)
    fleet = Fleet(agenda, ledger, workload, router, Choice(stream(scenario.seed, "router")))
    fast_forward = scenario.leap if leap is None else leap
    homes = tuple(system for system in systems for _ in range(system.replicas))
    replicas = tuple(
        _replica(system, i, number, agenda, ledger, fleet, fast_forward)
        for number, (system, i) in enumerate((system, i) for system in systems for i in range(system.replicas))
    )
    devices = {
        number: system.devices(i)
        for number, (system, i) in enumerate((system, i) for system in systems for i in range(system.replicas))
    }
    if any(system.role == "prefill" for system in systems):
        profile = load_spec(CollectiveProfile, scenario.cluster.collectives)
        token = max(system.cost.kv_replica_bytes for system in systems)
        by_layer = scenario.serving.transfer == "layer"
        fleet.kv_transfer = KvTransfer(
            agenda, ledger, network, profile, devices, token, scenario.model.layers, by_layer
        )
        fleet.kv_transfer.decoders = [replica for replica in replicas if replica.role == "decode"]
    _in_step(replicas, homes, agenda, scenario.stack)
    warnings = _wired(scenario, systems, replicas, fleet.kv_transfer)
    fleet.open([replica for replica in replicas if replica.role != "decode"])
    try:
        agenda.run(progress)
    except OverflowError:
        raise clock_overflow(scenario, units.to_seconds(int(workload.arrival.max()))) from None
    return ServingRun(scenario, systems, workload, ledger, replicas, homes, fleet.kv_transfer, agenda.events, warnings)


def _in_step(replicas: tuple[Replica, ...], homes: tuple[System, ...], agenda: Agenda, stack: ServingStack) -> None:
    """Tie replicas that share experts together, one group after the other."""
    first = 0
    while first < len(replicas):
        peers = homes[first].peers
        if peers > 1:
            Lockstep(agenda, list(replicas[first : first + peers]), stack.padded_rows)
        first += peers


def _wired(
    scenario: ServingScenario, systems: tuple[System, ...], replicas: tuple[Replica, ...], transfer: KvTransfer | None
) -> tuple[str, ...]:
    """Tie those together who could get into each other's way on links, cluster by cluster."""
    clusters: list[Cluster] = []
    for system in systems:
        clusters += [] if system.cluster in clusters else [system.cluster]
    warnings: tuple[str, ...] = ()
    seated = [(system.cluster, seat) for system in systems for seat in system.placements]
    for cluster in clusters if len(replicas) > 1 else ():
        runs = library(scenario.stack, cluster)
        here = [(one, seat) for one, (on, seat) in zip(replicas, seated, strict=True) if on == cluster]
        warnings += wire([Placed(one, seat, runs) for one, seat in here], transfer)
    return warnings


def _replica(
    system: System, i: int, number: int, agenda: Agenda, ledger: Ledger, fleet: Fleet, fast_forward: bool
) -> Replica:
    cost, accelerator = system.cost, system.cluster.node.accelerator
    rate = (accelerator.host_link.value if accelerator.host_link else HOST_LINK) * cost.devices
    memory = Memory(
        cost.blocks,
        cost.block_size,
        system.watermark,
        cost.kv_replica_bytes,
        system.context,
        system.swap_tokens,
        rate,
    )
    name = system.name if system.replicas == 1 else f"{system.name} {i + 1}"
    return Replica(
        name,
        number,
        system.role,
        agenda,
        ledger,
        system.make_policy(),
        system.stages(i),
        memory,
        fleet,
        _cache(system, ledger),
        fast_forward,
        system.instances * (1 if cost.serial else len(cost.stages)),
        system.reads_once,
    )


def _cache(system: System, ledger: Ledger) -> PrefixCache | None:
    """The prefix cache of a replica, where prompts share anything and its blocks are not larger than what is shared."""
    if system.prefix_caching == "none" or ledger.prefix is None:
        return None
    blocks, rest = divmod(ledger.prefix_block, system.cost.block_size)
    if rest or not blocks:
        size = system.cost.block_size
        message = f"prefixes are known in blocks of {ledger.prefix_block} tokens, the cache has blocks of {size}"
        hint = f"write a divisor of {ledger.prefix_block}, or `prefix_caching: none`"
        raise InputError(Problem(message, path="serving.kv_cache.block_size", hint=hint))
    return PrefixCache(blocks)


def _workload(scenario: ServingScenario, systems: tuple[System, ...]) -> Workload:
    """The requests, drawn or read, with those that no replica could hold left to be rejected."""
    block = lcm(BLOCK, *(system.cost.block_size for system in systems))  # whole cache blocks of every pool
    requests = scenario.requests
    trace = None if requests.trace is None else traces.read(requests.trace)
    return generate(requests, scenario.seed, trace, block)
