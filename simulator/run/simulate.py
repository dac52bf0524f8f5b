"""A scenario on a machine: resolve, price, fold, execute, gather.

The entry point is `simulate`; `run` stops short of the Result. Everything in them is a pure function of the scenario,
so that the same scenario gives the same bytes of result.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from simulator import fabric, units
from simulator.cost import Device, compile_device
from simulator.engine.executor import execute
from simulator.engine.tape import Tape, Timeline
from simulator.errors import InputError, Problem
from simulator.fabric.sharing import max_min
from simulator.program.maxplus import NotExact, sweep, unshared
from simulator.results.result import LinkLoad, Result
from simulator.run.clock_overflow import clock_overflow
from simulator.run.gather import Run, gather
from simulator.run.links.carried import Recorded, link_loads
from simulator.run.links.contention import Ran, Traffic, on_links, settled
from simulator.run.loads import moves, over_steps
from simulator.run.local_steps import exchanged
from simulator.run.long.extend import extended
from simulator.run.long.kept import Kept
from simulator.run.order.search import searched
from simulator.run.site import Seat
from simulator.run.spans import spans_of
from simulator.run.steps import Lowered, Steps, perturbed
from simulator.specs import load_spec
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.scenario import SEARCHED, Scenario
from simulator.training.arranged import arranged_job
from simulator.training.chains import StepCosts
from simulator.training.communication import Network
from simulator.training.job import Job
from simulator.training.noise import Perturbation, joined, perturb, slowdowns
from simulator.training.passes.program import Program, build_program
from simulator.training.placement import devices_of_ranks
from simulator.training.tiers.nodes import nodes_of
from simulator.training.variability import drawn_paces

Ints = NDArray[np.int64]

Executor = Literal["simpy", "max-plus"]
Fold = Literal["auto", "exact", "tiers", "none"]

LARGE = 1024
"""Devices above which `auto` folds by tiers."""
MOST_DEVICES = 1 << 20
"""Devices above which a cluster is refused."""
ROUNDING = 1e-9
"""Of a step, what whole ticks of shared operations may take from it."""
MOST_OPERATIONS = 5_000_000
"""Operations above which a program is refused rather than run out of memory."""


def simulate(
    scenario: Scenario,
    *,
    fold: Fold | None = None,
    executor: Executor = "simpy",
    progress: Callable[[int], None] | None = None,
    recording: bool = True,
    kept: Kept | None = None,
) -> Result:
    """Simulate one step of a training scenario.

    `fold` overrides the scenario's; `executor` runs the program event by event (`simpy`) or by a max-plus sweep,
    which refuses programs in which anything is shared; `recording` as of `run`; what is `kept` of a whole run is not
    simulated again. Raises InputError for what cannot be simulated; running out of memory is a Result with `feasible`
    False.
    """
    done = run(scenario, fold=fold, executor=executor, progress=progress, recording=recording)
    return finished(done, kept=kept)


def finished(done: Run, advising: bool = True, kept: Kept | None = None) -> Result:
    """The Result of a step, and of the whole run where the scenario asks for one; `advising` and `kept` as of
    `extended`."""
    profile = done.network.profile

    def again(scenario: Scenario) -> float:
        return run(scenario, fold=cast(Fold, done.fold), profile=profile, recording=False).steps.mean_s

    return extended(gather(done), done.scenario, done.job, done.network, again, advising, kept)


def run(
    scenario: Scenario,
    *,
    fold: Fold | None = None,
    executor: Executor | None = None,
    profile: CollectiveProfile | None = None,
    progress: Callable[[int], None] | None = None,
    share_links: bool = True,
    recording: bool = True,
) -> Run:
    """One step of a training scenario, not yet gathered into a Result: for studies that need its time.

    As `simulate`, but `profile` stands in for the collective profile that the cluster names, and without `executor` the
    max-plus sweep runs what shares nothing. Without `share_links` every operation has its links for itself; without
    `recording` it is not written down what shared links carried over time.
    """
    how = share_links, recording
    if scenario.placement == SEARCHED:
        return searched(scenario, lambda own: run(own, fold=fold, executor=executor, profile=profile, recording=False))
    try:
        with np.errstate(over="raise", invalid="raise"):
            if moves(scenario):
                return over_steps(scenario, lambda own: alone(prepare(own, fold, executor, profile), None, *how))
            return alone(prepare(scenario, fold, executor, profile), progress, *how)
    except (OverflowError, FloatingPointError):
        raise clock_overflow(scenario) from None


def least_step_s(scenario: Scenario, profile: CollectiveProfile | None = None) -> float:
    """Seconds of a step in which nothing is shared, devices and links: a lower bound of what `run` finds, less what
    rounding may take; 0 where steps differ or are followed by more than themselves."""
    if moves(scenario) or scenario.training.local_steps is not None or scenario.placement == SEARCHED:
        return 0.0
    prepared = prepare(scenario, profile=profile)
    if not prepared.still:
        return 0.0
    return units.to_seconds(unshared(prepared.lower().program.tape).makespan) * (1 - ROUNDING)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A training scenario on its machine, before anything runs."""

    scenario: Scenario
    job: Job
    device: Device
    network: Network
    noise: Perturbation
    fold: Literal["exact", "tiers", "none"]
    executor: Executor | None
    """The one that was asked for."""

    @property
    def still(self) -> bool:
        """Whether noise leaves every step as it is."""
        return self.noise.factors is None or bool((self.noise.factors == 1.0).all())

    def lower(self, fold_keys: Ints | None = None, cut: bool = False) -> Lowered:
        """Fold and lower; chains with different `fold_keys` (chains,) stay apart, `cut` runs all passes in parts."""
        classes = StepCosts(self.job, self.device, self.network).classes(self.fold, fold_keys)
        _check_size(len(self.job.schedule) * len(classes.costs))
        nodes = None
        if self.job.offload is not None:
            nodes = nodes_of(classes.members, classes.ranks, self.scenario.cluster.node.devices)
        return Lowered(classes, build_program(self.job, classes.costs, classes.rendezvous, cut, nodes))


