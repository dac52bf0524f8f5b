"""Results side by side: figures with the best marked, and why one run is faster than another.

The first result of a kind is what the others of that kind are held against. A difference in time is explained by its
parts: of a training step those of the breakdown, of a request those from its arrival to its last token. Parts are
shares of the first one's time for equal work (equal tokens of training, one request of serving), so that what they
add to the first one's sums to the difference.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Any, NamedTuple

from simulator.errors import InputError, Problem
from simulator.metrics import METRICS
from simulator.results.ground import Ground
from simulator.results.infeasibility import undecided
from simulator.results.metrics import error_of_time
from simulator.results.result import Result
from simulator.results.spread import Interval
from simulator.results.summary import ordered_metrics
from simulator.run.kinds import KINDS
from simulator.run.spread.compared import confidence
from simulator.study import header
from simulator.study.compare.notes import PER_STEP, notes, step_tokens

HEADLINE = frozenset(
    {
        "step_time_s",
        "step_time_p99_s",
        "tokens_per_s",
        "tokens_per_s_per_device",
        "mfu",
        "hfu",
        "bubble_fraction",
        "exposed_communication_s",
        "run_time_s",
        "run_energy_j",
        "run_cost_usd",
        "request_throughput",
        "request_goodput",
        "output_throughput",
        "output_throughput_per_device",
        "median_ttft_ms",
        "p99_ttft_ms",
        "median_tpot_ms",
        "p99_tpot_ms",
        "mean_e2el_ms",
        "slo_attainment",
        "mean_queue_ms",
        "preemptions",
        "max_kv_usage",
        "cost_usd_per_million_tokens",
        "energy_j_per_million_tokens",
        "peak_memory_bytes",
    }
)
"""Figures for which most people compare; a kind adds its own (`ScenarioKind.columns`)."""
OF_JOBS = frozenset({"slowdown", "step_time_s", "tokens_per_s", "mean_e2el_ms", "output_throughput"})
"""The same of each of several jobs."""
ALIKE = 1e-3
"""Share of a figure within which runs are equal; so are those with the same three digits, which a page prints."""

SKIPPED = frozenset(
    {
        "completed",
        "failed",
        "unfinished",
        "total_input_tokens",
        "total_output_tokens",
        "mean_batch",
        "utilisation",
        "max_concurrent_requests",
        "prefix_cache_hit_rate",
    }
)
"""Figures of which neither more nor less is better."""


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of every run."""

    metric: str
    values: tuple[float | None, ...]
    """SI (vLLM's keys in milliseconds); None where a run does not have it or it is not a number."""
    best: tuple[int, ...]
    """Indices of the best ones; none where all are equal or none is better than another."""
    headline: bool
    """Whether it is one of those for which most people compare."""


@dataclass(frozen=True, slots=True)
class Run:
    """One of the runs."""

    name: str
    kind: str
    """`training` or `serving`."""
    feasible: bool
    """Whether it fits into memory."""
    seconds: dict[str, float]
    """Seconds of a step, or of a mean request, by what they consist of; empty where nothing ran."""
    shares: dict[str, float]
    """The same for the work of the first of its kind, over the time that this one takes for it."""
    ground: Ground = field(default_factory=Ground)
    """What it stands on."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Between which values measured figures are expected, by metric; none where it does not fit into memory."""
    close: bool = False
    """Whether its memory is within the error of the simulation, above or below what there is."""
    assumptions: tuple[str, ...] = ()
    """What its scenario leaves open and the simulator filled in."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """Version, seed and hash of the scenario, among others."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One run held against the first of its kind."""

    name: str
    against: str
    """Name of that first one."""
    metric: str
    """The figure that is compared."""
    ratio: float
    """Its time over that of the first one, less 1: positive is slower."""
    parts: dict[str, float]
    """What each part adds to that ratio, the largest first; sums to it."""
    feasible: bool = True
    """Whether the run fits into memory."""
    confidence: float | None = None
    """How sure it is that it is faster, or slower, as simulated; None where no published run says so."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs side by side."""

    names: tuple[str, ...]
    """Names of the runs, no two alike."""
    rows: tuple[Row, ...]
    """Figures: the values of every run and which are the best."""
    runs: tuple[Run, ...]
    """What the time of each run consists of."""
    differences: tuple[Difference, ...]
    """Each run held against the first of its kind."""
    notes: tuple[str, ...]
    """What could not be compared, and why."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """What is the same for all runs, in words: `scenario`, `model`, `devices`, `cluster` and so on."""
    differing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The values in turn of the settings in which the runs differ."""
    changes: tuple[str, ...] = ()
    """Overrides of all runs."""


