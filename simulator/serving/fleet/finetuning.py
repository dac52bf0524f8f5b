"""Training of an adapter on replicas that serve: which systems can have it, and what came of it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from simulator import units
from simulator.errors import InputError, Problem
from simulator.results.serving.finetuning import FinetuningUse
from simulator.serving.policies import Policy
from simulator.serving.replica.finetuning import FinetuningTokens
from simulator.serving.replica.replica import Replica
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Batching, Layout, Overlap

if TYPE_CHECKING:
    from simulator.serving.fleet.system import System

PATH = "serving.finetuning"


def check(scenario: ServingScenario, layout: Layout, batching: Batching, policy: type[Policy]) -> None:
    """InputError for systems that cannot train an adapter beside serving."""
    serving = scenario.serving
    if serving.finetuning is None:
        return
    if target(scenario) is None:
        message = "iterations may last as long as training and serving like, with no objective that ends them"
        raise InputError(Problem(message, path=PATH, hint="write `iteration: 50 ms`, or `slo: {tpot: 50 ms}`"))
    beside = {
        "stages that take turns (`pp`)": layout.pp > 1,
        "batches that take turns (`instances`)": batching.instances > 1,
        "replicas that share experts": layout.sharers > 1,
        "mixtures of experts": scenario.model.experts is not None,
        "models whose layers have a state": any(kind.stateful for kind in scenario.model.kinds),
        "prefill and decode pools": any(pool.role != "both" for pool in serving.pools),
        "replicas that come, go and fail": serving.fleet is not None and serving.fleet.changes,
        "weights that are loaded in every iteration": serving.weights is not None,
        "attention on other devices": serving.remote_attention is not None,
        "operations of an iteration beside each other (`overlap`)": serving.overlap != Overlap(),
        "batches whose members leave together": policy.static_batch,
    }
    for what in (what for what, there in beside.items() if there):
        message = f"training of an adapter beside {what} is not simulated"
        raise InputError(Problem(message, path=PATH, hint="leave one of them out"))


def target(scenario: ServingScenario) -> float | None:
    """Seconds that an iteration may last for the sake of training."""
    rule = scenario.serving.finetuning
    assert rule is not None
    return rule.iteration or (None if scenario.slo is None else scenario.slo.tpot)


def attach(
    scenario: ServingScenario, replica: Replica, system: "System", begin: int, wanted: Callable[[], bool]
) -> None:
    """Let a replica train from tick `begin` on, while `wanted` says so."""
    rule, own, lasts = scenario.serving.finetuning, system.cost.finetuning, target(scenario)
    assert rule is not None and own is not None and lasts is not None
    replica.finetuning = FinetuningTokens(replica.stages.costs[0], own, rule, lasts, wanted)
    replica.fast_forwards = False  # each iteration has tokens of its own
    replica.agenda.at(begin, lambda _: replica.wake())


def used(replicas: Sequence[Replica], begin: int) -> FinetuningUse | None:
    """What all replicas trained from tick `begin` on; None where they do not."""
    counts = [replica.finetuning.counts for replica in replicas if replica.finetuning is not None]
    if not counts:
        return None
    return FinetuningUse(
        forward_tokens=sum(one.forward for one in counts),
        tokens=sum(one.backward for one in counts),
        sequences=sum(one.sequences for one in counts),
        updates=sum(one.updates for one in counts),
        iterations_alone=sum(one.alone for one in counts),
        working=units.to_seconds(sum(one.ticks for one in counts)),
        duration=units.to_seconds(max(*(one.end for one in counts), begin) - begin),
    )
