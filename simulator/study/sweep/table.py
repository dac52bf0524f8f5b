"""The table of a sweep: a row a point, with what was varied, what became of it and its figures in SI units."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem, nearest
from simulator.metrics import METRICS
from simulator.results.documents.form import plain
from simulator.results.documents.sweep import (
    HeatMap,
    MissedCondition,
    ParetoFront,
    RankedPoints,
    SweepDocument,
    SweptPoint,
)
from simulator.results.ground import Ground, stated
from simulator.results.infeasibility import undecided
from simulator.results.metrics import like, metric
from simulator.results.spread import Interval, intervals
from simulator.results.summary import dumps, ordered_metrics
from simulator.results.writing import replacing, write
from simulator.run.kinds import KINDS
from simulator.study.sweep.conditions import axis_named
from simulator.study.sweep.evaluate import Status
from simulator.study.sweep.frontier import front, heat, ranked
from simulator.study.variants import short_name

BEST_OF_PROMISE = "request_goodput"
"""The same where the scenario promises something (`slo`): requests within all objectives."""


@dataclass(frozen=True, slots=True)
class View:
    """What to make of a table."""

    by: str | None = None
    """Metric that ranks the points; None for the one of their kind."""
    pareto: tuple[str, str] | None = None
    """Two metrics."""
    heat: tuple[str, str, str] | None = None
    """Axis across, axis upward, metric."""

    def check(self, axes: Sequence[str]) -> None:
        """InputError for names that no table of these axes could have, before hours are spent on one."""
        metrics = [name for name in (self.by, *(self.pareto or ()), *(self.heat or ())[2:]) if name is not None]
        for name in metrics:
            metric(name)
        for name in (self.heat or ())[:2]:
            if axis_named(name, axes) is None:
                raise InputError(Problem(f"nothing varies `{name}`", hint=nearest(name, axes)))


@dataclass(frozen=True, slots=True)
class Row:
    """One point."""

    number: int
    """Its place among all combinations, the last axis changing fastest; from 0."""
    overrides: tuple[str, ...]
    values: Mapping[str, Any]
    """What was varied: the value by the key of its axis."""
    status: Status
    reason: str
    """Why it is not `ok`."""
    metrics: Mapping[str, float | None]
    """SI units (vLLM's keys in milliseconds). Where memory does not suffice, what would be if it did."""
    warnings: tuple[str, ...]
    scenario: str
    """Hash of the resolved scenario; empty where the scenario itself is refused."""
    ground: Ground = field(default_factory=Ground)
    """What it stands on."""

    @property
    def name(self) -> str:
        """What sets it apart from the others, in few words."""
        return short_name(self.overrides)


@dataclass(frozen=True, slots=True)
class SweepTable:
    """All points of a sweep in the order of their numbers."""

    name: str
    """Name of the scenario."""
    kind: str
    """`training` or `serving`."""
    axes: Mapping[str, tuple[Any, ...]]
    """What was varied: the values by key."""
    rows: tuple[Row, ...]
    where: tuple[str, ...] = ()
    """The conditions."""
    random: int | None = None
    """How many points were drawn at most; None where all combinations were taken."""
    dropped: int = 0
    """Points that were simulated and then left out by conditions on metrics."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Version, seed, hash of the program."""
    simulated: int = 0
    """Simulations of this call. Not part of what is written, which does not tell a fresh sweep from a resumed one."""
    reused: int = 0
    """Points whose outcome was in the cache. Not written either."""
    notes: tuple[str, ...] = ()
    """What happened to the cache. Not written either."""
    subject: Mapping[str, str] = field(default_factory=dict)
    """What all points share, in words: `model`, `devices`, `cluster`, `stack`, `layout`, `batch`."""
    changes: tuple[str, ...] = ()
    """Overrides of all points."""
    ranks_by: str = ""
    """The figure that ranks the points unless another one is asked for; empty: that of their kind."""
    unpriced: tuple[str, ...] = ()
    """Devices of the scenario whose price is not known, so that points may have no cost."""
    missed: tuple[MissedCondition, ...] = ()
    """Of every condition on a metric, how far the points that fit were from it."""

    @property
    def metrics(self) -> list[str]:
        """The figures that any row has, in the order of `METRICS`."""
        return list(ordered_metrics(dict.fromkeys((name for row in self.rows for name in row.metrics), 0.0)))

    def columns(self) -> dict[str, list[Any]]:
        """The table by columns: `point`, the axes, `status`, `reason`, the metrics, `ground`; made for data frames."""
        rows = self.rows
        found: dict[str, list[Any]] = {"point": [row.number for row in rows]}
        found |= {key: [_flat(row.values[key]) for row in rows] for key in self.axes}
        found |= {
            "status": [row.status for row in rows],
            "reason": [row.reason for row in rows],
        }
        found |= {name: [row.metrics.get(name) for row in rows] for name in self.metrics}
        return found | {"ground": [row.ground.kind for row in rows]}

    def best(self, metric: str | None = None, count: int | None = None) -> list[Row]:
        """The rows that are `ok` and have a figure, the best first; InputError for an unknown metric."""
        return [self.rows[index] for index in ranked(self._sound(), self.metric(metric or self._usual))][:count]

    def pareto(self, first: str, second: str) -> list[Row]:
        """The rows that no other beats in one of two metrics without losing in the other; InputError as `best`."""
        return [self.rows[index] for index in front(self._sound(), self.metric(first), self.metric(second))]

    def heat(self, x: str, y: str, metric: str) -> HeatMap:
        """A figure over two axes, named by their keys or their last words; InputError where there are none of it."""
        across, upward = self.axis(x), self.axis(y)
        if across == upward:
            raise InputError(Problem(f"`{x}` and `{y}` are one axis", hint="a heat map needs two"))
        values = [row.values for row in self.rows]
        return heat(values, self._sound(), across, upward, self.metric(metric), self.axes)

    def axis(self, name: str) -> str:
        """The key of an axis by its key or its last words; InputError where there is none."""
        found = axis_named(name, list(self.axes))
        if found is None:
            raise InputError(Problem(f"nothing varies `{name}`", hint=nearest(str(name), self.axes)))
        return found

    def metric(self, name: str) -> str:
        """A metric that rows have; InputError where none does."""
        if name not in self.metrics:
            what = "no point has" if str(name) in METRICS else "unknown metric"
            raise InputError(Problem(f"{what} `{name}`", hint=like(str(name), self.metrics)))
        return name

    def document(self, view: "View | None" = None) -> dict[str, Any]:
        """The table as plain data for `--json`, with what a view asks for."""
        found: dict[str, Any] = plain(self.described(view))
        return found

    def described(self, view: "View | None" = None) -> SweepDocument:
        """The table as pages draw it, with what a view asks for."""
        view = view or View()
        by = view.by or self._usual
        return SweepDocument(
            of=self.kind,
            name=self.name,
            subject=dict(self.subject),
            changes=tuple(self.changes),
            axes={key: tuple(values) for key, values in self.axes.items()},
            where=tuple(self.where),
            random=self.random,
            dropped=self.dropped,
            conditions=self.missed,
            best=RankedPoints(by, _numbers(self.best(by))) if by in self.metrics else None,
            ranked_by=by,
            unpriced=tuple(self.unpriced),
            pareto=ParetoFront(view.pareto, _numbers(self.pareto(*view.pareto))) if view.pareto else None,
            heat=self.heat(*view.heat) if view.heat else None,
            rows=tuple(_point(row) for row in self.rows),
            provenance=dict(self.provenance),
        )

    @property
    def _usual(self) -> str:
        return self.ranks_by or KINDS[self.kind].best

    def csv(self) -> str:
        """The table as CSV; what is not there is empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        columns = self.columns()
        writer.writerow(columns)
        writer.writerows(zip(*map(_cells, columns.values()), strict=True))
        return out.getvalue()

    def to_csv(self, path: str | Path) -> None:
        """Write `csv`, whole or not at all; InputError where that is not possible."""
        write(path, self.csv())

    def to_json(self, path: str | Path, view: "View | None" = None) -> None:
        """Write `document`, whole or not at all; InputError where that is not possible."""
        write(path, dumps(self.document(view)))

    def to_parquet(self, path: str | Path) -> None:
        """Write `columns`, whole or not at all; InputError where that is not possible or pyarrow is not installed.

        Columns of figures are doubles; an axis of mixed values is text.
        """
        pyarrow, parquet = _pyarrow()
        columns = {name: values if _alike(values) else _cells(values) for name, values in self.columns().items()}
        columns |= {name: [None if v is None else float(v) for v in columns[name]] for name in self.metrics}
        with replacing(path) as file:
            parquet.write_table(pyarrow.table(columns), file)

    def _sound(self) -> list[Mapping[str, float | None]]:
        """The figures of each row; none where it is not `ok`."""
        return [row.metrics if row.status == "ok" else {} for row in self.rows]


def check_parquet() -> None:
    """InputError where Parquet cannot be written."""
    _pyarrow()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        hint = "install it: pip install 'clustersim[parquet]', or write CSV"
        raise InputError(Problem("Parquet needs pyarrow, which is not installed", hint=hint)) from error
    return pyarrow, parquet


def _numbers(rows: Sequence[Row]) -> tuple[int, ...]:
    return tuple(row.number for row in rows)


def _point(row: Row) -> SweptPoint:
    return SweptPoint(
        point=row.number,
        name=row.name,
        overrides=tuple(row.overrides),
        values=dict(row.values),
        status=row.status,
        reason=row.reason,
        metrics=dict(row.metrics),
        warnings=tuple(row.warnings),
        memory_too_close=undecided(row.warnings),
        scenario=row.scenario,
        ground=stated(row.ground),
        intervals=_intervals(row),
    )


def _intervals(row: Row) -> dict[str, Interval]:
    """Those of the figures of a point; a queue near saturation has no part in them."""
    known = {name: value for name, value in row.metrics.items() if value is not None}
    return intervals(known, row.ground.spreads) if row.status == "ok" else {}


def _flat(value: Any) -> Any:
    """A value of an axis for one cell: mappings and lists as JSON."""
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def _cells(values: Sequence[Any]) -> list[str | None]:
    """Values as text, numbers in full."""
    return [
        None if value is None else str(value).lower() if isinstance(value, bool) else str(value) for value in values
    ]


def _alike(values: Sequence[Any]) -> bool:
    return len({type(value) for value in values if value is not None}) <= 1
