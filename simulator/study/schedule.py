"""A pipeline schedule of given sizes and costs, run without a device, a network or a model.

Costs are those of a microbatch on a device; the chunks of a device share them equally. They are turned into whole
ticks by their common denominator, so that nothing is rounded.
"""

import re
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import inf, lcm
from pathlib import Path

import numpy as np

from simulator.engine.tape import NEVER, Ints
from simulator.errors import InfeasibleError, InputError, Problem
from simulator.program.actions import NO_MICROBATCH, VOCABULARY, Action, Kind
from simulator.program.csv_form import read_csv
from simulator.program.schedule import Paths, Schedule, from_actions
from simulator.program.slices import Slices
from simulator.program.timing import Costs, Timing, least_makespan, steady_step, time_schedule
from simulator.program.validate import validate
from simulator.results.documents.schedule import DeviceShare, PassColumns, PassCosts, ScheduleDocument, ScheduleFigures
from simulator.specs import data_root
from simulator.training.schedules import AUTO, SCHEDULES, ChunksError, Maker, Pipeline, own_name

MOST_PASSES = 500_000
"""Forward passes of a schedule that is drawn."""
MOST_TIME = 10**6
"""Of a pass or a send, in its unit."""
FINEST = 9
"""Decimals of a time."""
BASELINE = "1f1b"
"""What schedules are held against."""


