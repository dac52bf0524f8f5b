"""Fit the three numbers of each software stack on published step times, and say what is left when a source is left out.

    python -m benchmarks.fit_stacks workloads/measurements/training.jsonl [--stack NAME] [--jobs 2] [--out DIR]

For each stack the mean of |log(simulated / measured)| over its dense 16-bit rows of tiers 1 and 2 is minimised, each
source weighing as the square root of its rows, by a search along one coordinate after the other. Then every number is
moved away from its best value until the rows tell the difference (`benchmarks.identified`). A layer overhead that zero
replaces as well is dropped, an overlap quality of which every value does as well keeps its starting value, and the
others are fitted again.

With `--out` the stack files there are rewritten: only the three numbers, their status and their sources change, and
only a number that its rows identify is `measured`. Leave-one-source-out fits a stack without one source and scores
that source; a stack with a single source is scored with the medians of the other stacks' numbers.

Simulating a row takes 0.05 to 0.1 s. A stack needs 30 to 60 points for the fit and as many for the intervals: with
`--sample 40 --jobs 2` all stacks together take about an hour on two cores, `--leave-out` as long again.
"""

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from math import exp, log, sqrt
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.identified import Floats, Interval, worse
from simulator.interop.rows.jsonl import Refused, parse_line, read_lines, read_row, sample
from simulator.interop.rows.training import Row
from simulator.run.measured.training import Mapped, map_row
from simulator.specs.catalog import data_root
from simulator.specs.training import Stack
from simulator.study.validate.training import simulate_mapped

FIELDS = ("compute_efficiency", "layer_overhead", "overlap_quality")
STEPS = {
    "compute_efficiency": (0.06, 0.03, 0.01),
    "layer_overhead": (500e-6, 200e-6, 100e-6),
    "overlap_quality": (0.2, 0.1, 0.1),
}
BOUNDS = {"compute_efficiency": (0.5, 1.0), "layer_overhead": (0.0, 3e-3), "overlap_quality": (0.3, 1.0)}
START = {"compute_efficiency": 0.82, "layer_overhead": 200e-6, "overlap_quality": 0.9}
PARTNER = (1, 0, 0)
"""The number that each one trades against, which is fitted anew in its profile."""
EFFICIENCY, OVERHEAD, QUALITY = range(3)

MEASURED = ("A100", "A800", "H100", "H200")
"""Devices whose kernels are measured: errors elsewhere are not the stack's."""

Point = tuple[float, ...]
_rows: dict[str, Mapped] = {}


def load(path: str, each: int | None) -> dict[str, list[Mapped]]:
    """Rows that count, by stack file name; at most `each` a source."""
    found = defaultdict(list)
    lines = list(read_lines(path))
    for line in sample(lines, each) if each else lines:
        try:
            mapped = map_row(read_row(Row, parse_line(line)))
        except Refused:
            continue
        row = mapped.row
        if row.tier <= 2 and row.precision in ("fp16", "bf16", "amp_bf16") and row.device.startswith(MEASURED):
            _rows[row.id] = mapped
            found[fitted_file(Stack.folder, FIELDS[0], mapped.stack)].append(mapped)
    return found


def fitted_file(folder: str, field: str, name: str) -> str:
    """The stack file that holds the fitted numbers of a stack: its own, or that of the stack that it extends."""
    text = (data_root() / folder / f"{name}.yaml").read_text()
    base = re.search(r"^extends: stacks/(\S+)$", text, re.M)
    return fitted_file(folder, field, base[1]) if base and field not in text else name


def at(mapped: Any, fields: Sequence[str], point: Point) -> Any:
    """The scenario of a row with other numbers of its stack."""
    stack = mapped.scenario.stack
    changes = {f: getattr(stack, f).model_copy(update={"value": v}) for f, v in zip(fields, point, strict=True)}
    return mapped.scenario.model_copy(update={"stack": stack.model_copy(update=changes)})


def weights(rows: Sequence[Any]) -> dict[str, float]:
    """Weights of rows: each source weighs as the square root of its rows."""
    counts = Counter(m.row.source for m in rows)
    return {m.row.id: 1 / sqrt(counts[m.row.source]) for m in rows}


def ratio(task: tuple[str, Point]) -> float:
    """log(simulated / measured) of a row at a point."""
    name, point = task
    outcome = simulate_mapped(_rows[name], at(_rows[name], FIELDS, point))
    assert outcome.error is not None
    return log(1 + outcome.error)


