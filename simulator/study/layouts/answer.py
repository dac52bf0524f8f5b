"""The answer to a question about layouts: search, confirmation of the leaders by events, and what it takes at least."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulator.results.result import Result
from simulator.specs.scenario import Scenario
from simulator.study.layouts.goal import Goal
from simulator.study.layouts.sampled import sample
from simulator.study.layouts.search import Found, Planner, Priced

LIMITS = {"days": "days", "budget": "budget"}


@dataclass(frozen=True)
class Leader:
    """One of the best layouts, simulated event by event."""

    priced: Priced
    scenario: Scenario
    result: Result


@dataclass(frozen=True)
class Least:
    """The least that a quantity takes, with the limits that are kept."""

    what: str
    value: float
    priced: Priced
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """What was found."""

    found: Found
    leaders: Sequence[Leader]
    least: Sequence[Least] = ()


def answer(planner: Planner, goal: Goal, top: int, draws: int | None = None, seed: int = 0) -> Answer:
    """The best layouts for a goal, of all or of so many that are drawn; where its limits allow none, what it takes at
    least, of all."""
    found = planner.search(goal, top) if draws is None else sample(planner, goal, draws, seed, top)
    results = planner.prices.confirmed([one.candidate for one in found.best])
    leaders = [
        Leader(one, one.candidate.layout.of(one.candidate.machine.scenario), result)
        for one, result in zip(found.best, results, strict=True)
    ]
    found.counts.simulated = len(leaders)
    leaders.sort(key=lambda one: goal.value(one.scenario, one.result.metrics["step_time_s"]))
    return Answer(found, leaders, () if leaders or draws is not None else _least(planner, goal))


def _least(planner: Planner, goal: Goal) -> list[Least]:
    """The least money within the days, the least days within the budget, and of each without the other limit."""
    found: list[Least] = []
    if goal.budget is not None:
        found += _without(planner, replace(goal, by="cost", budget=None), "cost_usd", goal.days is not None)
    if goal.days is not None:
        found += _without(planner, replace(goal, by="time", days=None), "days", goal.budget is not None)
    return found


def _without(planner: Planner, goal: Goal, what: str, limited: bool) -> list[Least]:
    """The best one for a goal with one limit fewer; where even that allows none, with no limit at all."""
    best = planner.search(goal, 1).best
    kept = tuple(name for name in LIMITS if getattr(goal, name) is not None)
    if not best and limited:
        best, kept = planner.search(Goal(goal.by, goal.tokens), 1).best, ()
    if not best or best[0].value == float("inf"):
        return []
    value = best[0].value / (86_400.0 if what == "days" else 1.0)
    return [Least(what, value, best[0], kept)]
