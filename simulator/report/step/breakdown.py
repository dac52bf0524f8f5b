"""Where the time of a step goes: the tables of device classes and of the critical path with their bars."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from simulator import units
from simulator.axes import AXES
from simulator.report.step.reasons import tables
from simulator.report.step.sections import chains
from simulator.report.text.bars import LEAST, Axis, Stack
from simulator.report.text.blocks import heading
from simulator.report.text.plain import clean
from simulator.results.metrics import EXPOSED, exposed, mean
from simulator.results.result import Result
from simulator.results.summary import class_names

MOST_ROWS = 8
"""Device classes shown in full; of more, the mean, those that stand out and some between."""
MOST_REASONS = 5
"""Operations, links and roofs of the critical path named."""
MOST_STRETCHES = 3
"""Device classes of the critical path shown."""

_LOOKS = {
    "compute": ("green", "█", "compute"),
    "recompute": ("bright_green", "▤", "recomp."),
    "optimizer": ("white", "◆", "optim."),
    "host": ("magenta", "▞", "host"),
    "offload": ("yellow", "▥", "offload"),
    "stall": ("red", "▞", "stall"),
    "straggler": ("bright_yellow", "▚", "peers"),
    "slowest": ("bright_red", "▨", "slowest"),
    "wait": ("bright_black", "░", "wait"),
    "bubble": ("bright_black", "░", "bubble"),
    "idle": ("bright_black", "·", "idle"),
}
"""Colour, glyph and short name of the parts; the glyphs differ so that a page without colours can be read."""
_IDLE = "░·"
_ANY = 1000  # columns: as wide as a table would like to be
_ALIKE = 0.01  # relative difference of classes that is not worth a word
_INVISIBLE = 0.0005  # share of the step that prints as 0.0


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the table."""

    name: str
    count: int
    parts: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Breakdown:
    """The table with a bar in each row or, where the numbers need the whole width, one bar of the mean above it."""

    rows: list[_Row]
    average: dict[str, float]
    keys: list[str]
    step_s: float
    counted: str = "ranks"
    coloured: bool = False
    narrow: bool = False
    """Whether names of parts stand below their marks, and those of rows may take several lines."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, with bars in it if there is room."""
        drawn = replace(self, coloured=console.color_system is not None)
        yield from drawn.fitted(console, options)

    def fitted(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table with bars or a bar, as the width allows."""
        table = self.table(bars=False)
        room = options.max_width - Measurement.get(console, options.update_width(_ANY), table).maximum
        if room >= LEAST:
            yield self.table(bars=True)
            return
        yield Axis(units.format(self.step_s, "time"))
        yield self.bar([self.average.get(key, 0.0) / self.step_s for key in self.keys])
        yield table if room >= 0 else replace(self, narrow=True).table(bars=False)

    def table(self, bars: bool) -> Table:
        """Numbers per class and part and, on demand, a last column of bars that takes the rest of the width."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, expand=bars)
        table.add_column("", no_wrap=not self.narrow)
        table.add_column(self.counted, justify="right", no_wrap=True)
        for key in self.keys:
            table.add_column(self.heading(key), justify="right", no_wrap=True)
        if bars:
            table.add_column(Axis(units.format(self.step_s, "time")), ratio=1)
        for row in self.rows:
            shares = [row.parts.get(key, 0.0) / self.step_s for key in self.keys]
            cells: list[RenderableType] = [row.name, f"{row.count:,}", *(f"{100 * share:.1f}" for share in shares)]
            table.add_row(*cells, *([self.bar(shares)] if bars else []))
        return table

    def look(self, key: str) -> tuple[str, str, str]:
        """Colour, glyph and name of a part; colours need no glyphs to tell the parts from each other."""
        style, glyph, name = _look(key)
        return style, "█" if self.coloured and glyph not in _IDLE else glyph, name

    def heading(self, key: str) -> Text:
        """Name of a part with the mark by which its bar is known."""
        style, glyph, name = self.look(key)
        return Text.assemble((glyph, style), "\n" if self.narrow else " ", name)

    def bar(self, shares: Sequence[float]) -> Stack:
        """Parts of the step one after the other."""
        return Stack(tuple((share, *self.look(key)[:2]) for key, share in zip(self.keys, shares, strict=True)))


def breakdown(result: Result) -> Iterable[RenderableType]:
    """Where the step goes: a row per device class, or the mean and the telling ones of many."""
    if not result.breakdown:
        return
    step_s = max(sum(parts.values()) for parts in result.breakdown) or 1.0
    average = mean(result.breakdown, [c.ranks for c in result.classes])
    shown = visible(result.breakdown, step_s)
    yield heading(f"Where the step goes, in percent of it{_axes(shown, 'exposed communication')}")
    yield _Breakdown(_rows(result, average), average, shown, step_s)
    if said := chains(result):
        yield Text(said, "dim")


def visible(parts: Sequence[dict[str, float]], step_s: float) -> list[str]:
    """Parts of which at least one row shows more than 0.0."""
    keys = dict.fromkeys(key for part in parts for key in part)
    return [key for key in keys if any(part.get(key, 0.0) >= _INVISIBLE * step_s for part in parts)]


def critical_path(result: Result) -> Iterable[RenderableType]:
    """What the step time is made of: the whole path, and the device classes on which it spends most."""
    path = result.critical_path
    step_s = sum(path.seconds.values())
    if not 0 < step_s < math.inf:
        return
    rows = [_Row("whole path", len(path.operations), path.seconds), *_stretches(result)]
    shown = visible([path.seconds], step_s)
    said = _axes(shown, "communication on the path")
    yield heading(f"Critical path: what the step waited for, in percent of it{said}")
    yield _Breakdown(rows, path.seconds, shown, step_s, counted="ops")
    yield _made_of(result, step_s)


def _look(key: str) -> tuple[str, str, str]:
    """Colour, glyph and short name of a part; those of exposed communication are its axis's."""
    if key in _LOOKS:
        return _LOOKS[key]
    name = key.removeprefix(EXPOSED)
    if key.startswith(EXPOSED) and AXES.has(name):
        axis = AXES.get(name)
        return axis.colour, axis.glyph, axis.name
    return "magenta", "▞", clean(name).replace("_", " ")


def _axes(keys: Iterable[str], meaning: str) -> str:
    """What the columns mean that are named by an axis of the mesh, where there are such."""
    axes = ", ".join(_look(key)[2] for key in keys if key.startswith(EXPOSED))
    return axes and f" ({axes}: {meaning})"


def _made_of(result: Result, step_s: float) -> RenderableType:
    """The operations, links and roofs of the path, a line each."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for made_of in tables(result.critical_path, MOST_REASONS):
        said = (f"{clean(name)} {100 * seconds / step_s:.1f}" for name, seconds in made_of.rows)
        table.add_row(made_of.short, "  ·  ".join(said))
    return table


def _stretches(result: Result) -> list[_Row]:
    """The device classes that the path runs through, the longest stretches first, where there are several."""
    path, spans = result.critical_path, result.spans
    device = np.array([index for index, _ in spans.lanes], np.int64)[spans.lane[path.operations]]
    counts = np.bincount(device, minlength=len(result.classes)).tolist()
    rows = list(zip(map(clean, class_names(result.classes)), counts, path.by_class, strict=False))
    longest = sorted((row for row in rows if row[2]), key=lambda row: -sum(row[2].values()))
    return [_Row(*row) for row in longest[:MOST_STRETCHES]] if len(longest) > 1 else []


def _rows(result: Result, average: dict[str, float]) -> list[_Row]:
    """What is shown: every class, or the mean, the telling ones and some between."""
    names = [clean(name) for name in class_names(result.classes)]
    ranks = [c.ranks for c in result.classes]
    if len(names) <= MOST_ROWS:
        return [_Row(*row) for row in zip(names, ranks, result.breakdown, strict=True)]
    remarks = _telling(result.breakdown)
    shown = remarks.keys() | {0, len(names) - 1}
    between = [round(i * (len(names) - 1) / (MOST_ROWS - 2)) for i in range(MOST_ROWS - 1)]
    shown |= set([index for index in between if index not in shown][: MOST_ROWS - 1 - len(shown)])
    rows = [_Row(f"mean of {len(names):,} classes", sum(ranks), average)]
    for index in sorted(shown):
        rows.append(_Row(", ".join([names[index], *remarks.get(index, [])]), ranks[index], result.breakdown[index]))
    return rows


def _telling(parts: Sequence[dict[str, float]]) -> dict[int, list[str]]:
    """The classes that stand out among many: index to why."""
    computing = [part.get("compute", 0.0) for part in parts]
    idle = [part.get("bubble", 0.0) + part.get("idle", 0.0) for part in parts]
    waiting = [sum(exposed(part).values()) for part in parts]
    labels: dict[int, list[str]] = {}
    for label, values in (("busiest", computing), ("most comm.", waiting), ("idlest", idle)):
        if (index := _peak(values)) is not None:
            labels.setdefault(index, []).append(label)
    return labels


def _peak(values: Sequence[float]) -> int | None:
    """Index of the largest value, None where all are nearly equal."""
    if max(values) - min(values) <= _ALIKE * max(values):
        return None
    return max(range(len(values)), key=values.__getitem__)