class Fit:
    """Search over one set of rows."""

    def __init__(self, pool: ProcessPoolExecutor, rows: list[Mapped]) -> None:
        self.pool, self.rows = pool, rows
        self.weights = np.array([weights(rows)[m.row.id] for m in rows])
        self.known: dict[Point, Floats] = {}

    @property
    def free(self) -> tuple[int, ...]:
        """Numbers that are fitted. Few rows carry few: 10 all three, 4 the efficiency, fewer none."""
        count = len(FIELDS) if len(self.rows) >= 10 else 1 if len(self.rows) >= 4 else 0
        return tuple(range(count))

    def losses(self, point: Point) -> Floats:
        """Absolute log ratios by row; shape (rows,)."""
        if point not in self.known:
            ratios = self.pool.map(ratio, [(m.row.id, point) for m in self.rows], chunksize=2)
            self.known[point] = np.abs(np.fromiter(ratios, np.float64))
        return self.known[point]

    def loss(self, point: Point) -> float:
        """Weighted mean of the absolute log ratios."""
        return float(self.weights @ self.losses(point) / self.weights.sum())

    def search(self, start: Point, free: Sequence[int] | None = None, first: int = 0) -> Point:
        """Coordinate search in some of the numbers, with steps that shrink from the `first` one on."""
        point = start
        for size in range(first, len(STEPS[FIELDS[0]])):
            moved = True
            while moved:
                moved = False
                for i in self.free if free is None else free:
                    for sign in (1, -1):
                        candidate = _stepped(point, i, sign * STEPS[FIELDS[i]][size])
                        if candidate != point and self.loss(candidate) < self.loss(point) - 1e-5:
                            point, moved = candidate, True
        return point

    def fitted(self) -> tuple[Point, tuple[Interval, ...]]:
        """The best point and what the rows say about each number, without those that they do not tell."""
        start = tuple(START.values())
        point = self.search(start)
        free = list(self.free)
        intervals = self.intervals(point)
        if OVERHEAD in free and intervals[OVERHEAD].low <= 0.0:
            point, free = (point[EFFICIENCY], 0.0, point[QUALITY]), [i for i in free if i != OVERHEAD]
        if QUALITY in free and intervals[QUALITY].verdict == "not identified":
            point, free = (*point[:QUALITY], start[QUALITY]), [i for i in free if i != QUALITY]
        if len(free) < len(self.free):
            point = self.search(point, free, first=1)
            intervals = self.intervals(point)
        return point, intervals

    def intervals(self, point: Point) -> tuple[Interval, ...]:
        """Between which values each number does as well as at a point."""
        return tuple(
            Interval(point[i], self._end(point, i, -1), self._end(point, i, 1), BOUNDS[FIELDS[i]])
            if i in self.free
            else Interval(point[i], *BOUNDS[FIELDS[i]], BOUNDS[FIELDS[i]], fitted=False)
            for i in range(len(FIELDS))
        )

    def _end(self, point: Point, i: int, sign: int) -> float:
        """The last value in one direction that does as well, with the partner of the number fitted anew."""
        step, last = STEPS[FIELDS[i]][-1], point
        while (moved := _stepped(last, i, sign * step)) != last:
            partner = [j for j in (PARTNER[i],) if j in self.free]
            moved = self.search(moved, partner, first=1)
            if worse(self.losses(point), self.losses(moved), self.weights):
                break
            last, step = moved, 2 * step
        return last[i]


def _stepped(point: Point, i: int, step: float) -> Point:
    """A point with one number moved, within its bounds."""
    low, high = BOUNDS[FIELDS[i]]
    return (*point[:i], round(min(max(point[i] + step, low), high), 9), *point[i + 1 :])


def errors(pool: ProcessPoolExecutor, rows: list[Mapped], point: Point) -> list[float]:
    """Relative errors of rows at a point."""
    return [exp(r) - 1 for r in pool.map(ratio, [(m.row.id, point) for m in rows], chunksize=2)]


def report(title: str, found: Sequence[float]) -> None:
    """A line of figures."""
    if not found:
        return
    size = sorted(map(abs, found))
    print(
        f"{title:<60} {len(found):4d} rows  mean {100 * sum(size) / len(size):5.1f}  median {100 * median(size):5.1f}"
        f"  P90 {100 * size[int(0.9 * (len(size) - 1))]:5.1f}  signed {100 * sum(found) / len(found):+5.1f} %",
        flush=True,
    )


