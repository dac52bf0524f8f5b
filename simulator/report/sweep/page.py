"""A sweep as a page for a terminal; reads the document that `study.sweep.table` makes."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from simulator import units
from simulator.report.sweep import phrases
from simulator.report.text import blocks, intervals, wording
from simulator.report.text.column_titles import short
from simulator.report.text.grounds import expected_memory, grounds
from simulator.report.text.plain import clean
from simulator.report.text.terminal import WIDTH, draw
from simulator.results.documents.sweep import HeatMap, RankedPoints, SweepDocument, SweptPoint

_WIDEST = 12  # values across a heat map
_BAR = 12
_LONGEST_VALUE = 24  # of an axis; longer ones are folded
_GAP = 2
_MARGIN = 2


class Effort(NamedTuple):
    """What a sweep took."""

    simulated: int
    """Simulations."""
    reused: int
    """Points whose outcome was in the cache."""
    elapsed_s: float | None = None


def page(document: SweepDocument, how: Effort, *, top: int = 10, width: int = WIDTH, colour: bool = False) -> str:
    """The page as text that ends with a newline.

    `how` is no part of the document, for it differs from run to run.
    """
    return draw(_blocks(document, how, top, width), width=width, colour=colour)


def _blocks(document: SweepDocument, how: Effort, top: int, width: int) -> Iterable[RenderableType]:
    where = f"where {' and '.join(document.where)}" if document.where else ""
    lines = (*phrases.about(document), phrases.header_lines(document), where)
    memory = expected_memory(row.ground for row in document.rows)
    yield blocks.title(document.name, *lines, ground=" · ".join(grounds(document.rows)), expected=memory)
    good = any(row.status == "ok" for row in document.rows)
    yield Text(phrases.counted(document), "bold" if good else "bold red")
    yield from blocks.notes("What the conditions leave out", list(phrases.missed(document)), "yellow")
    if text := phrases.unranked(document):
        yield Text(text, "yellow")
    if document.best and document.best.points:
        yield from _best(document, document.best, top, width)
    if front := document.pareto:
        yield blocks.heading(f"Pareto front: {phrases.front_words(front)}")
        yield _points(document, front.points[: 2 * top], front.metrics, width)
    if document.heat:
        yield from _heat(document, document.heat)
    for status in phrases.STATUSES:
        yield from blocks.notes(status.capitalize(), list(phrases.reasons(document, status)), "dim")
    yield Text("")
    yield Text(_footer(document, how), "dim")


def _best(document: SweepDocument, best: RankedPoints, top: int, width: int) -> Iterable[RenderableType]:
    metric, numbers = best.metric, best.points
    shown = f", the best {top:,} of {len(numbers):,}" if len(numbers) > top else ""
    yield blocks.heading(f"Best points by {phrases.label(metric)}{shown}")
    yield _points(document, numbers[:top], (metric,), width)
    rows = phrases.rows_of(document, numbers[:top])
    yield from intervals.tables(rows, [clean(row.name) for row in rows], width, phrases.left_out(rows))


def _points(document: SweepDocument, numbers: Sequence[int], first: tuple[str, ...], width: int) -> RenderableType:
    """Points with what was varied, figures, and a bar of the first figure where bars differ.

    What does not fit into the width is left out: the bars, then figures from the last on, never what was varied.
    """
    rows = phrases.rows_of(document, numbers)
    names = phrases.columns(document, first)
    words = phrases.axis_words(list(document.axes))
    values = [[phrases.value(row.values[key]) for row in rows] for key in document.axes]
    figures = [[phrases.figure(row, name) for row in rows] for name in names]
    axes = [min(_LONGEST_VALUE, _size(word, cells)) for word, cells in zip(words, values, strict=True)]
    room = width - _MARGIN - sum(size + _GAP for size in axes)
    sizes = [_size(short(name), cells) + _GAP for name, cells in zip(names, figures, strict=True)]
    bars = _bars(rows, first[0])
    if sum(sizes) + max(_BAR, len(short(first[0]))) > room:
        bars = []
    shown = next((n for n in range(len(sizes), len(first), -1) if sum(sizes[:n]) - _GAP <= room), len(first))
    table = blocks.headed()
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


def _bars(rows: list[SweptPoint], metric: str) -> list[Text]:
    """A bar of a figure for each row; none where all would look the same."""
    figures = [row.metrics.get(metric) or 0.0 for row in rows]
    most = max(map(abs, figures), default=0.0) or 1.0
    drawn = [wording.bar(figure / most, _BAR) for figure in figures]
    return [Text(bar, "blue") for bar in drawn] if len(set(drawn)) > 1 else []


def _heat(document: SweepDocument, heat: HeatMap) -> Iterable[RenderableType]:
    """A grid of figures, the best ones green."""
    yield blocks.heading(clean(phrases.heat_words(heat)))
    if len(heat.x_values) > _WIDEST:
        yield Text(f"{len(heat.x_values)} values are too many for a terminal: see --html or --plots", "dim")
        return
    good = phrases.better(heat.metric) == "more"
    table = blocks.headed()
    table.add_column("", style="dim", justify="right")
    for value in heat.x_values:
        table.add_column(phrases.value(value), justify="right", no_wrap=True)
    rows = zip(heat.y_values, heat.cells, phrases.shades(heat), phrases.gaps(document, heat), strict=True)
    for value, cells, shades, marks in rows:
        each = zip(cells, shades, marks, strict=True)
        drawn = [_cell(heat.metric, c, s, good) if c is not None else Text(mark, "dim") for c, s, mark in each]
        table.add_row(phrases.value(value), *drawn)
    yield table
    if words := phrases.gap_words(document, heat):
        yield Text(words, "dim")


def _cell(metric: str, figure: float, shade: float | None, more: bool) -> Text:
    quality = (shade or 0.0) if more else 1 - (shade or 0.0)
    style = "bold green" if quality > 0.9 else "" if quality > 0.4 else "dim"
    return Text(wording.figure(metric, figure), style)


def _footer(document: SweepDocument, how: Effort) -> str:
    tried, reused = how.simulated, how.reused
    said = [f"{tried:,} tried now", *([f"{reused:,} from the cache"] if reused else [])]
    rest = phrases.points(document) - tried - reused
    said += [f"{rest:,} refused at sight or equal to another"] if rest else []
    within = f"; {units.format(how.elapsed_s, 'time')}" if how.elapsed_s is not None else ""
    parts = [f"{', '.join(said)}{within}"]
    return " · ".join([*parts, f"clustersim {document.provenance['version']}"])
