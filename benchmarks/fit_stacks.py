"""Fit the three numbers of each software stack on published step times, and say what is left when a source is left out.

    python benchmarks/fit_stacks.py workloads/measurements/training.jsonl [--stack NAME] [--jobs 2] [--out DIR]

For each stack the mean of |log(simulated / measured)| over its dense 16-bit rows of tiers 1 and 2 is minimised, each
source weighing as the square root of its rows, by a search along one coordinate after the other. With `--out` the
stack files there are rewritten: only the three fitted values and their sources change. Leave-one-source-out fits a
stack without one source and scores that source; a stack with a single source is scored with the medians of the other
stacks' numbers.
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

from simulator.specs.catalog import data_root
from simulator.specs.training import Stack
from simulator.study.lines import Refused, parse_line, read_lines, read_row, sample
from simulator.study.rows import Mapped, Row, map_row
from simulator.study.validate import simulate_mapped

FIELDS = ("compute_efficiency", "layer_overhead", "overlap_quality")
STEPS = {
    "compute_efficiency": (0.06, 0.03, 0.01),
    "layer_overhead": (500e-6, 200e-6, 100e-6),
    "overlap_quality": (0.2, 0.1, 0.1),
}
BOUNDS = {"compute_efficiency": (0.5, 1.0), "layer_overhead": (0.0, 3e-3), "overlap_quality": (0.3, 1.0)}
START = {"compute_efficiency": 0.82, "layer_overhead": 200e-6, "overlap_quality": 0.9}

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
        self.weights = list(weights(rows).values())
        self.known: dict[Point, float] = {}

    def loss(self, point: Point) -> float:
        """Weighted mean of the absolute log ratios."""
        if point not in self.known:
            ratios = self.pool.map(ratio, [(m.row.id, point) for m in self.rows], chunksize=2)
            self.known[point] = sum(w * abs(r) for w, r in zip(self.weights, ratios, strict=True)) / sum(self.weights)
        return self.known[point]

    def search(self, start: Point) -> Point:
        """Coordinate search with shrinking steps.

        Few rows carry few numbers: 10 all three, 4 the efficiency, fewer none.
        """
        point = start
        free = len(FIELDS) if len(self.rows) >= 10 else 1 if len(self.rows) >= 4 else 0
        for size in range(len(STEPS[FIELDS[0]])):
            moved = True
            while moved:
                moved = False
                for i, field in enumerate(FIELDS[:free]):
                    for sign in (1, -1):
                        low, high = BOUNDS[field]
                        value = round(min(max(point[i] + sign * STEPS[field][size], low), high), 9)
                        candidate = (*point[:i], value, *point[i + 1 :])
                        if candidate != point and self.loss(candidate) < self.loss(point) - 1e-5:
                            point, moved = candidate, True
        return point


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
    text = path.read_text()
    sources = ", ".join(sorted({m.row.source for m in rows}))
    source = f"fitted on {len(rows)} published {what} ({sources}), benchmarks/{Path(script).name}, {date.today()}"
    for field, shown in values.items():
        line = f'{field}: {{value: {shown}, status: measured, source: "{source}"}}'
        text = re.sub(rf"^{field}:.*$", line.replace("\\", "\\\\"), text, flags=re.M)
    path.write_text(text)


def main() -> None:
    """Fit every stack, report, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("--stack", action="append")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, help="at most this many rows of a source, for a quick look")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", action="store_true", help="take the stacks as they are instead of fitting them")
    parser.add_argument("--leave-out", action="store_true", help="score each source with a fit that has not seen it")
    arguments = parser.parse_args()
    stacks = load(arguments.rows, arguments.sample)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        points = {}
        for name, rows in sorted(stacks.items()):
            if arguments.stack and name not in arguments.stack:
                continue
            now = tuple(getattr(rows[0].scenario.stack, field).value for field in FIELDS)
            points[name] = now if arguments.keep else Fit(pool, rows).search(tuple(START.values()))
            report(f"{name} {points[name]}", errors(pool, rows, points[name]))
            if arguments.out:
                efficiency, overhead, quality = points[name]
                shown = f"{efficiency:.3g}", f"{overhead * 1e6:.0f} us", f"{quality:.3g}"
                values = dict(zip(FIELDS, shown, strict=True))
                write(arguments.out / f"{name}.yaml", values, "step times", __file__, rows)
        if arguments.leave_out:
            leave_out(pool, stacks, points)


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
