"""A serving scenario as replicas on devices: pools resolved, compiled and placed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from simulator.errors import InputError, Problem
from simulator.serving.costs.iteration import ReplicaCost, StageCost, compile_costs, probe_seconds, shape
from simulator.serving.fleet import adapters, encoders, finetuning, tiers
from simulator.serving.placement import FreeDevices, ReplicaPlacement, notes, placements
from simulator.serving.policies import POLICIES, Policy, Rules
from simulator.specs.hardware import Cluster, Node
from simulator.specs.model import Model
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Batching, KvCache, Layout, Pool, Serving, ServingStack
from simulator.specs.speculation import Speculation
from simulator.specs.tiers.streamed_weights import StreamedWeights
from simulator.units import to_ticks


@dataclass(frozen=True, slots=True)
class System:
    """A pool with nothing left open, and what its replicas cost."""

    name: str
    role: str
    replicas: int
    """Attention ranks of all its replicas, each with a queue and a cache of its own."""
    cluster: Cluster
    """All that one network joins, the nodes of other pools among them."""
    node: Node
    """Of the kind that it lies on."""
    policy: str
    rules: Rules
    cost: ReplicaCost
    """Of a replica on the first devices of nodes of its kind."""
    prefix_caching: str
    reads_once: bool
    """Whether decodes read what the prefix cache shares among them once."""
    context: int
    """Longest sequence in tokens."""
    watermark: int
    """Blocks that stay free when a request is admitted."""
    swap_tokens: int
    """Tokens that fit into host memory; 0 where preempted sequences are computed again."""
    instances: int
    """Batches that take turns on each stage of a replica."""
    peers: int
    """Ranks that share experts and run in step; 1: each on its own."""
    placements: tuple[ReplicaPlacement, ...]
    """Where each replica lies."""
    streams: bool = False
    """Whether pieces of a prompt follow each other from stage to stage."""
    kv_cache: KvCache = field(default_factory=KvCache)
    """Where its keys and values live, as written."""
    weights: StreamedWeights | None = None
    """Layers that are loaded in every iteration, with the bandwidth of the drives that they lie on."""
    model: Model | None = None
    """What its replicas serve."""
    elsewhere: dict[int, tuple[StageCost, ...]] = field(default_factory=dict)
    """Costs of the stages of replicas whose groups lie so that they take another time, by replica."""

    def make_policy(self) -> Policy:
        """A policy of its own for each replica."""
        return POLICIES.get(self.policy)(self.rules)

    def devices(self, replica: int) -> tuple[int, ...]:
        """Devices of one of its replicas."""
        return self.placements[replica].own

    def stages(self, replica: int) -> tuple[StageCost, ...]:
        """Costs of the stages of one of its replicas, where it lies."""
        return self.elsewhere.get(replica, self.cost.stages)


def resolve(scenario: ServingScenario, devices: Sequence[int] | None = None) -> tuple[System, ...]:
    """The pools of a scenario, on some devices of its cluster or on all of it; InputError where they do not fit onto
    its machines or name unknown things."""
    serving = scenario.serving
    if serving.pools and serving.replicas != 1:
        message = "`replicas` counts equal replicas, and `pools` lists their own"
        raise InputError(Problem(message, path="serving.replicas", hint="write `replicas` into each pool"))
    _check_apart(serving)
    shared = _free(scenario.cluster, devices)
    systems = []
    for pool in serving.all_pools:
        cluster, kind = serving.home(pool, scenario.cluster)
        free = shared if cluster is scenario.cluster else _free(cluster)
        systems.append(_system(scenario, pool, cluster, kind, free[kind]))
    return tuple(systems)


def _free(cluster: Cluster, devices: Sequence[int] | None = None) -> tuple[FreeDevices, ...]:
    """Free devices of each kind of nodes."""
    kinds = range(cluster.numbering.kinds)
    return tuple(FreeDevices.of(cluster.numbering, kind, devices) for kind in kinds)


def _system(scenario: ServingScenario, pool: Pool, cluster: Cluster, part: int, free: FreeDevices) -> System:
    if pool.model is not None:
        scenario = scenario.model_copy(update={"model": pool.model})
    serving, stack = scenario.serving, scenario.stack
    batching, cache = pool.batching or serving.batching, pool.kv_cache or serving.kv_cache
    stack = _at_once(stack, batching.decode_steps)
    layout = pool.parallel or serving.parallel
    ranks = pool.replicas * layout.ranks
    layout = layout if scenario.model.experts is not None else layout.of_dense()
    policy, batched = encoders.policy_of(scenario, layout, batching, cache)
    kind = POLICIES.get(policy, "serving.batching.policy")
    context = encoders.longest(scenario.model, serving.context)
    speculation = _speculation(pool.speculation or serving.speculation, scenario.model)
    rules = _rules(batching, stack, context, kind, speculation)
    caching, reads_once = _prefixes(cache, stack, scenario.model)
    where = "serving.kv_cache" if pool.kv_cache is None else f"serving.pools.{serving.pools.index(pool)}.kv_cache"
    tiers.check(cache, caching, where, cluster.partitions[part].node, ranks, layout.devices)
    adapters.check(serving, layout, cluster.partitions[part].node)
    weights = _streamed(serving, cache, layout, batching)
    _check_remote(serving, cache, reads_once)
    finetuning.check(scenario, layout, batching, kind)
    in_step = layout.sharers > 1 and layout.pp == 1 and batching.instances == 1
    if batching.padded and layout.sharers > 1:
        message = "prompts that are filled up, of replicas that share experts, are not simulated"
        raise InputError(Problem(message, path="serving.batching.padded", hint="leave it out, or write `ep: 1`"))

    first = cluster.numbering.first_device[part]
    usual = placements(range(first, first + min(layout.devices * layout.sharers, cluster.devices)), layout.devices)[0]

    def compiled(place: ReplicaPlacement) -> ReplicaCost:
        given = scenario.model, layout, pool.precision or serving.precision, stack, cluster, context, cache
        beside, traffic = pool.overlap or serving.overlap, pool.experts or serving.experts
        sizes = rules.token_budget, rules.max_sequences
        every, own = serving.stream_interval, serving.adapters
        apart, tuned = (serving.expert_loads or weights, serving.remote_attention), serving.finetuning
        return compile_costs(*given, *sizes, place, in_step, beside, speculation, traffic, every, own, *apart, tuned)

    cost = _set_aside(compiled(usual), cache)
    if ranks % layout.sharers:
        message = f"{ranks} replicas cannot share experts in groups of {layout.sharers}"
        hint = f"write a divisor of the replicas, or `replicas: {layout.sharers}`: each is one of those that share"
        raise InputError(Problem(message, path="serving.parallel.ep", hint=hint))
    place = (
        f"pool `{pool.name}`: " if serving.pools else "",
        cluster.partitions[part].name if cluster.more_nodes else "",
    )
    taken = _placed(ranks, layout, free, *place)
    warnings, assumptions = notes(taken, shape(layout, stack)[0], cluster.numbering)
    if layout.sharers > 1 and not in_step:
        warnings += (
            "replicas of several batches that share experts are not in step here, each priced as if all had its rows",
        )
    if batching.chunked_pipeline and (layout.pp == 1 or not kind.chunked):
        why = "one stage" if layout.pp == 1 else f"the policy `{policy}`, which cuts no prompts"
        warnings += (f"`batching.chunked_pipeline` has no effect with {why}",)
    cost = replace(cost, warnings=cost.warnings + warnings, assumptions=cost.assumptions + batched + assumptions)
    token = cost.kv_replica_bytes
    return System(
        name=pool.name,
        role=pool.role,
        replicas=ranks,
        cluster=cluster,
        node=cluster.partitions[part].node,
        policy=policy,
        rules=rules,
        cost=cost,
        prefix_caching=caching,
        reads_once=reads_once,
        context=context,
        instances=batching.instances,
        peers=layout.sharers if in_step else 1,
        watermark=round(cost.blocks * cache.watermark),
        swap_tokens=int(cache.host_memory / token) if cache.preemption == "swap" else 0,
        placements=taken,
        streams=batching.chunked_pipeline,
        kv_cache=cache,
        weights=weights,
        model=scenario.model,
        elsewhere=_elsewhere(taken, usual, layout, stack, cluster, compiled),
    )


def _prefixes(cache: KvCache, stack: ServingStack, model: Model) -> tuple[str, bool]:
    """Which prefixes are kept, and whether decodes read them once; none of models with layers that have a state."""
    if model.encoder_layers is not None:
        return "none", False
    if any(kind.stateful for kind in model.kinds):
        if (cache.prefix_caching or "none") != "none":
            message = f"{model.name} has layers with a state, and states at the ends of prefixes are not kept"
            raise InputError(Problem(message, path="serving.kv_cache.prefix_caching", hint="write `none`"))
        if cache.chunks is not None:
            message = f"{model.name} has layers with a state, which no chunk has apart from what is before it"
            raise InputError(Problem(message, path="serving.kv_cache.chunks", hint="leave it out"))
        return "none", False
    if cache.chunks is not None:
        return "none", False
    caching, once = cache.prefix_caching or stack.prefix_caching, (cache.prefix_reads or stack.prefix_reads) == "once"
    if once and caching == "none":
        message = "prefixes cannot be read once where nothing is shared"
        raise InputError(Problem(message, path="serving.kv_cache.prefix_reads", hint="write `prefix_caching: block`"))
    return caching, once


def _set_aside(cost: ReplicaCost, cache: KvCache) -> ReplicaCost:
    """Costs of a replica whose cache has no blocks for what its chunks take."""
    if cache.chunks is None:
        return cost
    aside = ceil(cache.chunks.capacity / (cost.kv_replica_bytes * cost.block_size))
    return replace(cost, blocks=max(cost.blocks - aside, 0))


def _speculation(spec: Speculation | None, model: Model) -> Speculation | None:
    """What is drafted; None where nothing is."""
    if spec is None or not spec.longest:
        return None
    if any(kind.stateful for kind in model.kinds):
        message = f"{model.name} has layers with a state, which would have to be taken back with rejected tokens"
        raise InputError(Problem(message, path="serving.speculation", hint="leave it out"))
    return spec


def _rules(
    batching: Batching, stack: ServingStack, context: int, policy: type[Policy], speculation: Speculation | None
) -> Rules:
    """The numbers of the policy."""
    budget = batching.token_budget or (max(stack.token_budget, context) if policy.spans else stack.token_budget)
    most = batching.max_sequences or stack.max_sequences
    each = 1 if speculation is None else speculation.rows(most)
    if budget < most * each and policy.chunked:
        drafts = f" with {each} rows each" if each > 1 else ""
        message = f"a budget of {budget} tokens has no room for {most} sequences that decode{drafts}"
        hint = f"write {most * each} or more, or cut `max_sequences`"
        raise InputError(Problem(message, path="serving.batching.token_budget", hint=hint))
    ageing = None if batching.ageing is None else to_ticks(batching.ageing)
    waits = batching.wait_iterations, batching.wait_share, batching.balance_iterations, batching.balance_wait
    looks = max(batching.poll_interval, batching.decode_steps)
    return Rules(budget, most, batching.tile, ageing, looks, *waits, batching.padded)


def _at_once(stack: ServingStack, steps: int) -> ServingStack:
    """The stack where the host schedules so many iterations at once; what it does with each token of each sequence it
    does as before."""
    once = stack.iteration_overhead.model_copy(update={"value": stack.iteration_overhead.value / steps})
    return stack if steps == 1 else stack.model_copy(update={"iteration_overhead": once})


def _placed(ranks: int, layout: Layout, free: FreeDevices, pool: str, partition: str) -> tuple[ReplicaPlacement, ...]:
    """Where the attention ranks of a pool lie; InputError where its nodes, a `partition` of several, are full."""
    wanted = ranks * layout.devices
    if wanted > free.count:
        before = free.all - free.count
        where = f"the nodes `{partition}` have" if partition else "the cluster has"
        hint = "name others by `partition`, raise their number" if partition else "raise `cluster.nodes`"
        more = f", {before} of them those of pools before it" if pool and before else ""
        message = f"{pool}the replicas take {before + wanted} devices{more}, {where} {free.all}"
        raise InputError(Problem(message, path="serving", hint=f"{hint}, or cut replicas or layout"))
    groups = [free.take(layout.sharers * layout.devices) for _ in range(ranks // layout.sharers)]
    return tuple(place for ranks in groups for place in placements(ranks, layout.devices))


def _elsewhere(
    taken: tuple[ReplicaPlacement, ...],
    usual_place: ReplicaPlacement,
    layout: Layout,
    stack: ServingStack,
    cluster: Cluster,
    compiled: Callable[[ReplicaPlacement], ReplicaCost],
) -> dict[int, tuple[StageCost, ...]]:
    """Costs of the replicas whose groups take another time than those of `usual_place`."""
    usual = probe_seconds(layout, stack, cluster, usual_place)
    known: dict[tuple[float, ...], tuple[StageCost, ...]] = {}
    probed: dict[tuple[object, ...], tuple[float, ...]] = {}
    found = {}
    for number, lying in enumerate(taken if usual else ()):
        place = lying.in_first_node(cluster.numbering)
        groups = place if layout.devices > 1 else place.peers  # ranks of one device have no groups of their own
        if groups not in probed:
            probed[groups] = probe_seconds(layout, stack, cluster, place)
        if (asked := probed[groups]) != usual:
            if asked not in known:
                known[asked] = compiled(lying).stages
            found[number] = known[asked]
    return found


def _streamed(serving: Serving, cache: KvCache, layout: Layout, batching: Batching) -> StreamedWeights | None:
    """Weights that are loaded in every iteration, with the bandwidth of their drives; InputError for what cannot stand
    beside them."""
    _check_expert_loads(serving, cache, layout, batching)
    spec = serving.weights
    if spec is None:
        return None
    if layout.sharers > 1:
        message = "weights of replicas that share experts stay on the devices here"
        raise InputError(Problem(message, path="serving.weights", hint="write `ep: 1`, or leave `weights` out"))
    beside = {
        "tiers of the cache": bool(cache.tiers),
        "sequences that are swapped": cache.preemption == "swap",
        "adapters": serving.adapters is not None,
    }
    turns = layout.pp > 1 or batching.instances > 1
    for what in (what for what, there in beside.items() if there and turns):
        message = f"weights of stages or batches that take turns, and {what} on the same links, are not simulated"
        hint = "leave one of them out, or write `pp: 1` and `instances: 1`"
        raise InputError(Problem(message, path="serving.weights", hint=hint))
    return spec if spec.drives is None else _on_drives(spec, spec.drives, cache)


def _on_drives(spec: StreamedWeights, name: str, cache: KvCache) -> StreamedWeights:
    """Weights on the drives of a tier; InputError where there is no such tier."""
    known = {tier.name: tier for tier in cache.tiers if tier.way == "disk"}
    if name not in known:
        listed = ", ".join(f"`{each}`" for each in known) or "none"
        message = f"no tier of the path `disk` is called `{name}`; there is {listed}"
        raise InputError(Problem(message, path="serving.weights.drives", hint="write `bandwidth` in its place"))
    return spec.model_copy(update={"bandwidth": known[name].bandwidth})


def _check_expert_loads(serving: Serving, cache: KvCache, layout: Layout, batching: Batching) -> None:
    """InputError for what cannot stand beside experts that are loaded when rows ask for them."""
    beside = {
        "layers that are loaded whole (`weights`)": serving.weights is not None,
        "replicas that share experts": layout.sharers > 1,
        "stages that take turns (`pp`)": layout.pp > 1,
        "batches that take turns (`instances`)": batching.instances > 1,
        "tiers of the cache": bool(cache.tiers),
        "sequences that are swapped": cache.preemption == "swap",
        "adapters": serving.adapters is not None,
        "attention on other devices": serving.remote_attention is not None,
    }
    for what in (what for what, there in beside.items() if there and serving.expert_loads is not None):
        message = f"experts that are loaded when rows ask for them, beside {what}, are not simulated"
        raise InputError(Problem(message, path="serving.expert_loads", hint="leave one of them out"))


def _check_remote(serving: Serving, cache: KvCache, reads_once: bool) -> None:
    """InputError for what cannot stand beside attention on other devices."""
    beside = {
        "tiers of the cache": bool(cache.tiers),
        "sequences that are swapped": cache.preemption == "swap",
        "prefixes that are read once": reads_once,
        "adapters in blocks of the cache": serving.adapters is not None and serving.adapters.slots is None,
        "pools": bool(serving.pools),
    }
    for what in (what for what, there in beside.items() if there and serving.remote_attention is not None):
        message = f"keys and values lie on other devices, and {what} are not simulated with them"
        raise InputError(Problem(message, path="serving.remote_attention", hint="leave one of them out"))


def _check_apart(serving: Serving) -> None:
    """Prefill and decode pools must share a network."""
    apart = [pool.name for pool in serving.pools if pool.cluster is not None]
    if apart and any(pool.role == "prefill" for pool in serving.pools):
        message = f"pool `{apart[0]}` has a cluster of its own, and no network joins it to the others"
        hint = "list its nodes under `cluster.more_nodes`, and their name as `partition` of the pool"
        raise InputError(Problem(message, path="serving.pools", hint=hint))
