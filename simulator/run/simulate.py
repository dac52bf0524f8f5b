"""A scenario on a machine: resolve, price, fold, execute, gather.

The entry point is `simulate`; `run` stops short of the Result. Everything in them is a pure function of the scenario,
so that the same scenario gives the same bytes of result.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simulator import fabric, units
from simulator.cost import compile_device
from simulator.engine.executor import execute
from simulator.engine.tape import Tape, Timeline
from simulator.errors import InputError, Problem
from simulator.fabric.sharing import max_min
from simulator.program.maxplus import NotExact, sweep
from simulator.results.result import LinkLoad, Result
from simulator.run.clock_overflow import clock_overflow
from simulator.run.contention import Ran, settled
from simulator.run.gather import Run, gather
from simulator.run.links import Recorded, link_loads
from simulator.run.spans import spans_of
from simulator.run.steps import Lowered, Steps, perturbed
from simulator.specs import load_spec
from simulator.specs.collectives import CollectiveProfile
from simulator.specs.scenario import Scenario
from simulator.training.chains import StepCosts
from simulator.training.communication import Network
from simulator.training.job import build_job
from simulator.training.noise import perturb, slowdowns
from simulator.training.passes.program import build_program

Ints = NDArray[np.int64]

Executor = Literal["simpy", "max-plus"]
Fold = Literal["auto", "exact", "tiers", "none"]

LARGE = 1024
"""Devices above which `auto` folds by tiers."""
MOST_DEVICES = 1 << 19
"""Devices above which a cluster is refused."""
MOST_OPERATIONS = 5_000_000
"""Operations above which a program is refused rather than run out of memory."""


def simulate(
    scenario: Scenario,
    *,
    fold: Fold | None = None,
    executor: Executor = "simpy",
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Simulate one step of a training scenario.

    `fold` overrides the scenario's; `executor` runs the program event by event (`simpy`) or by a max-plus sweep,
    which refuses programs in which anything is shared. Raises InputError for what cannot be simulated; running out of
    memory is a Result with `feasible` False.
    """
    return gather(run(scenario, fold=fold, executor=executor, progress=progress))


def run(
    scenario: Scenario,
    *,
    fold: Fold | None = None,
    executor: Executor | None = None,
    profile: CollectiveProfile | None = None,
    progress: Callable[[int], None] | None = None,
    share_links: bool = True,
) -> Run:
    """One step of a training scenario, not yet gathered into a Result: for studies that need its time.

    As `simulate`, but `profile` stands in for the collective profile that the cluster names, and without `executor` the
    max-plus sweep runs what shares nothing. Without `share_links` every operation has its links for itself.
    """
    try:
        with np.errstate(over="raise", invalid="raise"):
            return _run(scenario, fold, executor, profile, progress, share_links)
    except (OverflowError, FloatingPointError):
        raise clock_overflow(scenario) from None


def _run(
    scenario: Scenario,
    fold: Fold | None,
    executor: Executor | None,
    profile: CollectiveProfile | None,
    progress: Callable[[int], None] | None,
    share_links: bool,
) -> Run:
    _check_devices(scenario.cluster.devices)
    job = build_job(scenario)
    device = compile_device(scenario.cluster.node.accelerator)
    profile = profile or load_spec(CollectiveProfile, scenario.cluster.collectives)
    training = scenario.training
    noise = perturb(training.noise, fabric.build(scenario.cluster), training.steps, scenario.seed)
    network = Network(job, noise.fabric, profile)
    chosen = _fold(fold or scenario.fold, scenario.cluster.devices)
    how: Executor = executor or ("simpy" if job.shares else "max-plus")

    def lower(fold_keys: Ints | None) -> Lowered:
        classes = StepCosts(job, device, network).classes(chosen, fold_keys)
        _check_size(len(job.schedule) * len(classes.costs))
        return Lowered(classes, build_program(job, classes.costs, classes.rendezvous))

    def executed(tape: Tape) -> Timeline:
        return _execute(tape, how, progress, job.shares)

    still = noise.factors is None or bool((noise.factors == 1.0).all())
    if noise.factors is None or still:
        shown, steps = lower(None), Steps(np.zeros(0, np.int64))
    else:
        pace = slowdowns(job.mesh, network.chains, noise.factors)
        shown, steps, said = perturbed(job, pace, lower, executed, chosen != "none")
        noise = replace(noise, assumptions=noise.assumptions + said)

    def loads(timeline: Timeline, shared: Recorded | None) -> tuple[LinkLoad, ...]:
        classes, program = shown
        spans, step_s = spans_of(program, timeline, job.pp), units.to_seconds(timeline.makespan)
        return link_loads(network.fabric, program, classes, step_s, spans, shared)

    if still and share_links:
        ran = settled(shown.program, shown.classes, network.fabric, executed, loads, progress)
    else:
        timeline = executed(shown.program.tape)
        ran = Ran(timeline, loads(timeline, None), contended=False)
    if ran.contended and executor == "max-plus":
        raise _shares("links")
    how = "simpy" if ran.contended else how
    steps = steps.filled(training.steps, ran.timeline.makespan)
    return Run(scenario, job, device, network, *shown, ran.timeline, chosen, how, noise, steps, ran.links)


def _fold(fold: Fold, devices: int) -> Literal["exact", "tiers", "none"]:
    if fold == "auto":
        return "tiers" if devices > LARGE else "exact"
    return fold


def _check_devices(devices: int) -> None:
    if devices > MOST_DEVICES:
        message = f"the cluster has {devices:,} devices, more than {MOST_DEVICES:,}"
        raise InputError(Problem(message, path="cluster.nodes", hint="simulate fewer nodes"))


def _check_size(operations: int) -> None:
    if operations > MOST_OPERATIONS:
        message = f"the program has about {operations:,} passes, more than {MOST_OPERATIONS:,}"
        raise InputError(
            Problem(message, path="fold", hint="fold ranks (`fold: tiers`) or simulate fewer microbatches")
        )


def _execute(tape: Tape, executor: Executor, progress: Callable[[int], None] | None, beside: bool) -> Timeline:
    """Run a tape; `beside` is whether collectives take of the device that computation runs on."""
    if executor == "max-plus":
        try:
            return sweep(tape)
        except NotExact as error:
            raise _shares("the device with the computation beside them" if beside else "links") from error
    return execute(tape, max_min, progress)


def _shares(what: str) -> NotExact:
    """The refusal of an executor that knows no sharing."""
    hint = "`max-plus` knows no sharing: leave out the executor"
    return NotExact(Problem(f"here collectives share {what}", path="executor", hint=hint))
