"""Steps under a load of experts that moves: each is run by itself, with what its busiest devices have in it.

A step begins when the one before has ended everywhere. The step that is shown is the one of median time; memory is that
of the step in which the devices hold most.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from simulator.errors import InputError, Problem
from simulator.run.gather import Run
from simulator.run.steps import Steps
from simulator.specs.scenario import Scenario
from simulator.training.experts.moving import moved
from simulator.training.experts.routing import Exchange, with_experts
from simulator.training.job import Job
from simulator.training.memory import peak_memory

MOST_STEPS = 2_000
"""Steps with loads of their own above which a run is refused: each is lowered and executed."""


def moves(scenario: Scenario) -> bool:
    """Whether the steps of a training differ in what experts get."""
    training = scenario.training
    return training.steps > 1 and training.routing.moves and scenario.model.experts is not None


def over_steps(scenario: Scenario, one: Callable[[Scenario], Run]) -> Run:
    """All steps of a training whose load of experts moves, each run by `one`; InputError for what has no meaning then.

    Steps whose load is equal are run once.
    """
    _check(scenario)
    runs: dict[bytes, Run] = {}
    ticks, each = np.zeros(scenario.training.steps, np.int64), list[bytes]()
    for step in range(scenario.training.steps):
        own = _at(scenario, step)
        key = _key(own)
        if key not in runs:
            runs[key] = one(own)
        ticks[step] = runs[key].timeline.makespan
        each.append(key)
    steps = Steps(ticks)
    shown = runs[each[steps.shown]]
    fullest = max((run.job for run in runs.values()), key=peak_memory)
    said = (*shown.job.assumptions, _said([runs[key].job for key in each]))
    return replace(
        shown,
        scenario=scenario,
        steps=steps,
        job=replace(shown.job, assumptions=said),
        fullest=fullest if peak_memory(fullest) > peak_memory(shown.job) else None,
    )


def _check(scenario: Scenario) -> None:
    training = scenario.training
    if training.steps > MOST_STEPS:
        message = f"{training.steps:,} steps with loads of their own are more than {MOST_STEPS:,}"
        raise InputError(Problem(message, path="training.steps", hint="simulate fewer, from `routing.first_step` on"))
    for there, what in ((training.noise.jitter, "noise.jitter"), (training.local_steps, "local_steps")):
        if there:
            message = f"`{what}` and a load of experts that moves from step to step are not modelled together"
            raise InputError(Problem(message, path=f"training.{what}", hint="leave one out, or write `steps: 1`"))


def _at(scenario: Scenario, step: int) -> Scenario:
    """The scenario of one step."""
    training = scenario.training
    routing = training.routing.model_copy(update={"first_step": training.routing.first_step + step})
    return scenario.model_copy(update={"training": training.model_copy(update={"routing": routing, "steps": 1})})


def _key(scenario: Scenario) -> bytes:
    """Equal for steps in which experts get the same, where they lie as they did."""
    load, model = scenario.training.routing, scenario.model
    chosen = load.first_step - load.first_step % load.rebalanced
    shares = [moved(load, model.experts or 1, with_experts(model), step) for step in (load.first_step, chosen)]
    return b"".join(share.tobytes() for known in shares for share in known.values())


def _said(jobs: list[Job]) -> str:
    """What busiest devices have over the steps."""
    most = [max(one.spread.busiest / one.spread.sent for one in _loads(job.exchange)) for job in jobs]
    return (
        f"the load of experts moves: the busiest device of a layer has {min(most):.3g} to {max(most):.3g} times the"
        f" mean of its rows over {len(jobs):,} steps; the step of median time is shown"
    )


def _loads(exchange: Exchange | None) -> tuple[Exchange, ...]:
    assert exchange is not None
    return exchange.loads or (exchange,)
