"""A serving scenario on its machines: requests drawn, replicas placed, the agenda run, the Result gathered."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import lcm

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.engine.agenda import Agenda
from simulator.engine.wires import User, join, meet
from simulator.errors import InputError, Problem
from simulator.interop import traces
from simulator.random import stream
from simulator.results.result import Result
from simulator.run.clock_overflow import clock_overflow
from simulator.run.served.condense import Condensing, condensing
from simulator.run.served.fleet import equip
from simulator.run.service import gather
from simulator.run.site import Site
from simulator.run.spread.saturation import strains, under_load
from simulator.serving import compiled
from simulator.serving.costs.iteration import library
from simulator.serving.fleet import adapters, finetuning, models
from simulator.serving.fleet.contention import Placed, users
from simulator.serving.fleet.fleet import Fleet
from simulator.serving.fleet.kv_transfer import KvTransfer
from simulator.serving.fleet.links import LinkBreakdowns
from simulator.serving.fleet.models import ModelChoice
from simulator.serving.fleet.operations import Operations
from simulator.serving.fleet.roles import RoleSwitch
from simulator.serving.fleet.router import ROUTERS, Choice
from simulator.serving.fleet.system import System, resolve
from simulator.serving.fleet.tiers import Tiers, host_link
from simulator.serving.policies.view import view
from simulator.serving.replica import crossing
from simulator.serving.replica.caches.blocks import Memory
from simulator.serving.replica.caches.chunks import ChunkCache
from simulator.serving.replica.caches.prefix import PrefixCache
from simulator.serving.replica.images import ImageEncoder
from simulator.serving.replica.intake import FrontEnd
from simulator.serving.replica.ledger import Ledger, narrow, open_ledger
from simulator.serving.replica.lockstep import Lockstep
from simulator.serving.replica.replica import Replica
from simulator.serving.replica.speculation import Yields
from simulator.serving.workload.generate import NEVER, Workload, generate
from simulator.serving.workload.sharing import BLOCK
from simulator.specs import load_spec
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.requests import Requests
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import ServingStack

Floats = NDArray[np.float64]

LEAST = "least-outstanding"
"""The router of decode replicas that needs no choice of its own."""
MOST_DEVICES = 1 << 16
"""Devices above which a cluster is refused."""
MOST_REQUESTS = 10_000_000
"""Requests above which a run is refused: a million takes 0.6 GB, with `records: sample` less."""


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
    share_links: bool = True
    """Whether users that could ask a link for more than it has share it."""
    roles: RoleSwitch | None = None
    """What lets replicas change their role."""
    tiers: Tiers | None = None
    """Memories below the devices'; None where there are none."""
    operations: Operations | None = None
    """What runs the fleet beside its replicas."""
    models: ModelChoice | None = None
    """What sends requests to models; None where there is one."""
    condensing: Condensing | None = None
    """What has taken the rows of replicas; None where all records are kept."""

    @property
    def links(self) -> LinkBreakdowns | None:
        """Links that fail; None where none do."""
        return None if self.operations is None else self.operations.links


def serve(
    scenario: ServingScenario,
    *,
    leap: bool | None = None,
    progress: Callable[[int], None] | None = None,
    links: bool = True,
    intervals: bool = True,
) -> Result:
    """Simulate a serving scenario.

    `leap` overrides the scenario's; without `links` the Result leaves out what they carried, and without `intervals`
    what its queue makes of an error of speed, for which a run near saturation is simulated again. Raises InputError for
    what cannot be simulated; a model that does not fit into its devices is a Result with `feasible` False.
    """
    run = run_serving(scenario, leap=leap, progress=progress)
    found = gather(run, links)
    if not (found.feasible and intervals):
        return found
    return replace(found, ground=under_load(found.ground, strains(run, again)))


def again(run: ServingRun, workload: Workload) -> ServingRun:
    """A scenario on the same machine with other requests; of what it leaves only the ledger may be read."""
    return run_serving(run.scenario, systems=run.systems, workload=workload, silent=True)


