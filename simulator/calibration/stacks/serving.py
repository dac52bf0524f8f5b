"""Fit the three numbers of each serving stack on published rows, and say what is left when a source is left out.

The time of a row is nearly linear in the reciprocal of `kernel_efficiency`, in `iteration_overhead` and in
`sequence_overhead`. So each round simulates every row at a point and at one step along each of the three, minimises
the mean of |log(simulated / measured)| of the linear model, each source weighing as the square root of its rows, and
starts again from there; the last round decides by simulation which point was best. Rows of dense models on A100, H100
and H200 SXM count where they are a fifth of a stack's rows or more, all rows elsewhere. Stacks that extend another one
share its numbers unless they have their own. Leave-one-out fits without a source (a device, or a model, where there is
one source) and simulates its rows.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from math import exp, log
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from simulator.calibration.asked import Asked, as_rows, save
from simulator.calibration.stacks.numbers import at, fitted_file, origin, put, report, weights
from simulator.errors import InputError, Problem, SimulatorError
from simulator.interop.rows.jsonl import Line, Refused, parse_line, read_row
from simulator.interop.rows.serving import MappedServing, ServingRow
from simulator.run.measured.scores import scored
from simulator.run.measured.serving import map_serving_row
from simulator.specs.serving import ServingStack

FIELDS = ("kernel_efficiency", "iteration_overhead", "sequence_overhead")
LOW, HIGH = np.array([0.55, 5e-5, 0.0]), np.array([1.15, 40e-3, 400e-6])
"""Physical ranges. Kernels slower than half the tables' are other kernels, and few are faster than those, which are
timed alone; every iteration costs the host at least the replay of a graph and the return of its tokens (tens of
microseconds), and at most what Python spent before its loop was taken apart (vLLM 0.5: 62 % of the time on the host,
30 to 40 ms with hundreds of sequences); a sequence costs nothing where the work overlaps with the device, and at most
what a tokeniser in the loop takes."""
FLAT = 0.002
"""Loss that a step of a tenth of its range must cost for a number to count as identified by its rows."""
STEP = np.array([0.1, 1e-3, 10e-6])
"""In 1 / efficiency, seconds, seconds."""
FEWEST = 6
"""Rows that a fit needs; from 10 on all three numbers are free, before that the last one stays."""
DEFINED = ("bare-metal",)
"""Stacks whose numbers are so by definition."""
SCOPE = re.compile(r"(A100|H100|H200) SXM")

Point = tuple[float, float, float]
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
        found[fitted_file(ServingStack.folder or "", FIELDS[0], mapped.stack)].append(mapped)
    return found


def take(rows: Sequence[MappedServing]) -> None:
    """Make rows known to this process, which then simulates them by their names."""
    _rows.update({mapped.row.id: mapped for mapped in rows})


def in_scope(mapped: MappedServing) -> bool:
    """Dense, on a device whose kernels are measured."""
    return mapped.scenario.model.experts is None and bool(SCOPE.search(mapped.row.accelerator))


def logs_of(task: tuple[str, Point]) -> tuple[float, ...]:
    """log(simulated / measured time) of the figures of a row at a point; nothing where it cannot be simulated."""
    name, point = task
    mapped = _rows[name]
    try:
        return tuple(log(1 + part.error) for part in scored(mapped, at(mapped, FIELDS, point)))
    except (Refused, SimulatorError):
        return ()


class Fit:
    """Rows, and what was simulated for them."""

    def __init__(self, pool: ProcessPoolExecutor, rows: Sequence[MappedServing]) -> None:
        self.pool, self.rows = pool, list(rows)
        self.known: dict[Point, Logs] = {}

    def simulate(self, point: Point) -> Logs:
        """All rows at a point."""
        if point not in self.known:
            tasks = [(m.row.id, point) for m in self.rows]
            found = zip(self.rows, self.pool.map(logs_of, tasks, chunksize=8), strict=True)
            self.known[point] = {m.row.id: logs for m, logs in found if logs}
        return self.known[point]

    def slopes(self, point: Point) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """(times over measured ones, their derivatives by the three numbers) of each row at a point."""
        centre = self.simulate(point)
        moved = [self.simulate(_moved(point, i)) for i in range(3)]
        found = {}
        for name, logs in centre.items():
            if all(name in m for m in moved):
                times = np.exp(logs)
                found[name] = times, np.array([(np.exp(m[name]) - times) / STEP[i] for i, m in enumerate(moved)])
        return found

    def fitted(self, start: Point, use: Callable[[MappedServing], bool], rounds: int = 2) -> Point:
        """The best point for the rows that count."""
        used = [m for m in self.rows if use(m)]
        point = start
        for _ in range(rounds):
            point = _minimum(point, used, self.slopes(point))
        return min((start, point), key=lambda p: loss(used, self.simulate(p)))


def _moved(point: Point, i: int) -> Point:
    coordinates = np.array([1 / point[0], *point[1:]])
    coordinates[i] += STEP[i]
    return (1 / coordinates[0], float(coordinates[1]), float(coordinates[2]))


def loss(rows: Sequence[MappedServing], logs: Logs) -> float:
    """Weighted mean of the absolute log ratios."""
    weight = weights(rows)
    sizes = [(weight[m.row.id], np.abs(logs[m.row.id]).mean()) for m in rows if m.row.id in logs]
    return float(sum(w * s for w, s in sizes) / sum(w for w, _ in sizes))


def _minimum(point: Point, rows: Sequence[MappedServing], slopes: dict[str, tuple[np.ndarray, np.ndarray]]) -> Point:
    """Minimum of the linear model around a point, within bounds."""
    weight = weights(rows)
    kept = [(weight[m.row.id], *slopes[m.row.id]) for m in rows if m.row.id in slopes]
    centre = np.array([1 / point[0], *point[1:]])
    low, high = np.array([1 / HIGH[0], *LOW[1:]]), np.array([1 / LOW[0], *HIGH[1:]])
    if len(rows) < 10:
        low[2] = high[2] = centre[2]

    def cost(scaled: np.ndarray) -> float:
        offset = np.clip(centre + scaled * STEP, low, high) - centre
        outside = float(np.abs(centre + scaled * STEP - offset - centre).sum())
        total = sum(w * np.abs(np.log(np.maximum(t + offset @ s, 0.02))).mean() for w, t, s in kept)
        return float(total / sum(w for w, _, _ in kept) + 100 * outside)

    starts = (np.zeros(3), np.array([1.0, 0.5, 0.0]), np.array([-1.0, 0.5, 0.5]))
    best = min(
        (minimize(cost, s, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-5}) for s in starts),
        key=lambda found: float(found.fun),
    )
    found = np.clip(centre + best.x * STEP, low, high)
    return (round(1 / float(found[0]), 3), round(float(found[1]), 6), round(float(found[2]), 8))


def unsettled(
    point: Point, rows: Sequence[MappedServing], slopes: dict[str, tuple[np.ndarray, np.ndarray]]
) -> list[str]:
    """What to say of numbers that the rows do not identify, and of those at a bound of their range."""
    weight = weights(rows)
    kept = [(weight[m.row.id], *slopes[m.row.id]) for m in rows if m.row.id in slopes]
    low, high = np.array([1 / HIGH[0], *LOW[1:]]), np.array([1 / LOW[0], *HIGH[1:]])
    centre, notes = np.array([1 / point[0], *point[1:]]), []

    def cost(offset: np.ndarray) -> float:
        total = sum(w * np.abs(np.log(np.maximum(t + offset @ s, 0.02))).mean() for w, t, s in kept)
        return float(total / sum(w for w, _, _ in kept))

    for i, name in enumerate(FIELDS):
        step = 0.1 * (high[i] - low[i]) * np.eye(3)[i]
        least = min(cost(side * step) for side in (1, -1) if low[i] <= (centre + side * step)[i] <= high[i])
        if least - cost(np.zeros(3)) < FLAT:
            notes.append(f"{name} is not identified: a tenth of its range costs {least - cost(np.zeros(3)):+.4f}")
        if min(centre[i] - low[i], high[i] - centre[i]) < 0.01 * (high[i] - low[i]):
            notes.append(f"{name} is at a bound of its range")
    return notes


def overall(logs: tuple[float, ...]) -> float:
    """Error of a row as validation reports it."""
    found = [exp(value) - 1 for value in logs]
    size = sum(map(abs, found)) / len(found)
    return size if sum(found) >= 0 else -size


def _time(value: float) -> str:
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} us"


def left_out(asked: Asked, fit: Fit, scope: Sequence[MappedServing], point: Point) -> dict[str, float]:
    """Errors of the rows of each source (each device where there is one source) with a fit without it."""
    errors: dict[str, float] = {}
    keys: tuple[Callable[[MappedServing], str], ...] = (
        lambda m: m.row.source,
        lambda m: m.row.accelerator,
        lambda m: m.row.model,
    )
    key = next((key for key in keys if len({key(m) for m in scope}) > 1), keys[0])

    for group in sorted({key(m) for m in scope}):
        rest = [m for m in scope if key(m) != group]
        found = fit.fitted(point, lambda m, g=group: key(m) != g, 1) if rest else point  # type: ignore[misc]
        logs = fit.simulate(found)
        own = {m.row.id: overall(logs[m.row.id]) for m in fit.rows if key(m) == group and m.row.id in logs}
        asked.say(report(f"  without {group} {found}", list(own.values())))
        errors |= own
    return errors


def calibrate(asked: Asked, lines: Sequence[Line]) -> None:
    """Fit every stack asked for, say its numbers and errors, write what was asked for."""
    stacks = load(lines)
    everything = [mapped for rows in stacks.values() for mapped in rows]
    unseen = _known_errors(asked.left_out)
    with ProcessPoolExecutor(asked.jobs, initializer=take, initargs=(everything,)) as pool:
        for name in asked.chosen(sorted(stacks), "stack"):
            rows = stacks[name]
            scope = [m for m in rows if in_scope(m)]
            scope = scope if 5 * len(scope) >= len(rows) else rows
            if name in DEFINED or len(scope) < FEWEST:
                continue
            fit = Fit(pool, scope)
            point = _fitted(asked, name, fit)
            if asked.left_out:
                unseen = {key: value for key, value in unseen.items() if key not in {m.row.id for m in rows}}
                unseen |= left_out(asked, fit, scope, point)
    if asked.left_out:
        save(asked.left_out, as_rows(unseen))


def _fitted(asked: Asked, name: str, fit: Fit) -> Point:
    """The numbers of a stack fitted, or as they are where that is asked for."""
    stack = fit.rows[0].scenario.stack
    start: Point = (stack.kernel_efficiency.value, stack.iteration_overhead.value, stack.sequence_overhead.value)
    asked.say(report(f"{name} as it is {start}", [overall(v) for v in fit.simulate(start).values()]))
    if asked.as_is:
        return start
    point = fit.fitted(start, lambda _: True)
    asked.say(report(f"{name} fitted {point}", [overall(v) for v in fit.simulate(point).values()]))
    for note in unsettled(point, fit.rows, fit.slopes(point)):
        asked.say(f"  {name}: {note}")
    if asked.out:
        source, shown = origin("rows", fit.rows), (f"{point[0]:.3g}", _time(point[1]), _time(point[2]))
        figures = (f'{{value: {value}, status: measured, source: "{source}"}}' for value in shown)
        put(asked.out, name, dict(zip(FIELDS, figures, strict=True)))
    return point


def _known_errors(path: Path | None) -> dict[str, float]:
    """Errors that an earlier run wrote, which those of the stacks of this one replace."""
    if path is None or not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(Problem(f"holds no errors by row: {error}", file=str(path))) from None