@dataclass(frozen=True, slots=True)
class AskedCosts:
    """What a microbatch costs on a device, in any unit of time."""

    forward: Fraction = Fraction(1)
    input_gradient: Fraction = Fraction(1)
    weight_gradient: Fraction = Fraction(1)
    send: Fraction = Fraction(0)
    """Over one boundary."""
    pair: Fraction | None = None
    """A forward and a backward pass side by side; None: as long as one after the other."""
    scores: Fraction = Fraction(1, 2)
    """Scores of a device's part of the vocabulary, where each holds one."""
    scores_gradient: Fraction = Fraction(1, 2)
    """Gradients of them."""
    attention: Fraction = Fraction(0)
    """Share of F and of I that goes with the pairs of tokens, where microbatches are cut."""
    balanced: bool = False
    """Whether cuts make forward passes of slices equally long, not their tokens equally many."""
    backward: bool = True
    """Whether there are backward passes; without them nothing is kept."""
    layers: tuple[Fraction, ...] = ()
    """Of each stage of the model, which passes and activations go with; empty: equally many."""
    speeds: tuple[Fraction, ...] = ()
    """Of each device beside the others, one stage each; empty: equally fast."""
    kept_for_weights: Fraction = Fraction(1)
    """Of what is kept from F on, the share that is kept on from I to W."""

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Layers of each stage over those of the mean one; empty for equal ones."""
        return tuple(own * len(self.layers) / sum(self.layers) for own in self.layers)

    @property
    def times(self) -> tuple[Fraction, ...]:
        """What passes of each stage take over what they would of equal stages on equal devices; empty for those."""
        count = len(self.layers or self.speeds)
        shares, speeds = self.shares or (Fraction(1),) * count, self.speeds or (Fraction(1),) * count
        return tuple(own / speed for own, speed in zip(shares, speeds, strict=True))

    def cut(self, slices: int) -> Slices | None:
        """What passes of each slice take; None of whole microbatches."""
        if slices == 1:
            return None
        return (Slices.balanced if self.balanced else Slices.equal)(slices, self.attention)

    def ticks(self, chunks: Fraction, slices: int = 1) -> int:
        """Ticks of a unit: the fewest that make the costs of a chunk whole, and those of a slice."""
        passes = (self.forward, self.input_gradient, self.weight_gradient, self.pair or Fraction(0))
        of_device, stages = (self.send, self.scores, self.scores_gradient), self.times or (Fraction(1),)
        made = ((cost / chunks * time).denominator for cost in passes for time in stages)
        whole = lcm(*made, *(cost.denominator for cost in of_device))
        cut = self.cut(slices)
        return whole if cut is None else whole * lcm(*(share.denominator for share in (*cut.passes, *cut.tokens)))

    def of_stages(self, stages: int, chunks: Fraction, slices: int = 1) -> Costs:
        """Costs of stages, `chunks` of them a device, that keep as much of a microbatch until the end of W. What
        devices do together takes as long as a send."""
        scale = self.ticks(chunks, slices)
        times, shares = (_spread(one, stages) for one in (self.times, self.shares))
        passes = self.forward, self.input_gradient * self.backward, self.weight_gradient * self.backward
        forward, back, weights = (
            np.array([int(cost / chunks * scale * time) for time in times], np.int64) for cost in passes
        )
        kept = np.array([float(share / chunks) * self.backward for share in shares])
        pair = None if self.pair is None else int(self.pair / chunks * scale)
        scores, gradients = (np.full(stages, int(cost * scale)) for cost in (self.scores, self.scores_gradient))
        send, cut = int(self.send * scale), self.cut(slices)
        rest = kept * float(self.kept_for_weights)
        return Costs(forward, back, weights, kept, rest, send, pair, scores, gradients, barrier=send, slices=cut)


def _spread(each: tuple[Fraction, ...], stages: int) -> tuple[Fraction, ...]:
    """What is said of each stage of a model for so many: again for each copy, or means of those that make one."""
    if not each:
        return (Fraction(1),) * stages
    if stages % len(each) == 0:
        return each * (stages // len(each))
    many = len(each) // stages
    return tuple(sum(each[at : at + many], Fraction(0)) / many for at in range(0, len(each), many))


@dataclass(frozen=True, slots=True)
class AskedSchedule:
    """What to make and run."""

    source: str
    """Name of a schedule, or a path that ends in `.csv`."""
    ranks: int | None = None
    """Devices along the pipeline; None of a file: as many as it has lines."""
    microbatches: int | None = None
    chunks: int | None = None
    """Of each device; None: one, or two where the schedule refuses one."""
    costs: AskedCosts = AskedCosts()
    limit: float | None = None
    """Most microbatches whose activations a device may keep."""
    slices: int | None = None
    """Of each microbatch along its sequence; None: as the schedule does."""
    paths: Paths = ()
    """Stages that microbatches go through; empty: as the schedule does."""
    barrier: bool = True
    """Whether devices wait for each other at the end of a step, for `auto`."""

    @property
    def is_file(self) -> bool:
        """Whether the order stands in a file."""
        return self.source.endswith(".csv")


def exact_time(text: str) -> Fraction:
    """A time from its decimal digits; ValueError says what is wrong with it, to be put behind the text."""
    try:
        value = Decimal(text[:60])
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 <= value <= MOST_TIME:
        raise ValueError(f"is no number from 0 to {MOST_TIME:,}")
    if (exponent := value.normalize().as_tuple().exponent) and int(exponent) < -FINEST:
        raise ValueError(f"has more than {FINEST} decimals")
    return Fraction(value)


def make(asked: AskedSchedule) -> Schedule:
    """The order of the passes; InputError where the sizes do not suit, InfeasibleError where the limit is too low."""
    maker = None if asked.is_file else SCHEDULES.get(own_name(asked.source))
    if not asked.barrier and own_name(asked.source) != AUTO:
        message = f"schedule `{asked.source}` is the same whether devices wait at the end of a step or not"
        raise InputError(Problem(message, hint="leave `--no-barrier` out, or write `auto`"))
    if maker is None:
        if asked.slices is not None:
            message = "a file says its microbatches itself, which may be slices"
            raise InputError(Problem(message, asked.source, hint="leave out `--slices`"))
        return _read(asked)
    if asked.ranks is None or asked.microbatches is None:
        missing = "--stages" if asked.ranks is None else "--microbatches"
        raise InputError(Problem(f"schedule `{asked.source}` needs `{missing}`", hint=f"for example {missing} 8"))
    if asked.ranks * (asked.chunks or 1) * asked.microbatches > MOST_PASSES:
        sizes = f"{asked.ranks:,} devices x {asked.chunks or 1:,} chunks x {asked.microbatches:,} microbatches"
        raise InputError(Problem(f"{sizes} are more than {MOST_PASSES:,} forward passes"))
    if asked.chunks is not None:
        return _made(maker, asked, asked.ranks, asked.microbatches, asked.chunks)
    try:
        return _made(maker, asked, asked.ranks, asked.microbatches, 1)
    except InputError as refused:
        try:
            return _made(maker, asked, asked.ranks, asked.microbatches, 2)
        except InputError as again:
            raise (again if isinstance(refused, ChunksError) else refused) from None


def _of_options(hint: str) -> str:
    """A hint of a maker with the option in place of the scenario's key."""
    return re.sub(r"`vpp: (\d+)`", r"`--chunks \1`", hint)