def run_serving(
    scenario: ServingScenario,
    *,
    leap: bool | None = None,
    progress: Callable[[int], None] | None = None,
    systems: tuple[System, ...] | None = None,
    share_links: bool = True,
    workload: Workload | None = None,
    silent: bool = False,
) -> ServingRun:
    """A serving scenario until its last request, not yet gathered into a Result.

    `systems` are its pools where they have been resolved already, `workload` requests in place of those that it
    describes. Without `share_links` every user has its links for itself, but caches on their way. A `silent` run writes
    no rows of iterations: of what it leaves only the ledger may be read.
    """
    _check_sizes(scenario)
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            return _run(scenario, leap, progress, systems, share_links, workload, silent)
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
    share_links: bool,
    workload: Workload | None = None,
    silent: bool = False,
) -> ServingRun:
    site = Site(scenario.cluster, scenario.seed)
    served = serving(site, scenario, resolve(scenario) if systems is None else systems, leap, workload=workload)
    for replica in served.replicas if silent and served.operations is None else ():
        replica.be_silent()  # operations look at how busy replicas are
    shares = share_links and (not _alone(served) or served.links is not None)
    # Weights of new replicas, adapters and caches of tiers use links beside the users, and links may fail.
    loading = [one for own in served.replicas for one in (own.loads, own.adapters, own.weight_loads)]
    others = served.operations is not None or any(one is not None for one in loading)
    sending = senders(served, recorded=others) if shares else {}
    for here, capacity in sending.values():
        meet(here, capacity.tolist())
        join(here)
    try:
        if not compiled.ran(served.replicas, site.clock, progress):
            site.run(progress)
    except OverflowError:
        raise clock_overflow(scenario, units.to_seconds(int(served.workload.arrival.max()))) from None
    return replace(served, events=site.clock.events, share_links=share_links)


def _alone(run: ServingRun) -> bool:
    """Whether there is no other replica to meet."""
    return len(run.replicas) < 2


def serving(
    site: Site,
    scenario: ServingScenario,
    systems: tuple[System, ...],
    leap: bool | None = None,
    start: int = 0,
    finished: Callable[[], None] | None = None,
    workload: Workload | None = None,
) -> ServingRun:
    """Put a serving system on a site, where requests come from tick `start` on; it runs when the site does.

    `finished` is called when all requests are done; `workload` takes the place of the scenario's requests.
    """
    router = ROUTERS.get(scenario.serving.router, "serving.router")
    workload = _workload(scenario, systems, start) if workload is None else workload
    workload, asked = adapters.drawn(scenario, narrow(workload))
    ttft_slo = 0 if scenario.slo is None or scenario.slo.ttft is None else units.to_ticks(scenario.slo.ttft)
    ledger = open_ledger(workload, ttft_slo)
    if not all(system.cost.fits for system in systems):
        return ServingRun(scenario, systems, workload, ledger, (), (), None, 0)
    agenda = site.clock
    way = 0 if scenario.requests.arrivals.at_once else _way(scenario.stack)
    fleet = Fleet(agenda, ledger, workload, router, Choice(stream(scenario.seed, "router")), finished, way)
    fast_forward = scenario.leap if leap is None else leap
    homes = tuple(system for system in systems for _ in range(system.replicas))
    yields = {id(system): _yields(system, scenario.seed) for system in systems}
    fronts = _fronts(systems, () if scenario.requests.arrivals.at_once else _handling(scenario.stack, ledger))
    ahead = scenario.stack.schedules_ahead
    replicas = tuple(
        _replica(system, i, number, agenda, ledger, fleet, fast_forward, yields[id(system)], ahead, front)
        for number, (system, i, front) in enumerate(fronts)
    )
    if any(system.role == "prefill" for system in systems):
        fleet.kv_transfer = _kv_transfer(site, scenario, systems, ledger)
        fleet.kv_transfer.decoders = [replica for replica in replicas if replica.role == "decode"]
        fleet.local = scenario.serving.local_prompts
    _in_step(replicas, homes, agenda, scenario.stack)
    for replica, system in zip(replicas, homes, strict=True):
        if workload.images is not None and system.cost.vision is not None and system.role != "decode":
            replica.encoder = ImageEncoder(system.cost.vision, workload.images)
        if workload.encoded is not None and system.cost.encoder is not None:
            crossing.attach(replica, system.cost.encoder, workload.encoded.tolist())
    _with_chunks(replicas, homes, workload, scenario.requests)
    tiers = _tiers(site, systems, replicas, asked)
    equip(site, scenario, fleet, systems, replicas, workload)
    if scenario.serving.models is not None:
        pools = [number for number, system in enumerate(systems) for _ in range(system.replicas)]
        fleet.models = models.model_choice(scenario, pools, workload, ledger)
        models.equip(fleet.models, fleet.choice)
    if scenario.serving.finetuning is not None:
        for replica, system in zip(replicas, homes, strict=True):
            finetuning.attach(scenario, replica, system, workload.first, lambda: fleet.busy)
    plain = fleet.operations is None and workload.tenant is None and fleet.models is None
    random = stream(scenario.seed, "records")
    totals = condensing(scenario.records if plain else "all", ledger, replicas, homes, scenario.slo, random)
    fleet.open([replica for replica in replicas if replica.role != "decode"])
    roles = _switching(scenario, fleet, replicas, agenda)
    own = scenario, systems, workload, ledger, replicas, homes, fleet.kv_transfer
    made = ServingRun(*own, 0, roles=roles, tiers=tiers, operations=fleet.operations, condensing=totals)
    return made if fleet.models is None else replace(made, models=fleet.models)