def write(path: Path, values: dict[str, str], what: str, script: str, rows: Sequence[Any]) -> None:
    """Put fitted values into a stack file, with `what` was fitted and by which script."""
    source = origin(what, script, rows)
    put(path, {field: f'{{value: {shown}, status: measured, source: "{source}"}}' for field, shown in values.items()})


def origin(what: str, script: str, rows: Sequence[Any]) -> str:
    """What was fitted on which rows, by which script and when."""
    sources = ", ".join(sorted({m.row.source for m in rows}))
    return f"fitted on {len(rows)} published {what} ({sources}), benchmarks/{Path(script).name}, {date.today()}"


def put(path: Path, figures: dict[str, str]) -> None:
    """Put figures, as YAML has them, into a stack file."""
    text = path.read_text()
    for field, figure in figures.items():
        text = re.sub(rf"^{field}:.*$", f"{field}: {figure}".replace("\\", "\\\\"), text, flags=re.M)
    path.write_text(text)


def shown(field: str, value: float) -> str:
    """A number as stack files have it."""
    return f"{value * 1e6:.0f} us" if field == "layer_overhead" else f"{value:.3g}"


def said(field: str, interval: Interval) -> str:
    """What the rows say about a number, in words."""
    if interval.verdict == "not fitted":
        return "too few rows to fit it"
    between = f"{shown(field, interval.low)} to {shown(field, interval.high)} do as well"
    dropped = field == "layer_overhead" and interval.value == 0.0
    return f"{'dropped' if dropped else interval.verdict}, {between}"


def figure(field: str, interval: Interval, source: str) -> str:
    """A fitted number as YAML; only what the rows identify is measured."""
    status = "measured" if interval.verdict == "identified" else "estimate"
    value = shown(field, interval.value)
    return f'{{value: {value}, status: {status}, source: "{source}; {said(field, interval)}"}}'


def main() -> None:
    """Fit every stack, report, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("--stack", action="append")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, help="at most this many rows of a source, for a quick look")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", action="store_true", help="take the stacks as they are instead of fitting them")
    parser.add_argument(
        "--profile", action="store_true", help="with --keep, what the rows say about the numbers as they are"
    )
    parser.add_argument("--leave-out", action="store_true", help="score each source with a fit that has not seen it")
    arguments = parser.parse_args()
    stacks = load(arguments.rows, arguments.sample)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        points: dict[str, Point] = {}
        for name, rows in sorted(stacks.items()):
            if arguments.stack and name not in arguments.stack:
                continue
            fit = Fit(pool, rows)
            points[name], intervals = kept(fit, arguments.profile) if arguments.keep else fit.fitted()
            report(f"{name} {points[name]}", errors(pool, rows, points[name]))
            for field, interval in zip(FIELDS, intervals, strict=False):
                print(f"  {field} {shown(field, interval.value)}: {said(field, interval)}", flush=True)
            if arguments.out and intervals:
                source = origin("step times", __file__, rows)
                figures = {f: figure(f, i, source) for f, i in zip(FIELDS, intervals, strict=True)}
                put(arguments.out / f"{name}.yaml", figures)
        if arguments.leave_out:
            leave_out(pool, stacks, points)


def kept(fit: Fit, profile: bool) -> tuple[Point, tuple[Interval, ...]]:
    """A stack's numbers as they are and, where asked for, what the rows say about each."""
    stack = fit.rows[0].scenario.stack
    point = tuple(getattr(stack, field).value for field in FIELDS)
    return point, fit.intervals(point) if profile else ()


def leave_out(pool: ProcessPoolExecutor, stacks: dict[str, list[Mapped]], points: dict[str, Point]) -> None:
    """Score each source with a fit that has not seen it; writes the error of every row to left_out.json."""
    everything: list[float] = []
    by_row: dict[str, float] = {}
    for name, point in points.items():
        for source in sorted({m.row.source for m in stacks[name]}):
            seen = [m for m in stacks[name] if m.row.source != source]
            others = [p for n, p in points.items() if n != name]
            start = tuple(median(p[i] for p in others) for i in range(len(FIELDS))) if others else point
            fitted = Fit(pool, seen).search(point) if seen else start
            rows = [m for m in stacks[name] if m.row.source == source]
            found = errors(pool, rows, fitted)
            report(f"  without {source}: {name}", found)
            everything += found
            by_row |= dict(zip((m.row.id for m in rows), found, strict=True))
    report("left out, all rows", everything)
    Path(__file__).with_name("left_out.json").write_text(json.dumps(by_row, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
