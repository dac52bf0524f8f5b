"""Answers about layouts as documents: what `clustersim plan --json` writes and what the pages read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import simulator
from simulator.results.documents.layouts import LayoutCounts, LayoutsDocument, LeastNeeded, RankedLayout
from simulator.results.documents.plan import PlannedSystem, PlanProvenance
from simulator.results.ground import stated
from simulator.results.infeasibility import undecided
from simulator.run.kinds import TRAINING
from simulator.run.spread.grounded import grounded
from simulator.specs.grid import Grid
from simulator.specs.resolve import scenario_hash
from simulator.specs.scenario import Scenario
from simulator.study.layouts.answer import Answer, Leader, Least
from simulator.study.layouts.goal import DAY_S, Goal
from simulator.study.layouts.machines import Machine
from simulator.study.layouts.space import Space
from simulator.study.layouts.tally import Counts
from simulator.study.layouts.why import Held, held, ruled_out, why

KWH = 3.6e6


@dataclass(frozen=True)
class Asked:
    """The question, for its page."""

    goal: Goal
    spaces: Sequence[tuple[Machine, Space]]
    grid: tuple[str, Grid] | None = None


def document(asked: Asked, answer: Answer) -> LayoutsDocument:
    """What was found."""
    goal, (machine, space) = asked.goal, asked.spaces[0]
    others = held(answer)
    first = answer.leaders[0].scenario if answer.leaders else machine.scenario
    grid = asked.grid
    return LayoutsDocument(
        name=first.name,
        feasible=bool(answer.leaders),
        by=goal.by,
        tokens=goal.tokens,
        days=goal.days,
        budget_usd=goal.budget,
        grid=None if grid is None else grid[1].name,
        grid_kg_per_kwh=None if grid is None else grid[1].carbon.value * KWH,
        grid_source=None if grid is None else grid[1].carbon.source,
        system=PlannedSystem(first.cluster.node.accelerator.name, first.model.name, first.stack.name),
        ground=stated(answer.leaders[0].result.ground if answer.leaders else grounded(first)),
        global_batch=first.training.global_batch,
        sequence_length=first.training.sequence_length,
        machines=tuple(one.name for one, _ in asked.spaces),
        fixed=dict(space.listed),
        counts=_counts(answer.found.counts),
        layouts=tuple(_ranked(asked, one, others[i - 1] if i else None) for i, one in enumerate(answer.leaders)),
        why=tuple(why(answer, others)),
        infeasible=tuple(ruled_out(answer)),
        least=tuple(map(_least, answer.least)),
        assumptions=_each(one.result.assumptions for one in answer.leaders[:1]),
        warnings=(*answer.found.notes, *_warnings(asked, answer)),
        provenance=PlanProvenance(
            simulator.__version__, first.seed, scenario_hash(machine.scenario), answer.found.counts.simulated
        ),
    )


def _each(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line for lines_ in lists for line in lines_))


def _counts(counts: Counts) -> LayoutCounts:
    names = [name for name in LayoutCounts.__dataclass_fields__ if name != "candidates"]
    return LayoutCounts(candidates=counts.all, **{name: getattr(counts, name) for name in names})


def _ranked(asked: Asked, one: Leader, held: Held | None) -> RankedLayout:
    goal, scenario, result, candidate = asked.goal, one.scenario, one.result, one.priced.candidate
    metrics, steps = result.metrics, asked.goal.steps(scenario)
    step_s, interval, energy = metrics["step_time_s"], result.intervals.get("step_time_s"), metrics.get("energy_j")
    energy = None if energy is None else energy * steps
    return RankedLayout(
        name=candidate.layout.name,
        machine=candidate.machine.name,
        nodes=scenario.cluster.nodes,
        devices=scenario.cluster.devices,
        overrides=(*candidate.machine.overrides, *candidate.layout.overrides(candidate.machine.scenario)),
        step_time_s=step_s,
        step_time_low_s=None if interval is None else interval.low,
        step_time_high_s=None if interval is None else interval.high,
        bound_s=candidate.floor.bubble,
        confidence=None if held is None else held.confidence,
        tokens_per_s=metrics["tokens_per_s"],
        mfu=metrics["mfu"],
        bubble_fraction=metrics["bubble_fraction"],
        exposed_communication_s=metrics["exposed_communication_s"],
        peak_memory_bytes=metrics["peak_memory_bytes"],
        memory_bytes=scenario.cluster.node.accelerator.memory.capacity.value,
        memory_too_close=undecided(result.warnings),
        days=None if goal.tokens is None else goal.seconds(scenario, step_s) / DAY_S,
        cost_usd=goal.cost(scenario, step_s),
        energy_j=energy,
        carbon_kg=None if asked.grid is None or energy is None else energy * asked.grid[1].carbon.value,
        parts=TRAINING.parts(result),
    )


def _least(one: Least) -> LeastNeeded:
    candidate = one.priced.candidate
    return LeastNeeded(
        what=one.what,
        value=one.value,
        layout=candidate.layout.name,
        machine=candidate.machine.name,
        limits=" and ".join({"days": "within the days", "budget": "within the budget"}[name] for name in one.kept),
    )


def _warnings(asked: Asked, answer: Answer) -> list[str]:
    said = [text for one in answer.leaders[:1] for text in one.result.warnings]
    unpriced = [machine.name for machine, _ in asked.spaces if _price(machine.scenario) is None]
    if unpriced and (asked.goal.by == "cost" or asked.goal.budget is not None):
        said.append(f"devices of {', '.join(unpriced)} have no price: not among the answers")
    return said


def _price(scenario: Scenario) -> object:
    return scenario.cluster.node.accelerator.price