def _tiers(
    site: Site, systems: tuple[System, ...], replicas: tuple[Replica, ...], asked: adapters.Asked | None
) -> Tiers | None:
    """Give replicas that keep prefixes the tiers of their pools, and all of them adapters; None without tiers."""
    homes = [(system, i) for system in systems for i in range(system.replicas)]
    tiers = Tiers(site.clock, site.fabric)
    for replica, (system, i) in zip(replicas, homes, strict=True):
        own = replica.blocks
        if system.kv_cache.tiers and (own.cache is not None or own.chunks is not None):
            assert system.model is not None
            tiers.attach(replica, system, i, system.kv_cache, system.model.layers)
        if asked is not None:
            adapters.attach(asked, replica, system, tiers)
        shares = replica.loads is not None or replica.adapters is not None or system.swap_tokens > 0
        if system.weights is not None and shares:
            tiers.carry_weights(replica, system, i)
    return tiers if tiers.stores else None


def _way(stack: ServingStack) -> int:
    """Ticks of a request outside of the engine and its front end."""
    return 0 if stack.request_overhead is None else units.to_ticks(stack.request_overhead.value)


def _handling(stack: ServingStack, ledger: Ledger) -> Sequence[int]:
    """Ticks of the front end for each request; none where the stack says nothing."""
    request, token = (0.0 if one is None else one.value for one in (stack.request_handling, stack.prompt_overhead))
    ticks = (units.to_ticks(request + token * prompt) for prompt in ledger.prompt)
    return array("q", ticks) if request or token else ()


def _fronts(systems: tuple[System, ...], handling: Sequence[int]) -> list[tuple[System, int, FrontEnd | None]]:
    """(pool, number in it, front end) of each replica; those in step have one together, those that decode only none."""
    found: list[tuple[System, int, FrontEnd | None]] = []
    for system in systems:
        front = None
        for i in range(system.replicas):
            if handling and system.role != "decode" and i % system.peers == 0:
                front = FrontEnd(handling)
            found.append((system, i, front))
    return found


def _kv_transfer(site: Site, scenario: ServingScenario, systems: tuple[System, ...], ledger: Ledger) -> KvTransfer:
    """What moves caches between the pools."""
    places = [system.devices(i) for system in systems for i in range(system.replicas)]
    profile = load_spec(CollectiveProfile, scenario.cluster.collectives)
    token = max(system.cost.kv_replica_bytes for system in systems)
    by_layer = scenario.serving.transfer == "layer"
    devices = dict(enumerate(places))
    states = max(system.cost.state_replica_bytes for system in systems)
    own = site.clock, ledger, site.fabric, profile, devices, token, scenario.model.layers, by_layer
    rules = scenario.serving
    transfer = KvTransfer(*own, state_bytes=states, first_by_decode=rules.first_token == "decode")
    transfer.switches = rules.switching is not None
    if rules.decode_router != LEAST:
        transfer.router = ROUTERS.get(rules.decode_router, "serving.decode_router")
        transfer.choice = Choice(stream(scenario.seed, "decode router"))
    return transfer


def _switching(
    scenario: ServingScenario, fleet: Fleet, replicas: tuple[Replica, ...], agenda: Agenda
) -> RoleSwitch | None:
    """What changes roles, which looks from now on; None where nothing does."""
    rules, transfer = scenario.serving.switching, fleet.kv_transfer
    if rules is None or transfer is None:
        return None
    sides: dict[str, list[Sequence[Replica]]] = {"prefill": [], "decode": [], "both": []}
    for replica in replicas:
        if replica.group is None or replica is replica.group.members[0]:
            sides[replica.role].append([replica] if replica.group is None else replica.group.members)
    if sides.pop("both"):
        message = "replicas of the role `both` beside those that change theirs"
        raise InputError(Problem(message, path="serving.switching", hint="give pools the roles `prefill` and `decode`"))
    switch = RoleSwitch(agenda, rules, sides, transfer, fleet.entrances, lambda: fleet.busy)
    switch.watch()
    return switch


