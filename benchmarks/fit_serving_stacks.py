"""Fit the three numbers of each serving stack on published rows, and say what is left when a source is left out.

    python -m benchmarks.fit_serving_stacks workloads/measurements/serving.jsonl [--stack NAME] [--jobs 2] [--out DIR]

The time of a row is nearly linear in the reciprocal of `kernel_efficiency`, in `iteration_overhead` and in
`sequence_overhead`. So each round simulates every row at a point and at one step along each of the three, minimises
the mean of |log(simulated / measured)| of the linear model, each source weighing as the square root of its rows, and
starts again from there; the last round decides by simulation which point was best. Rows of dense models on A100, H100
and H200 SXM count where they are a fifth of a stack's rows or more, all rows elsewhere. Stacks that extend another one
share its numbers unless they have their own. Leave-one-out fits without a source (a device, or a model, where there is
one source) and simulates its rows. `--out DIR` rewrites the three lines of the stack files there.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from math import exp, log
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from benchmarks.fit_stacks import at, fitted_file, report, weights, write
from simulator.errors import SimulatorError
from simulator.interop.rows.jsonl import Refused, parse_line, read_lines, read_row
from simulator.interop.rows.serving import MappedServing, ServingRow
from simulator.run.measured.serving import map_serving_row
from simulator.specs.serving import ServingStack
from simulator.study.validate.serving import simulate_mapped

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
LEFT_OUT = Path(__file__).with_name("left_out_serving.json")

Point = tuple[float, float, float]
Logs = dict[str, tuple[float, ...]]
"""log(simulated / measured) of the figures of a row, by row."""
_rows: dict[str, MappedServing] = {}


def load(path: str) -> dict[str, list[MappedServing]]:
    """Rows that can be simulated, by the stack file that holds their numbers."""
    found = defaultdict(list)
    for line in read_lines(path):
        try:
            mapped = map_serving_row(read_row(ServingRow, parse_line(line)))
        except Refused:
            continue
        _rows[mapped.row.id] = mapped
        found[fitted_file(ServingStack.folder, FIELDS[0], mapped.stack)].append(mapped)
    return found


def in_scope(mapped: MappedServing) -> bool:
    """Dense, on a device whose kernels are measured."""
    return mapped.scenario.model.experts is None and bool(SCOPE.search(mapped.row.accelerator))


def logs_of(task: tuple[str, Point]) -> tuple[float, ...]:
    """log(simulated / measured time) of the figures of a row at a point; nothing where it cannot be simulated."""
    name, point = task
    mapped = _rows[name]
    try:
        return tuple(log(1 + part.error) for part in simulate_mapped(mapped, at(mapped, FIELDS, point)).parts)
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


def left_out(fit: Fit, scope: Sequence[MappedServing], point: Point) -> dict[str, float]:
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
        report(f"  without {group} {found}", list(own.values()))
        errors |= own
    return errors


def main() -> None:
    """Fit every stack, report, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("--stack", action="append")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--leave-out", action="store_true", help="score each source with a fit that has not seen it")
    arguments = parser.parse_args()
    stacks = load(arguments.rows)
    unseen: dict[str, float] = json.loads(LEFT_OUT.read_text()) if LEFT_OUT.exists() else {}
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for name, rows in sorted(stacks.items()):
            if name in DEFINED or (arguments.stack and name not in arguments.stack):
                continue
            scope = [m for m in rows if in_scope(m)]
            scope = scope if 5 * len(scope) >= len(rows) else rows
            if len(scope) < FEWEST:
                continue
            fit, chosen = Fit(pool, scope), {m.row.id for m in scope}
            stack = rows[0].scenario.stack
            start: Point = (
                stack.kernel_efficiency.value,
                stack.iteration_overhead.value,
                stack.sequence_overhead.value,
            )
            report(f"{name} as it is {start}", [overall(v) for v in fit.simulate(start).values()])
            point = fit.fitted(start, lambda m, c=chosen: m.row.id in c)  # type: ignore[misc]
            report(f"{name} fitted {point}", [overall(v) for v in fit.simulate(point).values()])
            for note in unsettled(point, scope, fit.slopes(point)):
                print(f"  {name}: {note}", flush=True)
            if arguments.out:
                shown = f"{point[0]:.3g}", _time(point[1]), _time(point[2])
                values = dict(zip(FIELDS, shown, strict=True))
                write(arguments.out / f"{name}.yaml", values, "rows", __file__, scope)
            if arguments.leave_out:
                unseen = {key: value for key, value in unseen.items() if key not in {m.row.id for m in rows}}
                unseen |= left_out(fit, scope, point)
    if arguments.leave_out:
        LEFT_OUT.write_text(json.dumps(unseen, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
