"""Fit the numbers of each serving stack on published rows, and say what is left when a source is left out.

Three numbers every stack has: `kernel_efficiency`, `iteration_overhead`, `sequence_overhead`. Those of its host beside
the engine (`kernel_launch`, `request_overhead`, `request_handling`, `prompt_overhead`) are fitted too where its file
states them, and those of a host that works beside the device (`ahead_overhead`, `stream_overhead`) in place of the
time that the device waits for it. Times of a row are nearly linear in the reciprocal of the efficiency and in the
others. So each round simulates every row at a point and at one step along each number, minimises the sum of
|log(simulated / measured)| of the linear model (its smooth form, near zero a square) and what the prior adds
(`stacks.engines`) within physical bounds, each model of a source weighing as the square root of its rows, and starts
again from there; the last round decides by simulation which point was best. Rows count on devices whose kernels are
measured: those of dense models where they are a fifth of a stack's rows or more and the stack states three numbers
alone, all otherwise. Stacks that extend another one share its numbers unless they have their own. Leave-one-out fits
without a source (a device, or a model, where there is one source) and simulates its rows.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from simulator.calibration.asked import Asked, as_rows, save
from simulator.calibration.stacks.engines import engines, likely
from simulator.calibration.stacks.numbers import at, fitted_file, origin, put, report
from simulator.calibration.stacks.prior import ERROR, Prior
from simulator.errors import InputError, Problem, SimulatorError
from simulator.interop.rows.jsonl import Line, Refused, parse_line, read_row
from simulator.interop.rows.serving import MappedServing, ServingRow
from simulator.run.measured.scores import scored
from simulator.run.measured.serving import map_serving_row
from simulator.specs import load_spec
from simulator.specs.serving import ServingStack

FIELDS = ("kernel_efficiency", "iteration_overhead", "sequence_overhead")
OUTSIDE = (
    "kernel_launch",
    "request_overhead",
    "request_handling",
    "prompt_overhead",
    "ahead_overhead",
    "stream_overhead",
    "verify_overhead",
)
"""Fitted where a stack's file states them."""
BESIDE = {"iteration_overhead": "ahead_overhead", "sequence_overhead": "stream_overhead"}
"""Time that the device waits for the host, and the time of a host beside it: a stack that states the latter works
ahead, and what is left of the former is not fitted, as few rows tell the two apart."""
RANGES = {
    "kernel_efficiency": (0.55, 1.15),
    "iteration_overhead": (5e-5, 40e-3),
    "sequence_overhead": (0.0, 400e-6),
    "kernel_launch": (3e-6, 100e-6),
    "request_overhead": (0.0, 0.3),
    "request_handling": (0.0, 10e-3),
    "prompt_overhead": (0.0, 10e-6),
    "ahead_overhead": (0.0, 20e-3),
    "stream_overhead": (0.0, 400e-6),
    "verify_overhead": (0.0, 400e-6),
}
"""Physical ranges. Kernels slower than half the tables' are other kernels, and few are faster than those, which are
timed alone; every iteration costs the host at least the replay of a graph and the return of its tokens (tens of
microseconds), and at most what Python spent before its loop was taken apart (vLLM 0.5: 62 % of the time on the host,
30 to 40 ms with hundreds of sequences); a sequence costs nothing where the work overlaps with the device, and at most
what a tokeniser in the loop takes. A kernel is launched in 1 us at best; what is counted as one may be several in
unfused code, each with all of Python around it in tens of microseconds. A request passes a server in milliseconds, of
which a process that works on one after the other can have a few, and a
tokeniser makes 100,000 tokens a second at least."""
STEPS = {
    "kernel_efficiency": 0.1,
    "iteration_overhead": 1e-3,
    "sequence_overhead": 10e-6,
    "kernel_launch": 4e-6,
    "request_overhead": 20e-3,
    "request_handling": 0.5e-3,
    "prompt_overhead": 1e-6,
    "ahead_overhead": 0.5e-3,
    "stream_overhead": 10e-6,
    "verify_overhead": 10e-6,
}
"""In 1 / efficiency, seconds."""
FLAT = 0.002
"""Loss that a step of a tenth of its range must cost for a number to count as identified by its rows."""
PAIRS = (("iteration_overhead", "sequence_overhead"), ("ahead_overhead", "stream_overhead"))
"""Times of an iteration and of each of its sequences, which rows of one size of batch do not tell apart."""
TRIED = 101
"""Values of the other number of a pair that are tried, and once more around the best of them."""
NEAR = 0.03
"""Log ratio below which the smooth loss is a square."""
FEWEST = 6
"""Rows that a fit needs."""
DEFINED = ("bare-metal",)
"""Stacks whose numbers are so by definition."""
SCOPE = re.compile(r"(A100|H100|H200|B200) SXM")