def _in_step(replicas: tuple[Replica, ...], homes: tuple[System, ...], agenda: Agenda, stack: ServingStack) -> None:
    """Tie replicas that share experts together, one group after the other."""
    first = 0
    while first < len(replicas):
        peers = homes[first].peers
        if peers > 1:
            spec = homes[first].cost.speculation
            each = 1 if spec is None else spec.most_rows
            Lockstep(agenda, list(replicas[first : first + peers]), stack.padded_rows * each)
        first += peers


def senders(run: ServingRun, job: str = "", recorded: bool = True) -> dict[str, tuple[list[User], Floats]]:
    """Users that send over links, and the capacity of these in bytes per tick, by cluster: that of the scenario,
    whose links are those of the site, has no name. `job` is their name on the record of loads, `recorded` as for
    `contention.users`."""
    found = {}
    seated = [(system, seat) for system in run.systems for seat in system.placements]
    for cluster in {id(system.cluster): system.cluster for system, _ in seated if run.replicas}.values():
        runs = library(run.scenario.stack, cluster)
        own = {id(system): replace(runs, exchange=system.cost.exchange) for system in run.systems}
        placed = zip(run.replicas, seated, strict=True)
        here = [Placed(one, seat, own[id(on)]) for one, (on, seat) in placed if on.cluster is cluster]
        name = "" if cluster is run.scenario.cluster else cluster.name
        capacity = runs.fabric.capacity / units.TICKS_PER_SECOND
        found[name] = users(here, None if name else run.kv_transfer, job, recorded), capacity
    if run.links is not None and "" in found:
        found[""][0].append(run.links.user())
    return found


def _yields(system: System, seed: int) -> Yields | None:
    """What sequences of a pool get from iterations that verify; None where they verify nothing."""
    spec = system.cost.speculation
    return None if spec is None else Yields(spec, stream(seed, "speculation"))


def _replica(
    system: System,
    i: int,
    number: int,
    agenda: Agenda,
    ledger: Ledger,
    fleet: Fleet,
    fast_forward: bool,
    yields: Yields | None,
    ahead: bool,
    front: FrontEnd | None,
) -> Replica:
    cost = system.cost
    rate = host_link(system)
    memory = Memory(
        cost.blocks,
        cost.block_size,
        system.watermark,
        cost.kv_replica_bytes,
        system.context,
        system.swap_tokens,
        rate,
        cost.state_blocks,
        cost.state_replica_bytes,
        0 if cost.speculation is None else cost.speculation.most_rows - 1,
    )
    name = system.name if system.replicas == 1 else f"{system.name} {i + 1}"
    made = Replica(
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
        yields,
        ahead,
        front,
    )
    made.stages.streams |= system.streams and len(cost.stages) > 1
    return made


def _with_chunks(replicas: Sequence[Replica], homes: Sequence[System], workload: Workload, requests: Requests) -> None:
    """Let replicas use retrieved chunks again that are set memory aside for."""
    for replica, home in zip(replicas, homes, strict=True):
        rule, chunks = home.kv_cache.chunks, requests.chunks
        if rule is None or chunks is None or workload.chunks is None:
            continue
        slots = int(rule.capacity / (chunks.tokens * home.cost.kv_replica_bytes))
        replica.blocks.chunks = ChunkCache(workload.chunks, chunks.tokens, slots, rule.recompute)
        for batch in replica.batches:
            batch.view = view(batch)  # prompts find something from now on


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


def _workload(scenario: ServingScenario, systems: tuple[System, ...], start: int) -> Workload:
    """The requests, drawn or read, with those that no replica could hold left to be rejected; they come from tick
    `start` on."""
    block = lcm(BLOCK, *(system.cost.block_size for system in systems))  # whole cache blocks of every pool
    requests = scenario.requests
    trace = None if requests.trace is None else traces.read(requests.trace)
    drawn = generate(requests, scenario.seed, trace, block, scenario.model)
    if start:
        drawn.arrival[drawn.arrival != NEVER] += start
    return drawn