def _made(maker: Maker, asked: AskedSchedule, ranks: int, microbatches: int, chunks: int) -> Schedule:
    _check_stages(asked.costs, ranks, ranks * chunks)
    costs = asked.costs.of_stages(ranks * chunks, Fraction(chunks))
    _check_clock(costs, microbatches)
    limit = inf if asked.limit is None else asked.limit
    sizes = Pipeline(ranks, chunks, microbatches, costs=costs, limit=limit, slices=asked.slices, paths=asked.paths)
    sizes = replace(sizes, barrier=asked.barrier)
    try:
        made = maker(sizes)
    except InputError as refused:
        refused.problems = tuple(replace(one, hint=_of_options(one.hint)) for one in refused.problems)
        raise
    if asked.paths and made.paths != asked.paths:
        message = f"schedule `{asked.source}` lets no microbatch skip stages"
        raise InputError(Problem(message, hint="`skippipe` does"))
    if asked.slices not in (None, made.slices):
        message = f"schedule `{asked.source}` does not cut sequences in {asked.slices} slices"
        raise InputError(Problem(message, hint="`seq1f1b` and `forward-only` do"))
    if made.slices == 1 and (asked.costs.attention or asked.costs.balanced):
        message = f"schedule `{asked.source}` does not cut sequences, of whose slices `--attention` and `--cut` are"
        raise InputError(Problem(message, hint="leave them out, or write `seq1f1b`"))
    return made


def _check_stages(costs: AskedCosts, ranks: int, stages: int) -> None:
    """InputError where layers or speeds are not those of these stages and devices."""
    if costs.layers and len(costs.layers) != stages:
        message = f"{len(costs.layers)} numbers of layers, and there are {stages} stages"
        raise InputError(Problem(message, hint=f"write {stages} of them"))
    if costs.speeds and (len(costs.speeds) != ranks or stages != ranks):
        message = f"{len(costs.speeds)} speeds for {ranks} devices with {stages // ranks} stages each"
        raise InputError(Problem(message, hint="write one for each device, of one stage each"))
    if costs.pair is not None and (costs.layers or costs.speeds):
        raise InputError(Problem("a pair's time is one of equal stages", hint="leave out `--pair`"))


def _check_homes(costs: AskedCosts, schedule: Schedule) -> None:
    """InputError where devices have speeds and hold others than their own stage."""
    if costs.speeds and schedule.rank_of_stage().tolist() != list(range(schedule.ranks)):
        message = "speeds belong to devices of which each holds the stage of its number"
        raise InputError(Problem(message, hint="leave out `--speeds`, or write another schedule"))