Point = tuple[float, ...]
"""Values of the numbers of a stack."""
Floats = NDArray[np.float64]
Slopes = dict[str, tuple[Floats, Floats]]
Logs = dict[str, tuple[float, ...]]
"""log(simulated / measured) of the figures of a row, by row."""
_rows: dict[str, MappedServing] = {}  # of a process that simulates: set once, when it starts


def load(lines: Sequence[Line]) -> dict[str, list[MappedServing]]:
    """Rows that can be simulated, by the stack file that holds their numbers."""
    found = defaultdict(list)
    for line in lines:
        try:
            mapped = map_serving_row(read_row(ServingRow, parse_line(line)))
        except Refused:
            continue
        found[nearest_file(mapped.stack)].append(mapped)
    return found


def nearest_file(name: str) -> str:
    """The stack file that states numbers: a stack's own, or that of the nearest one that it extends."""
    files = [fitted_file(ServingStack.folder or "", field, name) for field in (*FIELDS, *OUTSIDE)]
    return name if name in files else max(files, key=files.count)


def take(rows: Sequence[MappedServing]) -> None:
    """Make rows known to this process, which then simulates them by their names."""
    _rows.update({mapped.row.id: mapped for mapped in rows})


def scope(rows: Sequence[MappedServing], fields: Sequence[str]) -> list[MappedServing]:
    """Rows that a fit of these numbers rests on."""
    known = [m for m in rows if SCOPE.search(m.row.accelerator)]
    dense = [m for m in known if m.scenario.model.experts is None]
    if tuple(fields) == FIELDS and 5 * len(dense) >= len(rows):
        return dense
    return known if 5 * len(known) >= len(rows) else list(rows)


def fields_of(name: str) -> tuple[str, ...]:
    """Numbers that are fitted of those that the file of a stack states."""
    stack, folder = load_spec(ServingStack, name), ServingStack.folder or ""
    stated = [f for f in (*FIELDS, *OUTSIDE) if f in stack.model_fields_set and getattr(stack, f) is not None]
    own = [f for f in stated if fitted_file(folder, f, name) == name]
    return tuple(field for field in own if BESIDE.get(field) not in stated)


def as_shipped(name: str, fields: Sequence[str]) -> Point:
    """Numbers of a stack as its file has them; rows may have some of them struck out."""
    stack = load_spec(ServingStack, name)
    return tuple(getattr(stack, field).value for field in fields)


