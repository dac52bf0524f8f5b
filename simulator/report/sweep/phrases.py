"""What the pages of a sweep say in words; reads the document that `study.sweep.table` makes."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from simulator.metrics import METRICS
from simulator.report.text import wording
from simulator.report.text.plain import clean
from simulator.results.documents.sweep import HeatMap, ParetoFront, SweepDocument, SweptPoint
from simulator.results.infeasibility import CLOSE
from simulator.results.prices import missing_price
from simulator.run.spread.near import AT_A_RATE

_DIGITS = re.compile(r"\d[\d.,]*")
NO_QUEUE = "Points leave out what a queue near saturation adds, which runs have: `clustersim run`, `compare`."
"""Of points whose requests come at a rate."""
OUT_OF_MEMORY, REFUSED = "×", "–"
"""Marks of a cell of the heat map in which no point fits, and in which all are refused."""
_SHOWN = {
    "training": ("tokens_per_s", "mfu", "step_time_s", "bubble_fraction", "peak_memory_bytes"),
    "jobs": ("worst_slowdown", "mean_slowdown", "makespan_s", "shared_link_s"),
    "workflow": ("iteration_s", "makespan_s", "idle_fraction"),
    "serving": ("slo_attainment", "output_throughput", "mean_ttft_ms", "mean_tpot_ms", "p99_e2el_ms", "max_kv_usage"),
}


STATUSES = ("failed", "out of memory", "all requests rejected", "no replica starts", "refused")
"""What becomes of points that have no figures, the gravest first."""

_COUNTED = {"all requests rejected": "with all requests rejected"}


def rows_of(document: SweepDocument, numbers: Sequence[int]) -> list[SweptPoint]:
    """The rows of points by their numbers, in that order."""
    known = {row.point: row for row in document.rows}
    return [known[number] for number in numbers]


def label(metric: str) -> str:
    """A metric in words."""
    return METRICS[metric].label if metric in METRICS else clean(metric).replace("_", " ")


def figure(row: SweptPoint, metric: str) -> str:
    """A figure of a row with its unit, `-` where it has none, `?` behind memory that is too close to call."""
    value = row.metrics.get(metric)
    close = " ?" if metric == "peak_memory_bytes" and row.memory_too_close else ""
    return "-" if value is None else f"{wording.figure(metric, value)}{close}"


def columns(document: SweepDocument, first: tuple[str, ...] = ()) -> list[str]:
    """The metrics that a table of points shows: those asked for, then the usual ones that any row has."""
    usual = [name for name in _SHOWN[document.of] if any(name in row.metrics for row in document.rows)]
    return list(dict.fromkeys((*first, *usual)))[:6]


def axis_words(keys: list[str]) -> list[str]:
    """The keys of axes by their last words where these are clear."""
    last = [key.rpartition(".")[2] for key in keys]
    return [clean(word if last.count(word) == 1 else key) for word, key in zip(last, keys, strict=True)]


def value(given: Any) -> str:
    """A value of an axis."""
    if isinstance(given, dict):
        return "{" + ", ".join(f"{key}: {value(item)}" for key, item in given.items()) + "}"
    if isinstance(given, list):
        return "[" + ", ".join(map(value, given)) + "]"
    return "none" if given is None else str(given).lower() if isinstance(given, bool) else clean(str(given))


def header_lines(document: SweepDocument) -> str:
    """What was varied."""
    words = axis_words(list(document.axes))
    parts = [
        f"{word} {', '.join(map(value, given[:8]))}{' ...' if len(given) > 8 else ''}"
        for word, given in zip(words, document.axes.values(), strict=True)
    ]
    return " · ".join(parts)


def about(document: SweepDocument) -> Iterator[str]:
    """What all points share, and the changes that all of them have."""
    shared = [
        text.partition(" (")[0] if name in ("model", "stack") else text for name, text in document.subject.items()
    ]
    if shared:
        yield clean(" · ".join(shared))
    if document.changes:
        yield clean(f"all with {' '.join(document.changes)}")


def counted(document: SweepDocument) -> str:
    """How many points there are and what became of them: numbers that add up."""
    number = Counter(row.status for row in document.rows)
    close = sum(row.memory_too_close and row.status == "ok" for row in document.rows)
    doubt = f" ({close:,} with {CLOSE}: ?)" if close else ""
    parts = [f"{number['ok']:,} fit{'s' if number['ok'] == 1 else ''}{doubt}"]
    parts += [f"{number[status]:,} {_COUNTED.get(status, status)}" for status in STATUSES if number[status]]
    parts += [f"{document.dropped:,} left out by conditions"] if document.dropped else []
    combinations = prod(len(values) for values in document.axes.values())
    drawn = f" drawn of {combinations:,}" if document.random else ""
    return f"{wording.plural(points(document), 'point')}{drawn}: {', '.join(parts)}"


def unranked(document: SweepDocument) -> str:
    """Why no point is the best: none has the figure; empty where there is a best one, or nothing fits."""
    if document.best or not any(row.status == "ok" for row in document.rows):
        return ""
    price = missing_price(document.unpriced) if "cost" in document.ranked_by else ""
    return f"No point has {label(document.ranked_by)}, by which they were to be ranked{f'; {price}' if price else ''}"


def points(document: SweepDocument) -> int:
    """All points, those that conditions leave out among them."""
    return len(document.rows) + document.dropped


def missed(document: SweepDocument) -> Iterator[str]:
    """Where conditions leave nothing, how far each was from what there is."""
    if not document.dropped or any(row.status == "ok" for row in document.rows):
        return
    for one in document.conditions:
        low, high = (wording.figure(one.metric, value) for value in (one.least, one.most))
        size = low if low == high else f"{low} to {high}"
        yield f"{one.condition}: it was {size}; {wording.plural(one.met, 'point')} would meet this one alone"


def reasons(document: SweepDocument, status: str, most: int = 5) -> Iterator[str]:
    """Why points are not there: reasons that differ in numbers alone together, with the mildest or first point."""
    alike: dict[str, list[SweptPoint]] = {}
    for row in document.rows:
        if row.status == status:
            alike.setdefault(_DIGITS.sub("#", row.reason), []).append(row)
    groups = sorted(alike.values(), key=len, reverse=True)
    for rows in groups[:most]:
        first = min(rows, key=lambda row: row.metrics.get("peak_memory_bytes") or 0.0)
        which = "the nearest is" if status == "out of memory" else "for example"
        many = f"{wording.plural(len(rows), 'point')}, {which} " if len(rows) > 1 else ""
        yield f"{many}{first.name}: {first.reason}"
    if rest := groups[most:]:
        number = sum(map(len, rest))
        yield f"and {wording.plural(number, 'point')} for {wording.plural(len(rest), 'other reason')}"


def left_out(rows: Sequence[SweptPoint]) -> list[str]:
    """What is not in the intervals of points."""
    loads = {row.ground.circumstances.load for row in rows if row.ground.circumstances is not None}
    return [NO_QUEUE] if AT_A_RATE in loads else []


def better(metric: str) -> str:
    """The direction in which a metric is better."""
    return "more" if METRICS[metric].sense == "rate" else "less"


def front_words(front: ParetoFront) -> str:
    """What the Pareto front is of."""
    first, second = front.metrics
    return f"{better(first)} {label(first)} against {better(second)} {label(second)}"


def with_figures(document: SweepDocument, front: ParetoFront) -> list[tuple[SweptPoint, float, float]]:
    """The points that have both figures of a front, with these."""
    first, second = front.metrics
    sound = [(row, row.metrics.get(first), row.metrics.get(second)) for row in document.rows if row.status == "ok"]
    return [(row, x, y) for row, x, y in sound if x is not None and y is not None]


def heat_words(heat: HeatMap) -> str:
    """What the heat map shows."""
    across, upward = axis_words([heat.x, heat.y])
    several = ", the best point of each cell" if heat.most_points > 1 else ""
    name = label(heat.metric)
    return f"{name[0].upper()}{name[1:]} over {across} (across) and {upward} (down){several}"


def gaps(document: SweepDocument, heat: HeatMap) -> list[list[str]]:
    """The marks of the cells of the heat map that have no figure; empty where no point was tried, or for a figure."""
    return [
        ["" if cell is not None else _gap(document, heat, x, y) for cell, x in zip(cells, heat.x_values, strict=True)]
        for cells, y in zip(heat.cells, heat.y_values, strict=True)
    ]


def _gap(document: SweepDocument, heat: HeatMap, x: Any, y: Any) -> str:
    here = [row for row in document.rows if (row.values[heat.x], row.values[heat.y]) == (x, y)]
    found = {row.status for row in here}
    return OUT_OF_MEMORY if "out of memory" in found else REFUSED if found else ""


def gap_words(document: SweepDocument, heat: HeatMap, full: str | None = None) -> str:
    """What the marks of the heat map stand for, of those that it has; `full` in place of that of too little memory."""
    rows = zip(gaps(document, heat), heat.cells, strict=True)
    found = {mark for marks, cells in rows for mark, cell in zip(marks, cells, strict=True) if cell is None}
    full = full or OUT_OF_MEMORY
    blank = "not tried or left out by conditions" if document.dropped else "not tried"
    named = {OUT_OF_MEMORY: f"{full} out of memory", REFUSED: f"{REFUSED} refused", "": f"blank: {blank}"}
    return " · ".join(words for mark, words in named.items() if mark in found)


def shades(heat: HeatMap) -> list[list[float | None]]:
    """The cells of the heat map from 0, the least figure, to 1."""
    known = [cell for row in heat.cells for cell in row if cell is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return [[None if c is None else (c - low) / (high - low) if high > low else 1.0 for c in row] for row in heat.cells]