def prepare(
    scenario: Scenario,
    fold: Fold | None = None,
    executor: Executor | None = None,
    profile: CollectiveProfile | None = None,
    seat: Seat | None = None,
) -> Prepared:
    """Resolve a scenario and put it on its machine: the first devices of a fabric of its own, or its `seat`."""
    cluster, training = scenario.cluster, scenario.training
    _check_devices(cluster.devices)
    if seat is not None and moves(scenario):
        hint = "write `steps: 1`, or run it alone"
        raise InputError(Problem("beside other work a load does not move", path="training.routing.load", hint=hint))
    job, device = arranged_job(scenario), compile_device(cluster.node.accelerator)
    profile = profile or load_spec(CollectiveProfile, cluster.collectives)
    links = fabric.build(cluster) if seat is None else seat.fabric
    paces = drawn_paces(scenario, cluster.devices)
    noise = perturb(training.noise, links, training.steps, scenario.seed, cluster.devices, paces)
    devices = devices_of_ranks(scenario) if seat is None else seat.devices
    if seat is None and devices is not None and noise.factors is not None:  # a device keeps its pace wherever ranks lie
        noise = replace(noise, factors=noise.factors[:, devices])
    network = Network(job, noise.fabric, profile, devices)
    return Prepared(scenario, job, device, network, noise, _fold(fold or scenario.fold, cluster.devices), executor)


