"""Plans as documents: what `clustersim plan --json` writes and what the pages read."""

from collections.abc import Iterable, Sequence
from math import ceil, isfinite

import simulator
from simulator import units
from simulator.results.documents.plan import (
    PlanDocument,
    PlannedLayout,
    PlannedSystem,
    PlanProvenance,
    ProbedRate,
    ReachedObjective,
    StatedObjectives,
)
from simulator.results.ground import stated
from simulator.results.infeasibility import undecided
from simulator.results.prices import unpriced
from simulator.results.summary import ordered_metrics
from simulator.run.spread.grounded import grounded
from simulator.specs.resolve import dump, scenario_hash
from simulator.specs.scenario import ServingScenario
from simulator.study.plan.plan import FEW, Options, Plan, best_per_device, cheapest, slo_of
from simulator.study.plan.probe import SATURATED, SHORT, Goal, Probe, known

_NAMED = 3  # layouts that a warning lists


def document(plans: Sequence[Plan], options: Options) -> PlanDocument:
    """What was found for some layouts of one scenario; numbers are in SI units, not known ones are None."""
    first = plans[0].candidate.scenario
    slo = slo_of(first)
    most, least = best_per_device(plans), cheapest(plans)
    return PlanDocument(
        name=first.name,
        feasible=feasible(plans, options),
        slo=StatedObjectives(slo.ttft, slo.tpot, slo.e2e, slo.attainment),
        target_rate=options.target,
        tolerance=options.tolerance,
        layouts=tuple(_layout(plan, most, least) for plan in plans),
        assumptions=tuple(_each(plan.best.assumptions for plan in plans if plan.best is not None)),
        warnings=tuple(_warnings(plans)),
        provenance=PlanProvenance(
            version=simulator.__version__,
            seed=first.seed,
            scenario=scenario_hash(first),
            simulations=sum(plan.runs for plan in plans),
        ),
    )


def feasible(plans: Sequence[Plan], options: Options) -> bool:
    """Whether any layout meets the objectives, at the target where there is one."""
    if options.target is not None:
        return any(plan.carries for plan in plans)
    return any(plan.rate is not None for plan in plans)


def _layout(plan: Plan, most: Plan | None, least: Plan | None) -> PlannedLayout:
    scenario, best = plan.candidate.scenario, plan.best
    return PlannedLayout(
        name=plan.candidate.name,
        overrides=tuple(plan.candidate.overrides),
        state=plan.state,
        reason=plan.reason,
        system=_system(scenario),
        ground=stated(grounded(scenario)),
        requests=scenario.requests.count,
        process=plan.process or None,
        unit=plan.unit,
        replicas=plan.candidate.replicas,
        devices=plan.devices or None,
        usd_per_hour=plan.usd_per_hour,
        unpriced=tuple(unpriced(dump(scenario))) if plan.usd_per_hour is None else (),
        rate=plan.rate,
        rate_per_device=plan.rate_per_device,
        missed_at=plan.miss.rate if plan.miss is not None and plan.state in ("found", "cut") else None,
        binding=(plan.miss or best).binding.name if best is not None else None,
        carries_target=plan.carries,
        carries_longer=None if plan.at_target is None else plan.carries and plan.lasting,
        settled=None if plan.rate is None else plan.settled,
        memory_too_close=best is not None and undecided(best.warnings),
        best_per_device=plan is most,
        cheapest=plan is least,
        at_best=_probe(best, plan.unit) if best is not None else None,
        curve=tuple(_probe(probe, plan.unit) for probe in plan.probes),
        odd_rates=tuple(probe.rate for probe in plan.odd),
    )


def _system(scenario: ServingScenario) -> PlannedSystem:
    return PlannedSystem(
        device=" and ".join(_accelerators(scenario)),
        model=scenario.model.name,
        stack=scenario.stack.name,
    )


