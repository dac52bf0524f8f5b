"""What a slightly better machine would give: one figure of the specs changed at a time, the step simulated again.

A sensitivity is the re-run itself and no derivative: what the change moves from one roof to another, or from the
critical path into its shadow, is in it. Rates get 10 % higher and latencies 10 % lower.

* The FLOP rate is the peak of every number format. The kernel profile's efficiencies are relative to it, and so is the
  speed at which operands arrive from cache.
* A network card's bandwidth carries the trunks of a tree above it along, whose capacity is stated relative to cards;
  the global links of a dragonfly stay as they are. A torus has no cards: there the links of the devices change.
* The host's link counts where activations are offloaded over it.
* The latency is that of every hop, inside nodes and between them: the library's steps (software and synchronisation,
  which are most of it) and the wire. What a collective takes once, its launch, stays.
* One card more in a node of several devices would serve only some of them, and collectives go at the pace of the
  slowest: the smallest number of cards is added that gives every device an equal and larger share. The trunks of a tree
  grow along.

Left out: price and power of the better part.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from simulator.results.result import Sensitivity
from simulator.run.simulate import Fold, run
from simulator.specs import load_spec
from simulator.specs.base import Figure, Spec
from simulator.specs.hardware import Accelerator, Cluster, Nics
from simulator.specs.libraries.collectives import CollectiveProfile, Protocol, Scope, Scopes
from simulator.specs.scenario import Scenario

BETTER = 0.1
"""Relative change of each figure."""

S = TypeVar("S", bound=Spec)
P = TypeVar("P", bound=Scopes)


class Change(NamedTuple):
    """A better machine."""

    name: str
    """What is better, for example `nic_bandwidth`."""
    change: str
    """By how much, for people."""
    scenario: Scenario
    """The scenario on that machine."""
    profile: CollectiveProfile
    """How its collectives run."""


def sensitivities(
    scenario: Scenario, *, fold: Fold | None = None, progress: Callable[[int], None] | None = None
) -> tuple[Sensitivity, ...]:
    """The gain of each change that the machine allows, in a fixed order.

    `fold` overrides the scenario's, as in `simulate`. Re-runs take the max-plus sweep where the job shares nothing.
    Raises InputError for what cannot be simulated.
    """
    options: dict[str, Any] = {"fold": fold, "progress": progress}
    unchanged = run(scenario, **options).steps
    found = []
    for name, change, better, profile in changes(scenario):
        step = run(better, profile=profile, **options).steps
        found.append(Sensitivity(name, change, step.mean_s, 1 - step.total / unchanged.total))
    return tuple(found)


def changes(scenario: Scenario) -> Iterator[Change]:
    """The better machines, each in one way."""
    cluster = scenario.cluster
    profile = load_spec(CollectiveProfile, cluster.collectives)
    for name, change, better in _machines(cluster):
        yield Change(name, change, scenario.model_copy(update={"cluster": better}), profile)
    if scenario.training.offload_layers:
        linked = _with_node(cluster, accelerator=_scaled(cluster.node.accelerator, "host_link", 1 + BETTER))
        yield Change("host_link", _percent(BETTER), scenario.model_copy(update={"cluster": linked}), profile)
    if cluster.devices > 1:
        quicker = scenario.model_copy(update={"cluster": _lower_latency(cluster)})
        yield Change("latency", _percent(-BETTER), quicker, _quicker_steps(profile))


def _machines(cluster: Cluster) -> Iterator[tuple[str, str, Cluster]]:
    """(name, change, cluster) of what is a matter of the cluster alone."""
    more, node = _percent(BETTER), cluster.node
    yield "flop_rate", more, _with_node(cluster, accelerator=_faster_compute(node.accelerator))
    memory = _scaled(node.accelerator.memory, "bandwidth", 1 + BETTER)
    yield "hbm_bandwidth", more, _with_node(cluster, accelerator=_with(node.accelerator, memory=memory))
    if node.devices > 1 and node.scale_up.bandwidth is not None:
        yield "scale_up_bandwidth", more, _with_node(cluster, scale_up=_scaled(node.scale_up, "bandwidth", 1 + BETTER))
    if cluster.network.kind == "torus":
        network = _scaled(cluster.network, "bandwidth", 1 + BETTER)
        yield "torus_bandwidth", more, _with(cluster, network=network)
    elif node.nics is not None and cluster.nodes > 1:
        yield "nic_bandwidth", more, _with_node(cluster, nics=_scaled(node.nics, "bandwidth", 1 + BETTER))
        cards = more_cards(node.nics.count, node.devices)
        yield "nics", f"{node.nics.count} to {cards} per node", _with_node(cluster, nics=_with(node.nics, count=cards))


def more_cards(cards: int, devices: int) -> int:
    """The smallest number of cards over `cards` of which every one of the node's devices has an equal share.

    Fewer cards than devices are shared by equally many devices each; of more, each device has equally many.
    """
    if cards >= devices:
        return (cards // devices + 1) * devices
    return next(count for count in range(cards + 1, devices + 1) if devices % count == 0)


def _lower_latency(cluster: Cluster) -> Cluster:
    """The cluster with every wire and switch quicker."""
    node, network, factor = cluster.node, cluster.network, 1 - BETTER
    levels = tuple(_scaled(level, "latency", factor) for level in network.levels)
    network = _with(_scaled(network, "latency", factor), levels=levels)
    nics: Nics | None = _scaled(node.nics, "latency", factor) if node.nics is not None else None
    return _with(_with_node(cluster, scale_up=_scaled(node.scale_up, "latency", factor), nics=nics), network=network)


def _quicker_steps(profile: CollectiveProfile) -> CollectiveProfile:
    """The profile with quicker steps, and the wire that they include as much quicker."""

    def scope(old: Scope) -> Scope:
        return _scaled(old, "latency", 1 - BETTER)

    def scopes(old: P) -> P:
        return _with(old, scale_up=scope(old.scale_up), scale_out=scope(old.scale_out))

    def protocol(old: Protocol) -> Protocol:
        return _with(scopes(old), trees=None if old.trees is None else scopes(old.trees))

    wire = _scaled(_scaled(profile.wire, "scale_up", 1 - BETTER), "scale_out", 1 - BETTER)
    return _with(profile, wire=wire, protocols={name: protocol(old) for name, old in profile.protocols.items()})


def _faster_compute(accelerator: Accelerator) -> Accelerator:
    """The accelerator with every peak higher; its kernels stay as far below it as they were."""
    peaks = {dtype: _times(figure, 1 + BETTER) for dtype, figure in accelerator.peak.items()}
    return _with(accelerator, peak=peaks)


def _with(spec: S, **changed: Any) -> S:
    """The spec with some fields changed."""
    return spec.model_copy(update=changed)


def _with_node(cluster: Cluster, **changed: Any) -> Cluster:
    """The cluster with fields of its nodes changed."""
    return _with(cluster, node=_with(cluster.node, **changed))


def _scaled(spec: S, field: str, factor: float) -> S:
    """The spec with one figure `factor` times as large; as it is where it does not state it."""
    figure = getattr(spec, field)
    return spec if figure is None else _with(spec, **{field: _times(figure, factor)})


def _times(figure: Figure[float], factor: float) -> Figure[float]:
    """A figure `factor` times as large."""
    source = f"{_percent(factor - 1)}: {figure.source}"
    return figure.model_copy(update={"value": figure.value * factor, "status": "estimate", "source": source})


def _percent(share: float) -> str:
    """A change for people."""
    return f"{100 * share:+.0f} %"
