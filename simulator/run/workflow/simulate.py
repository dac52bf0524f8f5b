"""A workflow from its description to what happened: stages priced on their devices, then played on their pools."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from statistics import median

import simulator
from simulator import fabric, units
from simulator.results.documents.workflow import PoolUse, StageRun, WorkflowDocument, WorkflowStage
from simulator.results.ground import weakest_of
from simulator.run.workflow import order
from simulator.run.workflow.play import Played, Step, critical, play
from simulator.run.workflow.pools import Devices, devices_of
from simulator.run.workflow.priced import Priced, Pricer
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec, scenario_hash
from simulator.specs.workflow import TimedStage, Workflow


def simulate_workflow(workflow: Workflow) -> WorkflowDocument:
    """Simulate a workflow; a stage that does not fit makes it infeasible. InputError for what cannot be simulated."""
    order.check(workflow)
    pools = devices_of(workflow)
    profile = load_spec(CollectiveProfile, workflow.cluster.collectives)
    priced = Pricer(workflow, pools, fabric.build(workflow.cluster), profile).all()
    steps = [
        Step(stage.name, stage.pools, tuple((wait.stage, wait.lag) for wait in stage.waits))
        for stage in workflow.stages
    ]
    runs = play(steps, workflow.iterations, lambda name, iteration: priced[name].ticks(iteration))
    return _document(workflow, pools, priced, runs)


def _document(
    workflow: Workflow, pools: Mapping[str, Devices], priced: Mapping[str, Priced], runs: Sequence[Played]
) -> WorkflowDocument:
    chain = critical(runs)
    hung = {(run.stage, run.iteration) for run in chain}
    makespan = max(run.end for run in runs)
    use = tuple(_use(name, devices, priced, runs, makespan) for name, devices in pools.items())
    results = [one.result for one in priced.values() if one.result is not None]
    return WorkflowDocument(
        version=simulator.__version__,
        name=workflow.name,
        description=workflow.description,
        device=workflow.cluster.node.accelerator.name,
        feasible=all(one.feasible for one in priced.values()),
        metrics=_metrics(workflow, priced, runs, use),
        pools=use,
        stages=tuple(_stage(one, runs, chain, makespan) for one in priced.values()),
        runs=tuple(_run(run, (run.stage, run.iteration) in hung) for run in runs),
        warnings=(*_memory(workflow, priced), *_said(priced, "warnings")),
        assumptions=(*_filled(priced), *_said(priced, "assumptions")),
        ground=(weakest_of([result.ground for result in results]).sentence,) if results else (),
        provenance={"seed": workflow.seed, "workflow": scenario_hash(workflow)},
    )


def _run(run: Played, hung: bool) -> StageRun:
    ready, begin, end = (units.to_seconds(tick) for tick in (run.ready, run.begin, run.end))
    return StageRun(run.stage, run.iteration, ready, begin, end, hung)


def _stage(one: Priced, runs: Sequence[Played], chain: Sequence[Played], makespan: int) -> WorkflowStage:
    own = [run for run in runs if run.stage == one.stage.name]
    mean = sum(run.end - run.begin for run in own) / len(own)
    waited = sum(run.begin - run.ready for run in own) / len(own)
    hung = sum(run.end - run.begin for run in chain if run.stage == one.stage.name)
    return WorkflowStage(
        name=one.stage.name,
        does=one.does,
        pools=one.stage.pools,
        devices=len(one.devices),
        seconds=mean / units.TICKS_PER_SECOND,
        waits_s=waited / units.TICKS_PER_SECOND,
        critical=hung / makespan if makespan else 0.0,
        about=_about(one),
        metrics={name: value for name, value in one.metrics.items() if isfinite(value)},
        feasible=one.feasible,
        why=one.why,
    )


def _about(one: Priced) -> str:
    stage = one.stage
    if one.does in ("trains", "generates"):
        return f"{stage.model.name} · {stage.stack.name}"  # type: ignore[union-attr]
    if one.does == "hands over":
        return f"{stage.hands_over.of} to {stage.hands_over.to}, {stage.hands_over.way}"  # type: ignore[union-attr]
    assert isinstance(stage, TimedStage)
    said = [f"{stage.items:,} items, {stage.servers:,} at a time"]
    said += [f"over with {stage.needed:,}"] * (stage.needed < stage.items)
    said += [f"{stage.dropped:,} drop out"] * (stage.dropped > 0)
    said += [f"times vary by {100 * stage.varies:.3g} %"] * (stage.varies > 0)
    return ", ".join(said)


def _use(name: str, devices: Devices, priced: Mapping[str, Priced], runs: Sequence[Played], makespan: int) -> PoolUse:
    busy = sum(run.end - run.begin for run in runs if name in priced[run.stage].stage.pools)
    return PoolUse(name, len(devices), devices[0], busy / makespan if makespan else 0.0)


def _metrics(
    workflow: Workflow, priced: Mapping[str, Priced], runs: Sequence[Played], use: Sequence[PoolUse]
) -> dict[str, float]:
    """Figures of the whole, then those of stages."""
    ends = [max(run.end for run in runs if run.iteration == i) for i in range(workflow.iterations)]
    between = median(b - a for a, b in pairwise(ends)) if len(ends) > 1 else ends[0]
    devices = sum(pool.devices for pool in use)
    idle = 1 - sum(pool.busy * pool.devices for pool in use) / devices if devices else float("nan")
    found = {
        "makespan_s": units.to_seconds(max(ends)),
        "iteration_s": between / units.TICKS_PER_SECOND,
        "idle_fraction": idle,
    }
    for name, one in priced.items():
        own = [run for run in runs if run.stage == name]
        found[f"{name}: stage_s"] = sum(run.end - run.begin for run in own) / len(own) / units.TICKS_PER_SECOND
        found |= {f"{name}: {key}": value for key, value in _rolled(one, workflow.iterations).items()}
        found |= {f"{name}: {key}": value for key, value in one.metrics.items()}
    return {name: value for name, value in found.items() if isfinite(value)}


def _rolled(one: Priced, iterations: int) -> dict[str, float]:
    """Requests and tokens of all rollouts of a stage, whole ones and those that were stopped."""
    if one.rollouts is None or not one.feasible:
        return {}
    each = [one.rollouts.of(i) for i in range(iterations)]
    if all(rollout.tokens == rollout.finished for rollout in each):  # it reads only
        return {}
    sums = {
        "rollouts": sum(rollout.finished for rollout in each),
        "rollout_tokens": sum(rollout.tokens for rollout in each),
        "carried": each[-1].carried,
        "reread_tokens": sum(rollout.reread for rollout in each),
    }
    return {name: float(value) for name, value in sums.items()}


def _memory(workflow: Workflow, priced: Mapping[str, Priced]) -> Iterator[str]:
    """Stages on the same devices that do not fit beside each other, so that one has to leave memory meanwhile."""
    capacity = workflow.cluster.node.accelerator.memory.capacity.value
    for pool in workflow.pools:
        here = [one for one in priced.values() if pool in one.stage.pools and one.of_device and one.feasible]
        total = sum(one.of_device for one in here)
        if len(here) > 1 and total > capacity:
            names = ", ".join(f"{one.stage.name} {one.of_device / 1e9:.0f} GB" for one in here)
            yield (
                f"pool {pool}: {names} do not fit beside each other into {capacity / 1e9:.0f} GB; what each keeps has "
                "to leave the devices between stages, which takes no time here"
            )


def _filled(priced: Mapping[str, Priced]) -> Iterator[str]:
    for name, one in priced.items():
        if one.does == "hands over":
            yield f"{name}: every layer counts alike; converting and packing weights takes no time"


def _said(priced: Mapping[str, Priced], kind: str) -> Iterator[str]:
    """Each text once, with the stages that say it."""
    said: dict[str, list[str]] = {}
    for name, one in priced.items():
        for text in getattr(one.result, kind) if one.result is not None else ():
            said.setdefault(text, []).append(name)
    return (f"{', '.join(names)}: {text}" for text, names in said.items())
