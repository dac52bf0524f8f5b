"""A search that draws layouts, for spaces that are too large to look at whole: Optuna's tree of Parzen estimators.

Choice by choice a value is drawn where layouts like it were good before (Bergstra et al., Algorithms for
Hyper-Parameter Optimization, NIPS 2011). What is drawn goes through the same bounds as every candidate: it is priced
only where memory and limits leave it and its bound is below the last of the best; else the sampler is told the bound,
or for what cannot be a figure above all others. The answer is the best of what was drawn, and a note says so. Same
seed, same draws, on any number of processes.
"""

from collections.abc import Sequence
from typing import Any

from simulator.errors import InputError, Problem
from simulator.study.layouts.goal import Goal
from simulator.study.layouts.layout import Layout
from simulator.study.layouts.machines import Machine
from simulator.study.layouts.search import AT_ONCE, Candidate, Found, Planner, booked, miss, ruled_out
from simulator.study.layouts.space import picked

MOST = 100_000
"""Layouts that are drawn at most."""
IMPOSSIBLE = 1e30
"""What the sampler is told of layouts that do not fit or that there are not."""


def sample(planner: Planner, goal: Goal, draws: int, seed: int, top: int) -> Found:
    """The best layouts for a goal of so many that are drawn; InputError where Optuna is not installed."""
    study = _study(seed)
    found, known = Found(goal), dict[tuple[str, Layout], float]()
    before = planner.prices.looked_up, planner.prices.worked_out
    for first in range(0, draws, AT_ONCE):
        trials = [study.ask() for _ in range(min(AT_ONCE, draws - first))]
        drawn = [_drawn(planner, trial) for trial in trials]
        waiting = list(dict.fromkeys(key for key in drawn if key is not None and key not in known))
        left = [one for key in waiting if (one := _left(planner, goal, found, key, known)) is not None]
        for candidate, outcome in zip(left, planner.prices.of(left), strict=True):
            value = booked(found, candidate, outcome, top)
            known[candidate.machine.key, candidate.layout] = IMPOSSIBLE if value is None else value
        for trial, key in zip(trials, drawn, strict=True):
            study.tell(trial, IMPOSSIBLE if key is None else known[key])
        if planner.progress is not None:
            planner.progress(min(first + AT_ONCE, draws), draws)
    looked_up = planner.prices.looked_up - before[0]
    found.counts.looked_up = looked_up
    found.counts.priced = looked_up + planner.prices.worked_out - before[1]
    found.counts.leaders = len(found.best)
    found.notes.append(
        f"{draws:,} layouts were drawn (Optuna, seed {seed}), {len(known):,} different ones: the best of them need not"
        " be the best of all"
    )
    return found


def _study(seed: int) -> Any:
    try:
        import optuna
    except ImportError:
        message = "drawing layouts takes Optuna, which is not installed"
        hint = "`pip install 'clustersim[optuna]'`, or leave `--sample` out: the exact search needs nothing"
        raise InputError(Problem(message, hint=hint)) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=32))


def _drawn(planner: Planner, trial: Any) -> tuple[str, Layout] | None:
    """(key of the machine, layout) of a trial; each choice is a place among the values that are left, from 0 to 1, as
    which values these are depends on the choices before."""

    def pick(name: str, values: Sequence[Any]) -> Any:
        if len(values) == 1:
            return values[0]
        return values[min(int(trial.suggest_float(name, 0.0, 1.0) * len(values)), len(values) - 1)]

    machine, space = pick("machine", planner.spaces)
    layout = picked(space, pick)
    return None if layout is None else (machine.key, layout)


def _left(
    planner: Planner, goal: Goal, found: Found, key: tuple[str, Layout], known: dict[tuple[str, Layout], float]
) -> Candidate | None:
    """What is drawn as a candidate to be priced; None, and its figure into `known`, where bounds rule it out."""
    machine: Machine = next(machine for machine, _ in planner.spaces if machine.key == key[0])
    layout = key[1]
    need, floor, reason = planner.bound(goal, machine, layout)
    known[key] = IMPOSSIBLE
    if reason:
        found.counts.refuse(reason)
        return None
    if floor is None:
        found.counts.miss("memory", layout, machine.name, need, machine.capacity)
        return None
    if limit := goal.missed(machine.scenario, floor.bubble):
        miss(found.counts, goal, limit, machine, layout, floor.bubble)
        return None
    candidate = Candidate(goal.value(machine.scenario, floor.bubble), len(known), machine, layout, floor)
    if found.full and candidate.bound >= found.best[-1].value:
        ruled_out(found.counts, goal, candidate, found.best[-1].value)
        known[key] = candidate.bound
        return None
    return candidate