def _read(asked: AskedSchedule) -> Schedule:
    """A schedule from a file in the working folder or in the installed data, of the sizes that are asked for."""
    path = next((path for path in (Path(asked.source), data_root() / asked.source) if path.is_file()), None)
    found = from_actions(read_csv(path or asked.source, asked.source))
    backward = bool(np.isin(found.kind, (Kind.B, Kind.I, Kind.W)).any())
    schedule = validate(replace(found, paths=asked.paths, backward=backward), asked.source)
    if (idle := np.flatnonzero(np.diff(schedule.passes().rank_start) == 0)).size:
        message = f"device {idle[0]} runs no pass"
        raise InputError(Problem(message, asked.source, int(idle[0]) + 1, hint="take its line out"))
    stages = None if asked.chunks is None else asked.chunks * (asked.ranks or schedule.ranks)
    sizes = (
        ("devices (lines)", schedule.ranks, asked.ranks),
        ("stages", schedule.depth, stages),
        ("microbatches", schedule.microbatches, asked.microbatches),
    )
    if wrong := [f"{there} {what}, not {wanted}" for what, there, wanted in sizes if wanted not in (None, there)]:
        hint = "leave out `--stages`, `--chunks` and `--microbatches`: the file says them"
        raise InputError(Problem(f"the schedule has {', '.join(wrong)}", asked.source, hint=hint))
    return schedule


def actions_of(passes: PassColumns) -> list[list[Action]]:
    """The instructions of each device."""
    single = [
        Action(stage, Kind[kind], microbatch)
        for stage, kind, microbatch in zip(passes.stage, passes.kind, passes.microbatch, strict=True)
    ]
    ranks: list[list[Action]] = [[] for _ in range(max(passes.device) + 1)]
    for group in passes.groups():
        parts = tuple(single[at] for at in group)
        one = parts[0] if len(parts) == 1 else Action(-1, Kind.OVERLAP_F_B, NO_MICROBATCH, parts)
        ranks[passes.device[group[0]]].append(one)
    return ranks


def run(asked: AskedSchedule, schedule: Schedule) -> ScheduleDocument:
    """The schedule in time, beside the least that any takes and beside 1F1B.

    InfeasibleError where a device keeps more than the limit, DeadlockError where the schedule waits for itself.
    """
    chunks = Fraction(schedule.depth, schedule.ranks)
    asked = replace(asked, costs=replace(asked.costs, backward=schedule.backward))
    _check_stages(asked.costs, schedule.ranks, schedule.depth)
    _check_homes(asked.costs, schedule)
    microbatches, slices = schedule.microbatches // (schedule.slices * schedule.steps), schedule.slices
    costs, scale = asked.costs.of_stages(schedule.stages, chunks, slices), asked.costs.ticks(chunks, slices)
    if not schedule.vocabulary_sums:
        costs = replace(costs, scores=None, scores_gradient=None)
    _check_clock(costs, schedule.microbatches)
    timing = (time_schedule if schedule.steps == 1 else steady_step)(schedule, costs)
    least = _least(schedule, costs, microbatches)
    _check_limit(asked, timing)
    return ScheduleDocument(
        name=asked.source,
        devices=schedule.ranks,
        stages=schedule.depth,
        copies=schedule.copies,
        microbatches=microbatches,
        slices=None if slices == 1 else slices,
        paths=schedule.paths or None,
        weight_versions=None if schedule.steps == 1 else 2,
        updates_late=None if schedule.steps == 1 else 1,
        costs=_written(asked.costs, schedule.vocabulary_sums > 0, slices),
        memory_limit=asked.limit,
        makespan=timing.makespan / scale,
        least_makespan=least / scale,
        bubble=timing.bubble,
        own_bubble=_own_bubble(timing),
        by_device=_devices(timing, scale),
        against=_baseline(asked.costs, schedule, microbatches),
        passes=_columns(timing, scale),
    )


def _least(schedule: Schedule, costs: Costs, microbatches: int) -> int:
    """Ticks that no order of these passes takes less than; without a flush the work of the busiest device."""
    if schedule.steps == 1:
        return least_makespan(costs, schedule.rank_of_stage(), microbatches, schedule.copies, schedule.paths)
    each = costs.table()[:, [Kind.F, Kind.B]].sum(axis=1)
    return int(np.bincount(schedule.rank_of_stage(), each).max()) * microbatches


