"""Frontiers as documents: what `clustersim plan --frontier --json` writes and what the pages read."""

import simulator
from simulator.results.documents.frontier import FrontierCounts, FrontierDocument, FrontierPoint
from simulator.results.documents.plan import PlannedSystem, PlanProvenance, ReachedObjective, StatedObjectives
from simulator.results.ground import stated
from simulator.run.ground import ground
from simulator.specs.resolve import scenario_hash
from simulator.specs.scenario import ServingScenario
from simulator.study.frontier.search import Found, Point
from simulator.study.frontier.tally import Counts
from simulator.study.frontier.why import why
from simulator.study.plan.plan import slo_of


def document(scenario: ServingScenario, found: Found) -> FrontierDocument:
    """What a search found."""
    slo, points = slo_of(scenario), sorted(found.points, key=lambda one: (one.rate, -one.per_user))
    front = {id(one) for one in found.front}
    best, second, nearest = found.winner, found.runner_up, _nearest(found)
    said = best or nearest
    return FrontierDocument(
        name=scenario.name,
        feasible=best is not None,
        slo=StatedObjectives(slo.ttft, slo.tpot, slo.e2e, slo.attainment),
        system=PlannedSystem(scenario.cluster.node.accelerator.name, scenario.model.name, scenario.stack.name),
        ground=stated(ground(scenario)),
        devices=found.devices,
        counts=_counts(found.counts),
        rates=tuple(found.rates),
        points=tuple(_point(scenario, one, id(one) in front) for one in points),
        winner=_place(points, best),
        runner_up=_place(points, second),
        nearest=_place(points, nearest),
        why=tuple(why(found)),
        could=found.could,
        assumptions=said.outcome.assumptions if said else (),
        warnings=tuple(_warnings(found, said)),
        provenance=PlanProvenance(simulator.__version__, scenario.seed, scenario_hash(scenario), len(points)),
    )


def _nearest(found: Found) -> Point | None:
    """The point that most requests meet the objectives at, where none meets them."""
    if found.winner is not None or not found.points:
        return None
    return max(found.points, key=lambda one: (one.outcome.attainment, -_excess(one), one.per_user))


def _excess(point: Point) -> float:
    """How far the worst objective is missed, as a share of its limit."""
    missed = [(kept or float("inf")) / limit for _, limit, _, kept in point.outcome.objectives if limit]
    return max(missed, default=float("inf"))


def _place(points: list[Point], wanted: Point | None) -> int | None:
    return next((place for place, one in enumerate(points) if one is wanted), None)


def _point(scenario: ServingScenario, one: Point, on_front: bool) -> FrontierPoint:
    outcome, made = one.outcome, one.structure
    goals = {name: ReachedObjective(limit, share, kept) for name, limit, share, kept in outcome.objectives}
    return FrontierPoint(
        name=made.name,
        mode=made.mode,
        overrides=made.overrides(scenario, made.copies),
        rate=one.rate,
        tokens_per_s_per_user=one.per_user,
        tokens_per_s_per_device=one.per_device,
        decodes_per_device=one.decodes_per_device if one.per_user else 0.0,
        idle_devices=one.devices - made.copies * made.devices,
        state=outcome.state,
        reason=outcome.reason,
        on_front=on_front,
        short=outcome.short,
        attainment=outcome.attainment,
        objectives=goals,
        metrics=dict(outcome.metrics),
    )


def _counts(found: Counts) -> FrontierCounts:
    return FrontierCounts(
        candidates=found.all,
        shape=found.shape,
        memory=found.memory,
        objectives=found.objectives,
        rate=found.rate,
        bound=found.bound,
        unlikely=found.unlikely,
        simulated=found.simulated,
    )


def _warnings(found: Found, said: Point | None) -> list[str]:
    lines = list(said.outcome.warnings) if said else []
    lines = [line for line in lines if not line.startswith("saturated")]
    if said is not None and said.outcome.short and found.winner is said:
        lines.append("the run of the winner is short: all requests come within 5 times what a slow one takes")
    if found.exhausted:
        lines.append(
            "the number of simulations ended the search at some rates: `--simulations N` tries more of what is likely"
        )
    return lines
