"""Many steps of one program, each with what its devices take in it, and the one that a Result shows.

A step begins when the one before it has ended everywhere, as at the optimizer of a synchronous run. Where nothing is
shared all steps go through one max-plus sweep; where collectives share multiprocessors with computation each step is
executed. The step that is shown is the one of median time, of an even number the quicker of the two in the middle.

Without a pipeline a device has one factor a step, and of devices that pay the same prices the slowest decides: the
others are ready earlier whenever they meet. One of each class is then enough to time a step. Only to show where the
time of the others goes they are run apart, if they are not too many. Where operations share links each counts, as it
sends when it is ready; where collectives share multiprocessors with computation each counts too, unless they are many,
as a collective goes at the pace of the peer that computes beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.engine.tape import Tape, Timeline
from simulator.errors import InputError, Problem
from simulator.program.batch import makespans
from simulator.training.chains import ChainClasses
from simulator.training.job import Job
from simulator.training.noise import fold_keys
from simulator.training.passes.program import Program
from simulator.training.rescale import durations, rescaled, slowed

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_SWEPT = 1_000_000_000
"""Operations of all steps together above which a sweep over them is refused: a minute or two."""
MOST_EXECUTED = 300_000_000
"""The same, times the chains that meet, where every step is executed event by event."""
MOST_SHOWN = 10_000_000
"""The same for the one step that is shown."""
_AT_ONCE = 4_000_000
"""Operations of several steps that are held in memory together."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Ticks of all simulated steps in their order."""

    ticks: Ints

    def filled(self, count: int, ticks: int) -> "Steps":
        """`count` steps where all are equal: of the time of the one that is known, else of `ticks`."""
        return Steps(np.full(count, self.ticks[0] if len(self.ticks) else ticks)) if len(self.ticks) < 2 else self

    @property
    def shown(self) -> int:
        """The step whose operations are shown: the first of median time."""
        middle = (len(self.ticks) - 1) // 2
        return int(np.argmax(self.ticks == np.partition(self.ticks, middle)[middle]))

    @property
    def total(self) -> int:
        """Ticks of all steps together."""
        return sum(self.ticks.tolist())

    @property
    def mean_s(self) -> float:
        """Seconds of the mean step."""
        return self.total / (len(self.ticks) * units.TICKS_PER_SECOND)


class Lowered(NamedTuple):
    """Classes of chains and their program."""

    classes: ChainClasses
    program: Program


Lower = Callable[[Ints | None], Lowered]
"""Folds and lowers; chains with different fold_keys (chains,) stay apart."""
OnLinks = Callable[[Lowered], Program]
"""The program whose operations share links with each other."""
Execute = Callable[[Tape], Timeline]
"""Runs a tape."""


class Perturbed(NamedTuple):
    """What became of perturbed steps."""

    shown: Lowered
    """The program and prices of the step that is shown."""
    steps: Steps
    """One where all are equal."""
    assumptions: tuple[str, ...]
    """What was merged."""


def perturbed(
    job: Job, pace: Floats, lower: Lower, on_links: OnLinks | None, execute: Execute, folds: bool
) -> Perturbed:
    """Time every step under the factors `pace` (chains, pp, steps), and prepare the one to show.

    `on_links` is for operations that share links with each other, None where none do; each chain then counts. `folds`
    is False where every chain is to be run on its own. InputError where that would take minutes.
    """
    said = [f"devices of {group} go at the pace of the slowest of them" for group in job.meeting()]
    own = fold_keys(pace)
    if job.pp > 1 or not folds or on_links is not None:
        timed = shown = lower(own)
    else:
        timed = shown = lower(None)
        work = _work(timed, int(own.max(initial=0)) + 1)
        if work <= MOST_SHOWN:
            shown = lower(own)
            timed = shown if _shares(timed.program) and work * pace.shape[2] <= MOST_SHOWN else timed
        else:
            said.append("replicas that pay the same are shown together, at the pace of the slowest of them")
    timed = timed if on_links is None else Lowered(timed.classes, on_links(timed))
    steps = _timed(timed, slowest(timed.classes, pace), execute)
    return Perturbed(at_pace(shown, slowest(shown.classes, pace)[:, :, steps.shown]), steps, tuple(said))


def slowest(classes: ChainClasses, pace: Floats) -> Floats:
    """Factors of each class, those of its slowest chain: (chains, pp, steps) to (classes, pp, steps)."""
    return np.stack([pace[members].max(axis=0) for members in classes.members])


def _timed(lowered: Lowered, pace: Floats, execute: Execute) -> Steps:
    """The time of every step under the factors `pace` (classes, pp, steps)."""
    classes, program = lowered
    shares, count = _shares(program), pace.shape[2]
    _check_work(_work(lowered, len(classes.costs)), count, MOST_EXECUTED if shares else MOST_SWEPT)
    at_once = max(_AT_ONCE // max(len(program.tape), 1), 1)
    found: list[Ints] = []
    for first in range(0, count, at_once):
        ticks = durations(program, pace[:, :, first : first + at_once])
        if shares:
            found += [np.array([execute(rescaled(program.tape, column)).makespan]) for column in ticks.T]
        else:
            found.append(makespans(program.tape, ticks))
    return Steps(np.concatenate(found))


def at_pace(lowered: Lowered, pace: Floats) -> Lowered:
    """The program and the prices of one step, under the factors `pace` (classes, pp)."""
    classes, program = lowered
    ticks = durations(program, pace[:, :, None])[:, 0]
    return Lowered(classes, slowed(program, rescaled(program.tape, ticks), pace))


def _shares(program: Program) -> bool:
    """Whether operations share resources, so that each step has to be executed."""
    return bool(np.any(program.tape.activity >= 0))


def _work(lowered: Lowered, chains: int) -> int:
    """Work of one step with so many classes of chains: operations, times the chains that meet where they share."""
    operations = len(lowered.program.tape) * chains // len(lowered.classes.costs)
    return operations * (chains if _shares(lowered.program) else 1)


def _check_work(work: int, steps: int, most: int) -> None:
    if work * steps <= most:
        return
    message = f"{steps:,} steps in which devices differ take more than {most // 1_000_000:,} million operations"
    fewer = f"simulate at most {most // work:,} steps" if most >= work else "simulate fewer devices or microbatches"
    quick = "write `overlap_gradients: false` and `overlap_parameters: false`, with which all steps are swept at once"
    hint = f"{fewer}, or {quick}" if most == MOST_EXECUTED else fewer
    raise InputError(Problem(message, path="training.steps", hint=hint))