def strewn(rows: Sequence[MappedServing], each: int | None) -> list[MappedServing]:
    """At most `each` rows of each model on each device of each source, spread evenly."""
    groups = defaultdict(list)
    for m in rows:
        groups[m.row.source, m.row.model, m.row.accelerator].append(m)
    if each is None:
        return list(rows)
    return [m for g in groups.values() for m in (g if len(g) <= each else [g[i * len(g) // each] for i in range(each)])]


def importance(rows: Sequence[MappedServing]) -> dict[str, float]:
    """Weights of rows: each model of each source weighs as the square root of its rows."""
    counts = Counter((m.row.source, m.row.model) for m in rows)
    return {m.row.id: 1 / sqrt(counts[m.row.source, m.row.model]) for m in rows}


def logs_of(task: tuple[str, tuple[str, ...], Point]) -> tuple[float, ...]:
    """log(simulated / measured time) of the figures of a row at a point; nothing where it cannot be simulated."""
    name, fields, point = task
    mapped = _rows[name]
    try:
        return tuple(log(1 + part.error) for part in scored(mapped, at(mapped, fields, point)))
    except (Refused, SimulatorError):
        return ()


class Fit:
    """Rows, the numbers to be fitted, and what was simulated for them."""

    def __init__(self, pool: ProcessPoolExecutor, rows: Sequence[MappedServing], fields: Sequence[str]) -> None:
        self.pool, self.rows, self.fields = pool, list(rows), tuple(fields)
        self.known: dict[Point, Logs] = {}

    def simulate(self, point: Point) -> Logs:
        """All rows at a point."""
        if point not in self.known:
            self.known[point] = self.errors(self.rows, point)
        return self.known[point]

    def slopes(self, point: Point) -> Slopes:
        """(times over measured ones, their derivatives by the numbers) of each row at a point."""
        centre = self.simulate(point)
        moved = [self.simulate(self.moved(point, i)) for i in range(len(self.fields))]
        found = {}
        for name, logs in centre.items():
            if all(name in m for m in moved):
                times = np.exp(logs)
                slope = [(np.exp(m[name]) - times) / step for m, step in zip(moved, self.steps, strict=True)]
                found[name] = times, np.array(slope)
        return found

    def errors(self, rows: Sequence[MappedServing], point: Point) -> Logs:
        """Some of the rows at a point."""
        found = self.pool.map(logs_of, [(m.row.id, self.fields, point) for m in rows], chunksize=8)
        return {m.row.id: logs for m, logs in zip(rows, found, strict=True) if logs}

    def fitted(self, start: Point, use: Callable[[MappedServing], bool], known: Prior, rounds: int = 2) -> Point:
        """The best point for the rows that count."""
        used = [m for m in self.rows if use(m)]
        point, tried = start, [start]
        for _ in range(rounds):
            point = self.minimum(point, used, self.slopes(point), known)
            tried.append(point)
        return min(tried, key=lambda p: loss(used, self.simulate(p)))

    def moved(self, point: Point, i: int) -> Point:
        """A point one step along a number."""
        coordinates = list(point)
        field = self.fields[i]
        if field == "kernel_efficiency":
            coordinates[i] = 1 / (1 / point[i] + STEPS[field])
        else:
            coordinates[i] += STEPS[field]
        return tuple(coordinates)

    @property
    def steps(self) -> Floats:
        """Steps along the numbers."""
        return np.array([STEPS[field] for field in self.fields])

    def coordinates(self, point: Point) -> Floats:
        """A point as what times are linear in, in steps."""
        values = [1 / v if f == "kernel_efficiency" else v for f, v in zip(self.fields, point, strict=True)]
        return np.array([v / STEPS[f] for f, v in zip(self.fields, values, strict=True)])

    def bounds(self) -> tuple[Floats, Floats]:
        """Least and most of the coordinates."""
        ends = (self.coordinates(tuple(RANGES[f][i] for f in self.fields)) for i in (0, 1))
        one, other = ends
        return np.minimum(one, other), np.maximum(one, other)

    def minimum(self, point: Point, rows: Sequence[MappedServing], slopes: Slopes, known: Prior) -> Point:
        """Minimum of the linear model around a point and of the prior, within bounds; where no row counts, that of the
        prior."""
        weight, steps = importance(rows), self.steps
        kept = [(m.row.id, *slopes[m.row.id]) for m in rows if m.row.id in slopes]
        times = np.concatenate([np.empty(0), *(t for _, t, _ in kept)])
        slope = np.concatenate([np.empty((0, len(steps))), *(s.T for _, _, s in kept)]) * steps
        share = np.concatenate([np.empty(0), *(np.full(len(t), weight[name] / len(t)) for name, t, _ in kept)])
        centre, (low, high) = self.coordinates(point), self.bounds()

        def residuals(x: Floats) -> Floats:
            logs = np.log(np.maximum(times + slope @ (x - centre), 0.02))
            smooth = logs * np.sqrt(2 * share / (NEAR * (1 + np.sqrt(1 + (logs / NEAR) ** 2))))
            return np.concatenate([smooth, np.sqrt(ERROR) * np.array(known.away(self.values(x)))])

        start = np.clip(centre, low + 1e-6 * (high - low), high - 1e-6 * (high - low))
        return tuple(round(v, 9) for v in self.values(least_squares(residuals, start, bounds=(low, high)).x))

    def values(self, coordinates: Floats) -> Point:
        """The point at these coordinates."""
        found = zip(self.fields, coordinates * self.steps, strict=True)
        return tuple(float(1 / v if f == "kernel_efficiency" else v) for f, v in found)


def loss(rows: Sequence[MappedServing], logs: Logs) -> float:
    """Weighted mean of the absolute log ratios."""
    weight = importance(rows)
    sizes = [(weight[m.row.id], np.abs(logs[m.row.id]).mean()) for m in rows if m.row.id in logs]
    return float(sum(w * s for w, s in sizes) / sum(w for w, _ in sizes))


def unsettled(fit: Fit, point: Point) -> dict[str, str]:
    """What to say of numbers that the rows do not identify, alone or apart from the other of a pair, and of those at a
    bound of their range."""
    weight, slopes = importance(fit.rows), fit.slopes(point)
    kept = [(weight[name], *found) for name, found in slopes.items()]
    centre, (low, high), notes = fit.coordinates(point), fit.bounds(), {}
    steps = fit.steps

    def cost(offset: Floats) -> float:
        total = sum(w * np.abs(np.log(np.maximum(t + (offset * steps) @ s, 0.02))).mean() for w, t, s in kept)
        return float(total / sum(w for w, _, _ in kept))

    for i, name in enumerate(fit.fields):
        step = 0.1 * (high[i] - low[i]) * np.eye(len(fit.fields))[i]
        sides = [side * step for side in (1, -1) if low[i] <= (centre + side * step)[i] <= high[i]]
        least = min(cost(side) for side in sides) - cost(np.zeros(len(fit.fields)))
        if least < FLAT:
            notes[name] = f"not identified by its rows: a tenth of its range costs {least:+.4f}"
        if min(centre[i] - low[i], high[i] - centre[i]) < 0.01 * (high[i] - low[i]):
            notes[name] = "at a bound of its range"
    for name, other in (pair for one, two in PAIRS for pair in ((one, two), (two, one))):
        if name in fit.fields and other in fit.fields:
            i, j = fit.fields.index(name), fit.fields.index(other)
            together = _beside(cost, centre, (low, high), i, j)
            if together is not None and together < FLAT:
                said = f"not identified apart from {other}: a tenth of its range with another one of that costs"
                notes.setdefault(name, f"{said} {together:+.4f}")
    return notes


def _beside(
    cost: Callable[[Floats], float], centre: Floats, bounds: tuple[Floats, Floats], i: int, j: int
) -> float | None:
    """Loss that a step of a tenth of its range costs a number where another one makes up for it as well as it can; None
    where neither step is within the range."""
    (low, high), units = bounds, np.eye(len(centre))
    found = []
    for step in (0.1 * (high[i] - low[i]), -0.1 * (high[i] - low[i])):
        if not low[i] <= centre[i] + step <= high[i]:
            continue
        begin, end = low[j], high[j]
        for _ in range(2):  # coarse, then around the best
            tried = np.linspace(begin, end, TRIED)
            costs = [cost(step * units[i] + (value - centre[j]) * units[j]) for value in tried]
            best = int(np.argmin(costs))
            begin, end = tried[max(best - 1, 0)], tried[min(best + 1, TRIED - 1)]
        found.append(min(costs))
    return min(found) - cost(np.zeros(len(centre))) if found else None


def overall(logs: tuple[float, ...]) -> float:
    """Error of a row as validation reports it."""
    found = [exp(value) - 1 for value in logs]
    size = sum(map(abs, found)) / len(found)
    return size if sum(found) >= 0 else -size


def _time(value: float) -> str:
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} us"


def known_of(name: str, fit: Fit) -> Prior:
    """What is known of the numbers of a stack before its rows are seen."""
    others = {other: found for other, found in engines().items() if other != name}
    return likely(dict(zip(fit.fields, as_shipped(name, fit.fields), strict=True)), others)


def left_out(asked: Asked, name: str, fit: Fit, rows: Sequence[MappedServing], point: Point) -> dict[str, float]:
    """Errors of the rows of each source (each device where there is one source) with a fit without it."""
    errors, known = dict[str, float](), known_of(name, fit)
    keys: tuple[Callable[[MappedServing], str], ...] = (
        lambda m: m.row.source,
        lambda m: m.row.accelerator,
        lambda m: m.row.model,
    )
    key = next((key for key in keys if len({key(m) for m in rows}) > 1), keys[0])

    for group in sorted({key(m) for m in rows}):
        rest = [m for m in rows if key(m) != group]
        found = fit.fitted(point, lambda m, g=group: key(m) != g, known, 1) if rest else point  # type: ignore[misc]
        logs = fit.errors([m for m in fit.rows if key(m) == group], found)
        own = {row: overall(figures) for row, figures in logs.items()}
        asked.say(report(f"  without {group}: {_said(fit, found)}", list(own.values())))
        errors |= own
    return errors


def calibrate(asked: Asked, lines: Sequence[Line]) -> None:
    """Fit every stack asked for, say its numbers and errors, write what was asked for."""
    stacks = load(lines)
    everything = [mapped for rows in stacks.values() for mapped in rows]
    unseen = _known_errors(asked.left_out)
    with ProcessPoolExecutor(asked.jobs, initializer=take, initargs=(everything,)) as pool:
        for name in asked.chosen(sorted(stacks), "stack"):
            rows, fields = stacks[name], fields_of(name)
            counted = strewn(scope(rows, fields), asked.samples)
            if name in DEFINED or len(counted) < FEWEST:
                continue
            fit = Fit(pool, counted, fields)
            point = _fitted(asked, name, fit)
            if asked.left_out:
                unseen = {key: value for key, value in unseen.items() if key not in {m.row.id for m in rows}}
                unseen |= left_out(asked, name, fit, counted, point)
    if asked.left_out:
        save(asked.left_out, as_rows(unseen))


def _fitted(asked: Asked, name: str, fit: Fit) -> Point:
    """The numbers of a stack fitted, or as they are where that is asked for."""
    start = as_shipped(name, fit.fields)
    asked.say(report(f"{name} as it is {_said(fit, start)}", [overall(v) for v in fit.simulate(start).values()]))
    if asked.as_is:
        return start
    point = fit.fitted(start, lambda _: True, known_of(name, fit))
    asked.say(report(f"{name} fitted {_said(fit, point)}", [overall(v) for v in fit.simulate(point).values()]))
    notes = unsettled(fit, point)
    for field, note in notes.items():
        asked.say(f"  {name}: {field} is {note}")
    if asked.out:
        source = origin("rows", fit.rows)
        put(asked.out, name, {f: _figure(f, v, source, notes.get(f)) for f, v in zip(fit.fields, point, strict=True)})
    return point


def _figure(field: str, value: float, source: str, note: str | None) -> str:
    """A fitted number as YAML; only what the rows identify is measured."""
    status, more = ("measured", "") if note is None else ("estimate", f"; {note}")
    return f'{{value: {_shown(field, value)}, status: {status}, source: "{source}{more}"}}'


def _said(fit: Fit, point: Point) -> str:
    return ", ".join(_shown(field, value) for field, value in zip(fit.fields, point, strict=True))


def _shown(field: str, value: float) -> str:
    """A number as stack files have it."""
    return f"{value:.3g}" if field == "kernel_efficiency" else _time(value)


def _known_errors(path: Path | None) -> dict[str, float]:
    """Errors that an earlier run wrote, which those of the stacks of this one replace."""
    if path is None or not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(Problem(f"holds no errors by row: {error}", file=str(path))) from None
