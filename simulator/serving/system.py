"""A serving scenario as replicas on devices: pools resolved, priced and placed."""

from dataclasses import dataclass, replace

from simulator.errors import InputError, Problem
from simulator.serving.policies import POLICIES, Policy, Rules
from simulator.serving.prices import ReplicaPrice, compile_prices
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Batching, KvCache, Layout, NumberFormats, Pool, ServingStack
from simulator.units import to_ticks

LONGEST = 131_072
"""Tokens of the longest sequence where neither scenario nor model says."""


@dataclass(frozen=True, slots=True)
class System:
    """A pool with nothing left open, and what its replicas cost."""

    name: str
    role: str
    replicas: int
    cluster: Cluster
    policy: str
    rules: Rules
    price: ReplicaPrice
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
    """Replicas that share experts and run in step; 1: each on its own."""
    first_device: int
    """Of its first replica; the others follow."""

    def make_policy(self) -> Policy:
        """A policy of its own for each replica."""
        return POLICIES.get(self.policy)(self.rules)

    def devices(self, replica: int) -> tuple[int, ...]:
        """Devices of one of its replicas."""
        first = self.first_device + replica * self.price.devices
        return tuple(range(first, first + self.price.devices))


def resolve(scenario: ServingScenario) -> tuple[System, ...]:
    """The pools of a scenario; InputError where they do not fit onto its machines or name unknown things."""
    serving = scenario.serving
    pools = serving.pools or (Pool(name="replica", replicas=serving.replicas),)
    if serving.pools and serving.replicas != 1:
        message = "`replicas` counts equal replicas, and `pools` lists their own"
        raise InputError(Problem(message, path="serving.replicas", hint="write `replicas` into each pool"))
    taken: dict[str, int] = {}
    systems = []
    for pool in pools:
        cluster = pool.cluster or scenario.cluster
        place = "shared" if pool.cluster is None else pool.name
        system = _system(scenario, pool, cluster, taken.get(place, 0))
        taken[place] = taken.get(place, 0) + system.replicas * system.price.devices
        _check_devices(taken[place], cluster)
        systems.append(system)
    _check_apart(scenario, systems)
    return tuple(systems)


def _system(scenario: ServingScenario, pool: Pool, cluster: Cluster, first: int) -> System:
    serving, stack = scenario.serving, scenario.stack
    batching, cache = pool.batching or serving.batching, pool.kv_cache or serving.kv_cache
    layout = pool.parallel or serving.parallel
    policy = batching.policy or stack.policy
    kind = POLICIES.get(policy, "serving.batching.policy")
    context = serving.context or scenario.model.max_sequence or LONGEST
    rules = _rules(batching, stack, context, kind)
    caching, reads_once = _prefixes(cache, stack)
    price = _priced(scenario.model, layout, serving.precision, stack, cluster, context, cache, rules)
    if pool.replicas % layout.ep:
        message = f"{pool.replicas} replicas cannot share experts in groups of {layout.ep}"
        raise InputError(Problem(message, path="serving.parallel.ep", hint="write a divisor of the replicas"))
    in_step = layout.pp == 1 and batching.instances == 1
    if layout.ep > 1 and not in_step:
        note = "replicas of several batches that share experts run on their own here, not in step: too fast"
        price = replace(price, warnings=(*price.warnings, note))
    token = price.kv_replica_bytes
    return System(
        name=pool.name,
        role=pool.role,
        replicas=pool.replicas,
        cluster=cluster,
        policy=policy,
        rules=rules,
        price=price,
        prefix_caching=caching,
        reads_once=reads_once,
        context=context,
        instances=batching.instances,
        peers=layout.ep if in_step else 1,
        watermark=round(price.blocks * cache.watermark),
        swap_tokens=int(cache.host_memory / token) if cache.preemption == "swap" else 0,
        first_device=first,
    )


def _prefixes(cache: KvCache, stack: ServingStack) -> tuple[str, bool]:
    """Which prefixes are kept, and whether decodes read them once."""
    caching, once = cache.prefix_caching or stack.prefix_caching, (cache.prefix_reads or stack.prefix_reads) == "once"
    if once and caching == "none":
        message = "prefixes cannot be read once where nothing is shared"
        raise InputError(Problem(message, path="serving.kv_cache.prefix_reads", hint="write `prefix_caching: block`"))
    return caching, once


def _rules(batching: Batching, stack: ServingStack, context: int, policy: type[Policy]) -> Rules:
    """The numbers of the policy."""
    budget = batching.token_budget or (max(stack.token_budget, context) if policy.spans else stack.token_budget)
    most = batching.max_sequences or stack.max_sequences
    if budget < most and policy.chunked:
        message = f"a budget of {budget} tokens has no room for {most} sequences that decode"
        raise InputError(
            Problem(message, path="serving.batching.token_budget", hint=f"write {most} or more, or cut `max_sequences`")
        )
    return Rules(budget, most, batching.tile, None if batching.ageing is None else to_ticks(batching.ageing))


def _priced(
    model: Model,
    layout: Layout,
    formats: NumberFormats,
    stack: ServingStack,
    cluster: Cluster,
    context: int,
    cache: KvCache,
    rules: Rules,
) -> ReplicaPrice:
    return compile_prices(
        model, layout, formats, stack, cluster, context, cache, rules.token_budget, rules.max_sequences
    )


def _check_devices(taken: int, cluster: Cluster) -> None:
    if taken > cluster.devices:
        message = f"the replicas take {taken} devices, the cluster has {cluster.devices}"
        raise InputError(Problem(message, path="serving", hint="raise `cluster.nodes`, or cut replicas or layout"))


def _check_apart(scenario: ServingScenario, systems: list[System]) -> None:
    """Prefill and decode pools must share a network."""
    if any(system.role == "prefill" for system in systems):
        apart = [pool.name for pool in scenario.serving.pools if pool.cluster is not None]
        if apart:
            message = f"pool `{apart[0]}` has a cluster of its own, and no network joins it to the others"
            raise InputError(Problem(message, path="serving.pools", hint="put prefill and decode pools on one cluster"))