def _probe(probe: Probe, unit: str) -> ProbedRate:
    """One rate; `rate` 0 stands for requests one after the other."""
    return ProbedRate(
        rate=probe.rate,
        meets=probe.meets,
        attainment=probe.attainment,
        goodput=_goodput(probe, unit),
        saturated=probe.saturated,
        objectives={goal.name: _goal(goal) for goal in probe.goals},
        metrics={name: _finite(value) for name, value in ordered_metrics(probe.metrics).items()},
    )


def _goodput(probe: Probe, unit: str) -> float:
    """Requests per second within all objectives, at most the rate times their share.

    By chance the arrivals of a short run come closer together than its rate says. Conversations have several requests.
    """
    measured = known(probe.metrics.get("request_goodput"))
    return min(measured, probe.rate * probe.attainment) if probe.rate and unit == "requests" else measured


def _goal(goal: Goal) -> ReachedObjective:
    return ReachedObjective(goal.limit_s, goal.attainment, _finite(goal.reached_s))


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def _each(found: Iterable[Sequence[str]]) -> list[str]:
    """All lines, each once."""
    return list(dict.fromkeys(line for lines in found for line in lines))


def _warnings(plans: Sequence[Plan]) -> list[str]:
    """What a reader should know before trusting a rate, each line with the layouts that it is about."""
    about: dict[str, list[str]] = {}
    for plan in plans:
        for text in _of_plan(plan):
            about.setdefault(text, []).append(plan.candidate.name)
    return [text if len(names) == len(plans) else f"{_listed(names)}: {text}" for text, names in about.items()]


def _listed(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    rest = len(names) - _NAMED
    return "; ".join(names[:_NAMED]) + (f"; {rest} other{'s' if rest > 1 else ''}" if rest > 0 else "")


def _of_plan(plan: Plan) -> list[str]:
    best = plan.best
    if best is None:
        return []
    of_run = [text for text in best.warnings if not text.startswith(SATURATED)]
    return [*_of_counts(best), *_of_search(plan, best), *of_run]


def _of_counts(best: Probe) -> list[str]:
    """Whether there are enough requests for the share that is wanted."""
    asked = best.asked
    may_miss = asked * (1 - best.wanted)
    if may_miss >= FEW - 1e-6:
        return []
    share = f"{100 * best.wanted:g} %"
    if best.wanted == 1:
        return [f"all of {asked:,.0f} requests must meet the objectives: the rate rests on the single worst one"]
    needed = ceil(FEW / (1 - best.wanted) - 1e-6)
    return [
        f"{share} of {asked:,.0f} requests leave {may_miss:.3g} that may miss, too few for a share that would hold"
        f" again: ask for {needed:,} or more (`requests.count`)"
    ]


def _of_search(plan: Plan, best: Probe) -> list[str]:
    said = []
    if plan.state == "unbounded":
        said.append(
            f"the objectives are met even if all requests come within {best.metrics['duration'] / 100:.3g} s: they are"
            " too few to load the system, so that the rate has no meaning; ask for more (`requests.count`)"
        )
    elif plan.state == "found" and best.saturated:
        said.append(
            "at the largest rate the queue still grows when the last request comes: a longer run would miss the"
            " objectives at this rate; ask for more requests (`requests.count`)"
        )
    elif plan.state == "found" and best.short:
        said.append(
            f"at the largest rate all requests come within {SHORT} times what a slow one takes, so that filling and"
            " emptying the system flatter it; ask for more requests (`requests.count`)"
        )
    if plan.odd:
        verdicts = ("missed", "met")
        rates = ", ".join(f"{units.plain(probe.rate, 4)}/s ({verdicts[probe.meets]})" for probe in plan.odd)
        said.append(
            f"a higher rate is not always harder here, for at these rates it is the other way round: {rates};"
            " the rate given is below a miss, and above successes only as far as tried"
        )
    return said


def _accelerators(scenario: ServingScenario) -> list[str]:
    """Names of the accelerators that its pools lie on, each once."""
    homes = (scenario.serving.home(pool, scenario.cluster) for pool in scenario.serving.all_pools)
    return list(dict.fromkeys(cluster.partitions[kind].node.accelerator.name for cluster, kind in homes))
