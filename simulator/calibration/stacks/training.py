"""Fit the two numbers of each training stack on published step times, and say what is left without a source.

For each stack the mean of |log(simulated / measured)| over its 16-bit rows of tiers 1 and 2 is minimised, each source
weighing as the square root of its rows, and beside it how far the numbers lie from those of other stacks
(`stacks.prior`), by a search along one coordinate after the other. So a number that the rows do not tell stays near
what other stacks have. Then every number is moved away from its best value until the rows tell the difference
(`calibration.identified`). Only a number that its rows identify is `measured`.

Leave-one-source-out fits a stack without one source and scores all of that source's rows, those in other formats and
on other devices as well, which no fit takes. `stacks.held_out` leaves out rows that have something in common. Where
fewer than four rows remain, the numbers are those of the prior, and where a stack has no row in any fit, its rows err
as they do under its shipped numbers. Rows are simulated at few points, between which their times are
interpolated (`stacks.between`), and each is simulated there once for all of these fits.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from math import exp, log
from types import MappingProxyType

import numpy as np

from simulator.calibration.asked import Asked, as_rows, save
from simulator.calibration.identified import Floats, Interval, worse
from simulator.calibration.stacks.between import Between
from simulator.calibration.stacks.held_out import Groups, beyond, groups_of
from simulator.calibration.stacks.numbers import Point, at, fitted_file, origin, put, report, weights
from simulator.calibration.stacks.prior import Prior, prior
from simulator.interop.rows.jsonl import Line, Refused, parse_line, read_row, sample
from simulator.interop.rows.training import Row
from simulator.run.measured.training import Mapped, map_row, measured_step, simulated
from simulator.specs.training import Stack

FIELDS = ("compute_efficiency", "layer_overhead")
STEPS = {
    "compute_efficiency": (0.06, 0.03, 0.01),
    "layer_overhead": (500e-6, 200e-6, 100e-6),
}
BOUNDS = {"compute_efficiency": (0.5, 1.0), "layer_overhead": (100e-6, 3e-3)}
"""Physical ranges: ten launches of 10 us are the least that a host does for a layer."""
LEAST_ROWS = 4
"""Rows below which nothing is fitted."""
PARTNER = (1, 0)
"""The number that each one trades against, which is fitted anew in its profile."""
EFFICIENCY = 0

MEASURED = ("A100", "A800", "H100", "H200")
"""Devices whose kernels are measured: errors elsewhere are not the stack's."""

_rows: dict[str, Mapped] = {}  # of a process that simulates: set once, when it starts


Rows = Mapping[str, list[Mapped]]
"""Rows by the name of the stack file that has their fitted numbers."""


def load(lines: Sequence[Line], each: int | None) -> tuple[Rows, Rows]:
    """Rows that fits take, and rows that are only scored; at most `each` a source."""
    fitted: dict[str, list[Mapped]] = defaultdict(list)
    others: dict[str, list[Mapped]] = defaultdict(list)
    for line in sample(list(lines), each) if each else lines:
        try:
            mapped = map_row(read_row(Row, parse_line(line)))
        except Refused:
            continue
        name = fitted_file(Stack.folder or "", FIELDS[0], mapped.stack)
        (fitted if is_fitted(mapped.row) else others)[name].append(mapped)
    return fitted, others


def is_fitted(row: Row) -> bool:
    """Whether fits take a row: in 16 bits, on devices whose kernels are measured, of tiers 1 and 2."""
    sixteen = row.precision in ("fp16", "bf16", "amp_bf16")
    return row.tier <= 2 and sixteen and row.device.startswith(MEASURED)


def take(rows: Sequence[Mapped]) -> None:
    """Make rows known to this process, which then simulates them by their names."""
    _rows.update({mapped.row.id: mapped for mapped in rows})


def ratio(task: tuple[str, Point]) -> float:
    """log(simulated / measured) of a row at a point."""
    name, point = task
    mapped = _rows[name]
    result = simulated(mapped, at(mapped, FIELDS, point))
    error = result.metrics["step_time_s"] / measured_step(mapped.row, mapped.job) - 1
    return log(1 + error)


class Fit:
    """Search over one set of rows, beside what is known before they are seen."""

    def __init__(self, times: Between, rows: Sequence[Mapped], known: Prior) -> None:
        """`times` are those of more rows, or of these."""
        self.times, self.rows, self.prior = times, rows, known
        self.weights = np.array([weights(rows)[m.row.id] for m in rows])
        self.known: dict[Point, Floats] = {}

    @property
    def free(self) -> tuple[int, ...]:
        """Numbers that are fitted: those that the stack does not have by definition."""
        return tuple(i for i, s in enumerate(self.prior.spread) if s) if len(self.rows) >= LEAST_ROWS else ()

    def losses(self, point: Point) -> Floats:
        """Absolute log ratios by row; shape (rows,)."""
        if point not in self.known:
            self.known[point] = np.abs(np.log(self.times.at([m.row.id for m in self.rows], point)))
        return self.known[point]

    def loss(self, point: Point) -> float:
        """Weighted mean of the absolute log ratios, and what the prior adds to it."""
        return float((self.weights @ self.losses(point) + self.prior.cost(point)) / self.weights.sum())

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
        """The best point and what the rows say about each number; the prior's where rows are too few."""
        point = self.search(self.prior.middle)
        return point, self.intervals(point)

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


def shown(field: str, value: float) -> str:
    """A number as stack files have it."""
    return f"{value * 1e6:.0f} us" if field == "layer_overhead" else f"{value:.3g}"