def _baseline(asked: AskedCosts, schedule: Schedule, microbatches: int) -> ScheduleFigures:
    """1F1B, all of the vocabulary on its last stage where the schedule has it on every device."""
    ranks = schedule.ranks
    costs = asked.of_stages(ranks, Fraction(1))
    if schedule.vocabulary_sums and costs.scores is not None and costs.scores_gradient is not None:
        costs.forward[-1] += costs.scores.sum()
        costs.weight_gradient[-1] += costs.scores_gradient.sum()
    timing = time_schedule(SCHEDULES.get(BASELINE)(Pipeline(ranks, 1, microbatches, costs=costs)), costs)
    scale = asked.ticks(Fraction(1))
    figures = (timing.makespan / scale, timing.bubble, _own_bubble(timing), float(timing.peak.max()))
    return ScheduleFigures(BASELINE, *figures)


def _own_bubble(timing: Timing) -> float:
    return float((timing.own_idle / (timing.work + timing.own_idle)).max())


def _written(asked: AskedCosts, vocabulary: bool, slices: int) -> PassCosts:
    halves = (one * asked.backward for one in (asked.input_gradient, asked.weight_gradient))
    forward, back, weights, send = map(float, (asked.forward, *halves, asked.send))
    pair, cut = None if asked.pair is None else float(asked.pair), asked.cut(slices)
    scores, gradients = (float(ticks) if vocabulary else None for ticks in (asked.scores, asked.scores_gradient))
    tokens = None if cut is None else tuple(map(float, cut.tokens))
    attention = None if cut is None else float(cut.attention)
    layers, speeds = (tuple(map(float, some)) or None for some in (asked.layers, asked.speeds))
    rest = None if asked.kept_for_weights == 1 else float(asked.kept_for_weights)
    return PassCosts(forward, back, weights, send, pair, scores, gradients, attention, tokens, layers, speeds, rest)


def _devices(timing: Timing, scale: int) -> tuple[DeviceShare, ...]:
    times = (timing.work / scale, timing.idle / scale, timing.own_idle / scale, timing.peak)
    return tuple(DeviceShare(*map(float, row)) for row in zip(*times, strict=True))


def _columns(timing: Timing, scale: int) -> PassColumns:
    passes, names = timing.schedule, [kind.name for kind in Kind]
    return PassColumns(
        tuple(passes.rank.tolist()),
        tuple(names[code] for code in passes.kind.tolist()),
        tuple(passes.stage_of_model.tolist()),
        tuple(_chunks(passes).tolist()),
        tuple(passes.microbatch.tolist()),
        tuple((timing.start / scale).tolist()),
        tuple((timing.end / scale).tolist()),
    )


def _chunks(passes: Schedule) -> Ints:
    """Which of the stages of its rank each pass goes through, in the order of their numbers; shape (n,)."""
    first = passes.rank * passes.stages
    held, at = np.unique(first + passes.stage, return_inverse=True)
    return np.asarray(at - np.searchsorted(held, first))


def _check_limit(asked: AskedSchedule, timing: Timing) -> None:
    worst = int(timing.peak.argmax())
    if asked.limit is not None and timing.peak[worst] > asked.limit * (1 + 1e-9):
        kept = f"{timing.peak[worst]:.6g}"
        raise InfeasibleError(
            f"the memory limit is {asked.limit:g} microbatches, and device {worst} of `{asked.source}` keeps {kept}; "
            f"this order takes `--memory-limit {kept}`"
        )


def _check_clock(costs: Costs, microbatches: int) -> None:
    """InputError where the times, made whole, could leave the clock's range, in the worst of all orders."""
    table = costs.table()
    work = sum(int(ticks) for kind in (Kind.F, Kind.B, *VOCABULARY) for ticks in table[:, kind].tolist())
    if not table[:, : Kind.S].any():
        raise InputError(Problem("all passes take no time", hint="write a `--forward` of more than 0"))
    if microbatches * (work + 2 * costs.stages * costs.send) >= NEVER:
        message = "the costs are too far apart for the clock"
        raise InputError(Problem(message, hint="write them with fewer digits"))
