"""A sweep as a page for a terminal; reads the document that `study.table` makes."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simulator import units
from simulator.report import page as pages
from simulator.report import sections, sweep_words, wording
from simulator.report.grounds import grounds
from simulator.report.heads import short
from simulator.report.plain import clean
from simulator.report.sweep_words import Row

_WIDEST = 12  # values across a heat map
_BAR = 12
_LONGEST_VALUE = 24  # of an axis; longer ones are folded
_GAP = 2
_MARGIN = 2


def page(
    document: dict[str, Any], how: Mapping[str, Any], *, top: int = 10, width: int = pages.WIDTH, colour: bool = False
) -> str:
    """The page as text that ends with a newline.

    `how` says what the document does not, for it differs from run to run: `simulated`, `reused` and, where it is known,
    `elapsed_s`.
    """
    return pages.draw(_blocks(document, how, top, width), width=width, colour=colour)


def _blocks(document: dict[str, Any], how: Mapping[str, Any], top: int, width: int) -> Iterable[RenderableType]:
    where = f"where {' and '.join(document['where'])}" if document["where"] else ""
    lines = (*sweep_words.about(document), sweep_words.subject(document), where)
    yield sections.title(document["name"], *lines, ground=" · ".join(grounds(document["rows"])))
    good = any(row["status"] == "ok" for row in document["rows"])
    yield Text(sweep_words.counted(document), "bold" if good else "bold red")
    yield from sections.notes("What the conditions leave out", list(sweep_words.missed(document)), "yellow")
    if text := sweep_words.unranked(document):
        yield Text(text, "yellow")
    if document["best"] and document["best"]["points"]:
        yield from _best(document, top, width)
    if document["pareto"]:
        yield sections.heading(f"Pareto front: {sweep_words.front_words(document)}")
        front = document["pareto"]
        yield _points(document, front["points"][: 2 * top], tuple(front["metrics"]), width)
    if document["heat"]:
        yield from _heat(document)
    for status in sweep_words.STATUSES:
        yield from sections.notes(status.capitalize(), list(sweep_words.reasons(document, status)), "dim")
    yield Text("")
    yield Text(_footer(document, how), "dim")


def _best(document: dict[str, Any], top: int, width: int) -> Iterable[RenderableType]:
    metric, numbers = document["best"]["metric"], document["best"]["points"]
    shown = f", the best {top:,} of {len(numbers):,}" if len(numbers) > top else ""
    yield sections.heading(f"Best points by {sweep_words.label(metric)}{shown}")
    yield _points(document, numbers[:top], (metric,), width)


def _points(document: dict[str, Any], numbers: list[int], first: tuple[str, ...], width: int) -> RenderableType:
    """Points with what was varied, figures, and a bar of the first figure where bars differ.

    What does not fit into the width is left out: the bars, then figures from the last on, never what was varied.
    """
    rows = sweep_words.rows_of(document, numbers)
    names = sweep_words.columns(document, first)
    words = sweep_words.axis_words(list(document["axes"]))
    values = [[sweep_words.value(row["values"][key]) for row in rows] for key in document["axes"]]
    figures = [[sweep_words.figure(row, name) for row in rows] for name in names]
    axes = [min(_LONGEST_VALUE, _size(word, cells)) for word, cells in zip(words, values, strict=True)]
    room = width - _MARGIN - sum(size + _GAP for size in axes)
    sizes = [_size(short(name), cells) + _GAP for name, cells in zip(names, figures, strict=True)]
    bars = _bars(rows, first[0])
    if sum(sizes) + max(_BAR, len(short(first[0]))) > room:
        bars = []
    shown = next((n for n in range(len(sizes), len(first), -1) if sum(sizes[:n]) - _GAP <= room), len(first))
    table = sections.headed()
    for word, size in zip(words, axes, strict=True):
        table.add_column(word, justify="right", overflow="fold", min_width=size, max_width=size)
    for name in names[:shown]:
        table.add_column(short(name), justify="right", overflow="fold")
    if bars:
        table.add_column(short(first[0]), no_wrap=True)
    for place, cells in enumerate(zip(*values, *figures[:shown], strict=True)):
        table.add_row(*cells, *bars[place : place + 1], style="bold" if place == 0 else "")
    return table


def _size(head: str, cells: list[str]) -> int:
    """The width of a column."""
    return max(map(len, (head, *cells)))


def _bars(rows: list[Row], metric: str) -> list[Text]:
    """A bar of a figure for each row; none where all would look the same."""
    figures = [row["metrics"].get(metric) or 0.0 for row in rows]
    most = max(map(abs, figures), default=0.0) or 1.0
    drawn = [wording.bar(figure / most, _BAR) for figure in figures]
    return [Text(bar, "blue") for bar in drawn] if len(set(drawn)) > 1 else []


def _heat(document: dict[str, Any]) -> Iterable[RenderableType]:
    """A grid of figures, the best ones green."""
    told = document["heat"]
    yield sections.heading(clean(sweep_words.heat_words(document)))
    if len(told["x_values"]) > _WIDEST:
        yield Text(f"{len(told['x_values'])} values are too many for a terminal: see --html or --plots", "dim")
        return
    good = sweep_words.better(told["metric"]) == "more"
    table = sections.headed()
    table.add_column("", style="dim", justify="right")
    for value in told["x_values"]:
        table.add_column(sweep_words.value(value), justify="right", no_wrap=True)
    rows = zip(told["y_values"], told["cells"], sweep_words.shades(document), sweep_words.gaps(document), strict=True)
    for value, cells, shades, marks in rows:
        each = zip(cells, shades, marks, strict=True)
        drawn = [_cell(told["metric"], c, s, good) if c is not None else Text(mark, "dim") for c, s, mark in each]
        table.add_row(sweep_words.value(value), *drawn)
    yield table
    if words := sweep_words.gap_words(document):
        yield Text(words, "dim")


def _cell(metric: str, figure: float, shade: float | None, more: bool) -> Text:
    quality = (shade or 0.0) if more else 1 - (shade or 0.0)
    style = "bold green" if quality > 0.9 else "" if quality > 0.4 else "dim"
    return Text(wording.figure(metric, figure), style)


def _footer(document: dict[str, Any], how: Mapping[str, Any]) -> str:
    tried, reused = how["simulated"], how["reused"]
    said = [f"{tried:,} tried now", *([f"{reused:,} from the cache"] if reused else [])]
    rest = sweep_words.points(document) - tried - reused
    said += [f"{rest:,} refused at sight or equal to another"] if rest else []
    within = f"; {units.format(how['elapsed_s'], 'time')}" if "elapsed_s" in how else ""
    parts = [f"{', '.join(said)}{within}"]
    return " · ".join([*parts, f"clustersim {document['provenance']['version']}"])