def said(field: str, interval: Interval) -> str:
    """What the rows say about a number, in words."""
    if interval.verdict == "not fitted":
        return "too few rows to fit it, the median of other stacks"
    between = f"{shown(field, interval.low)} to {shown(field, interval.high)} do as well"
    kept = ", kept near other stacks" if interval.verdict != "identified" else ""
    return f"{interval.verdict}{kept}, {between}"


def figure(field: str, interval: Interval, source: str) -> str:
    """A fitted number as YAML; only what the rows identify is measured."""
    status = "measured" if interval.verdict == "identified" else "estimate"
    value = shown(field, interval.value)
    return f'{{value: {value}, status: {status}, source: "{source}; {said(field, interval)}"}}'


def calibrate(asked: Asked, lines: Sequence[Line]) -> None:
    """Fit every stack asked for, say its numbers and errors, write what was asked for."""
    stacks, others = load(lines, asked.samples)
    chosen = asked.chosen(sorted({*stacks, *(others if asked.left_out else ())}), "stack")
    everything = [mapped for rows in (*stacks.values(), *others.values()) for mapped in rows]
    with ProcessPoolExecutor(asked.jobs, initializer=take, initargs=(everything,)) as pool:
        times = Between(lambda tasks: list(pool.map(ratio, tasks, chunksize=2)))
        points = {name: shipped(rows) for name, rows in stacks.items()}
        for name in (name for name in chosen if name in stacks):
            rows = stacks[name]
            fit = Fit(times, rows, prior(name, FIELDS))
            points[name], intervals = kept(fit, asked.intervals) if asked.as_is else fit.fitted()
            asked.say(report(f"{name} {points[name]}", errors(pool, rows, points[name])))
            found = {f: i for f, i, spread in zip(FIELDS, intervals, fit.prior.spread, strict=False) if spread}
            for field, interval in found.items():
                asked.say(f"  {field} {shown(field, interval.value)}: {said(field, interval)}")
            if asked.out:
                source = origin("step times", rows)
                put(asked.out, name, {field: figure(field, interval, source) for field, interval in found.items()})
        if asked.left_out:
            left = unseen(asked, times, {n: (stacks.get(n, []), others.get(n, [])) for n in chosen})
            asked.say(report("left out, all rows", list(left.values())))
            save(asked.left_out, as_rows(left))
        if asked.held_out:
            known = {n: stacks[n] for n in chosen if n in stacks}
            shared = groups_of(m for rows in stacks.values() for m in rows)
            held = without(asked, times, known, points, shared, (EFFICIENCY,))
            held |= without(asked, times, known, points, groups_of(everything, beyond), (EFFICIENCY,), others)
            save(asked.held_out, json.dumps(held, indent=0, sort_keys=True) + "\n")


def kept(fit: Fit, profile: bool) -> tuple[Point, tuple[Interval, ...]]:
    """A stack's numbers as they are and, where asked for, what the rows say about each."""
    point = shipped(fit.rows)
    return point, fit.intervals(point) if profile else ()


def shipped(rows: Sequence[Mapped]) -> Point:
    """The numbers that the stack of rows has."""
    return tuple(getattr(rows[0].scenario.stack, field).value for field in FIELDS)


def unseen(asked: Asked, times: Between, stacks: Mapping[str, tuple[list[Mapped], list[Mapped]]]) -> dict[str, float]:
    """The error of every row under a fit of its stack that has not seen the row's source.

    `stacks` have the rows that fits take and those that are only scored.
    Every source is scored by a fit on rows of others, one with no row in the fit too: what ships may have seen it.
    """
    found: dict[str, float] = {}
    for name, (fitted, others) in stacks.items():
        for source, members in groups_of([*fitted, *others], lambda m: [m.row.source]).items():
            fit = Fit(times, [m for m in fitted if m.row.id not in members], prior(name, FIELDS, source))
            point = fit.search(fit.prior.middle) if fitted else shipped(others)
            rows = [m.row.id for m in (*fitted, *others) if m.row.id in members]
            errors_ = [exp(r) - 1 for r in times.ratios([(row, point) for row in rows])]
            found |= dict(zip(rows, errors_, strict=True))
            asked.say(report(f"  {name} {point} without {source}", errors_))
    return found


def without(
    asked: Asked,
    times: Between,
    stacks: Mapping[str, list[Mapped]],
    points: Mapping[str, Point],
    groups: Groups,
    free: Sequence[int] | None = None,
    scored: Mapping[str, Sequence[Mapped]] = MappingProxyType({}),
) -> dict[str, dict[str, float]]:
    """The error of every row of each group under a fit of its stack that has not seen the group, by group and row.

    `free` are the numbers that are fitted again, all where it is left out. Where fewer than four rows of a stack are
    outside of a group, its numbers are those of the prior. `scored` are rows by stack that no fit takes; those of a
    stack of which none is fitted are left out.
    """
    found: dict[str, dict[str, float]] = {group: {} for group in groups}
    for group, members in groups.items():
        for name, known in stacks.items():
            rows = [m for m in (*known, *scored.get(name, ())) if m.row.id in members]
            fit = Fit(times, [m for m in known if m.row.id not in members], prior(name, FIELDS))
            fitted = fit.search(points[name], free) if fit.free else fit.prior.middle
            names = [m.row.id for m in rows]
            found[group] |= dict(zip(names, (times.at(names, fitted) - 1).tolist(), strict=True)) if names else {}
        asked.say(report(f"  without {group}", list(found[group].values())))
    return found