def alone(
    prepared: Prepared,
    progress: Callable[[int], None] | None = None,
    share_links: bool = True,
    recording: bool = True,
) -> Run:
    """All steps of a job that has the machine for itself."""
    job, network, noise, steps = prepared.job, prepared.network, prepared.noise, prepared.scenario.training.steps
    how: Executor = prepared.executor or ("simpy" if job.shares else "max-plus")

    def executed(tape: Tape) -> Timeline:
        on_links = prepared.executor is None and bool(np.any(tape.activity >= 0))
        return _execute(tape, "simpy" if on_links else how, progress, job.shares)

    def ran(lowered: Lowered, kinds: frozenset[str] = frozenset()) -> Ran:
        classes, program = lowered

        def loads(timeline: Timeline, shared: Recorded | None) -> tuple[LinkLoad, ...]:
            spans, step_s = spans_of(program, timeline, job.pp), units.to_seconds(timeline.makespan)
            return link_loads(network.fabric, program, classes, step_s, spans, shared)

        if share_links:
            return settled(program, classes, network.fabric, executed, loads, progress, kinds, recording)
        timeline = executed(program.tape)
        return Ran(timeline, loads(timeline, None), frozenset())

    if prepared.still:
        found = Steps(np.zeros(0, np.int64))
        shown, done = _apart(prepared, ran)
    else:
        shown, found, said, done = _noisy(prepared, executed, ran)
        noise = replace(noise, assumptions=noise.assumptions + said)
    if done.kinds and prepared.executor == "max-plus":
        raise _shares("links")
    if done.kinds and prepared.fold == "tiers":
        shown = _with_bound(shown, network, done.kinds)
    how = "simpy" if done.kinds else how
    found, local, met = found.filled(steps, done.timeline.makespan), prepared.scenario.training.local_steps, None
    if local is not None:
        met = exchanged(job, local, network, done.timeline.makespan)
        found = met.steps
    return Run(
        prepared.scenario,
        job,
        prepared.device,
        network,
        *shown,
        done.timeline,
        prepared.fold,
        how,
        noise,
        found,
        done.links,
        done.kinds,
        met,
        recording,
    )


def _with_bound(lowered: Lowered, network: Network, kinds: frozenset[str]) -> Lowered:
    """Classes that tiers merged also where they do not load all links alike."""
    classes, program = lowered
    bound = Traffic(program, classes, network.fabric).shortfall(kinds)
    return Lowered(replace(classes, spread=max(classes.spread, bound)), program)


def _apart(prepared: Prepared, ran: Callable[[Lowered, frozenset[str]], Ran]) -> tuple[Lowered, Ran]:
    """A step without noise; where folding is exact, chains are apart whose links are loaded differently."""
    lowered = prepared.lower()
    done = ran(lowered, frozenset())
    while (keys := _chains_apart(prepared, lowered, done.kinds)) is not None:
        lowered = prepared.lower(keys)
        done = ran(lowered, done.kinds)
    return lowered, done


def _chains_apart(prepared: Prepared, lowered: Lowered, kinds: frozenset[str]) -> Ints | None:
    """Keys that keep chains apart whose links of some kinds, on which operations meet, are loaded differently; None
    where they are apart, or where folding is not exact."""
    if not kinds or prepared.fold != "exact":
        return None
    return Traffic(lowered.program, lowered.classes, prepared.network.fabric).chains_apart(kinds)


def _noisy(
    prepared: Prepared, executed: Callable[[Tape], Timeline], ran: Callable[[Lowered, frozenset[str]], Ran]
) -> tuple[Lowered, Steps, tuple[str, ...], Ran]:
    """The step that is shown, all steps, what was merged, and what became of the shown one.

    All steps share the kinds of links on which operations meet in a step without noise, and in the one that is shown.
    Chains that noise leaves alone are apart too where they share links with slowed ones and others do not.
    """
    job, network, factors = prepared.job, prepared.network, prepared.noise.factors
    assert factors is not None
    pace = slowdowns(job.meeting().values(), network.chains, factors)
    clean, first = _apart(prepared, ran)
    kinds, number = first.kinds, clean.classes.number

    def lower(keys: Ints | None) -> Lowered:
        return prepared.lower(number if keys is None else joined(number, keys))

    def shared(lowered: Lowered) -> Program:
        return on_links(lowered.program, lowered.classes, network.fabric, kinds)

    while True:
        meet = shared if kinds else None
        shown, steps, said = perturbed(job, pace, lower, meet, executed, prepared.fold != "none")
        done, before = ran(shown, kinds), kinds
        kinds, keys = done.kinds, _chains_apart(prepared, shown, done.kinds)
        if keys is not None:
            number = keys
        elif kinds == before:
            return shown, steps, said, done


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