def compare(results: Sequence[Result], names: Sequence[str] | None = None, changes: Sequence[str] = ()) -> Comparison:
    """Hold results against the first of their kind.

    `changes` are the overrides that all of them have, to be shown. `names` are shown in place of those of the results;
    equal ones get a number. InputError for fewer than two results, or for names that are not as many.
    """
    if len(results) < 2:
        raise InputError(Problem("there is nothing to compare", hint="name two scenarios or more"))
    if names is not None and len(names) != len(results):
        raise InputError(Problem(f"{len(names)} names for {len(results)} results"))
    shown = distinct(names if names is not None else [result.name for result in results])
    steps = {f"{step_tokens(result):.9g}" for result in results if result.kind == "training"}
    mixed = len({result.kind for result in results}) > 1
    rows = tuple(_row(name, results, mixed or (len(steps) > 1 and name in PER_STEP)) for name in _common(results))
    timed = [_Timed(result, parts(result) if result.metrics else {}) for result in results]
    first = {kind: _first(timed, kind) for kind in KINDS}
    pairs = [(i, first[result.kind]) for i, result in enumerate(results)]
    ratios = [nan if at is None else _ratio(timed[at], timed[i]) for i, at in pairs]
    runs = tuple(_run(one, name, ratio) for one, name, ratio in zip(timed, shown, ratios, strict=True))
    differences = tuple(
        _difference(runs[i], runs[at], ratios[i]) for i, at in pairs if at is not None and i != at and runs[i].shares
    )
    scenarios = [result.scenario for result in results]
    return Comparison(
        shown,
        rows,
        runs,
        differences,
        tuple(notes(results, shown, [row.metric for row in rows])),
        header.shared(scenarios),
        header.differing(scenarios),
        tuple(changes),
    )


def noting(comparison: Comparison, refused: Mapping[str, InputError]) -> Comparison:
    """The comparison with a note for each combination of values that is not in it, with the reason."""
    left_out = (f"{name} is left out: {' '.join(str(error).split())}" for name, error in refused.items())
    return replace(comparison, notes=(*left_out, *comparison.notes))


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The names; those that come again get a number behind them."""
    found: list[str] = []
    for name in names:
        number, shown = 1, name
        while shown in found:
            number += 1
            shown = f"{name} ({number})"
        found.append(shown)
    return tuple(found)


def parts(result: Result) -> dict[str, float]:
    """Seconds of a step, or of a request, by what they consist of, on average over devices or requests."""
    return KINDS[result.kind].parts(result)


def _common(results: Sequence[Result]) -> list[str]:
    """Figures to show: of one kind those that any run has, of both kinds those that all have of a run as a whole."""
    if len({result.kind for result in results}) == 1:
        known = (name for one in results for name in one.metrics if name in METRICS)
        return list(ordered_metrics(dict.fromkeys(known, 0.0)))
    return [name for name in METRICS if name not in PER_STEP and all(name in result.metrics for result in results)]


def _row(name: str, results: Sequence[Result], unequal: bool) -> Row:
    values = tuple(_number(result.metrics.get(name)) for result in results)
    job, _, own = name.rpartition(": ")
    best = () if unequal or own in SKIPPED else _best(name, values, [result.feasible for result in results])
    shown = OF_JOBS if job else HEADLINE | KINDS[results[0].kind].columns
    return Row(name, values, best, own in shown)


def _number(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _best(name: str, values: Sequence[float | None], feasible: Sequence[bool]) -> tuple[int, ...]:
    """The best of those that fit into memory and what is as good; none where all are alike."""
    known = {i: value for i, value in enumerate(values) if value is not None and feasible[i]}
    least, most = min(known.values(), default=0.0), max(known.values(), default=0.0)
    if len(known) < 2 or _alike(least, most):
        return ()
    best = most if METRICS[name].sense == "rate" else least
    return tuple(i for i, value in known.items() if _alike(value, best))


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= ALIKE * max(abs(one), abs(other)) or f"{one:.3g}" == f"{other:.3g}"


class _Timed(NamedTuple):
    """A result and what its time consists of."""

    result: Result
    seconds: dict[str, float]

    @property
    def speed(self) -> float:
        """The figure that says how fast it is; NaN where nothing ran."""
        speed = self.result.metrics.get(KINDS[self.result.kind].speed, nan)
        return speed if isfinite(speed) and speed > 0 and sum(self.seconds.values()) > 0 else nan


def _first(timed: Sequence[_Timed], kind: str) -> int | None:
    """The first one of a kind against which others can be held; None where none has a time."""
    return next((i for i, one in enumerate(timed) if one.result.kind == kind and isfinite(one.speed)), None)


def _ratio(first: _Timed, other: _Timed) -> float:
    """Time of another run over that of the first, less 1; NaN where it has none."""
    return error_of_time(KINDS[first.result.kind].speed, first.speed, other.speed)


def _run(one: _Timed, name: str, ratio: float) -> Run:
    whole = sum(one.seconds.values())
    timed = one.seconds if isfinite(ratio) else {}
    shares = {key: value / whole * (1 + ratio) for key, value in timed.items()}
    result = one.result
    return Run(
        name,
        result.kind,
        result.feasible,
        one.seconds,
        shares,
        ground=result.ground,
        intervals=result.intervals if result.feasible else {},
        close=undecided(result.warnings),
        assumptions=result.assumptions,
        provenance=result.provenance,
    )


def _difference(run: Run, first: Run, ratio: float) -> Difference:
    keys = dict.fromkeys((*first.shares, *run.shares))
    added = {key: run.shares.get(key, 0.0) - first.shares.get(key, 0.0) for key in keys}
    ordered = dict(sorted(added.items(), key=lambda item: -abs(item[1])))
    sure = confidence(first.ground.circumstances, run.ground.circumstances, ratio)
    return Difference(run.name, first.name, KINDS[run.kind].speed, ratio, ordered, run.feasible, sure)
