"""Between which values measured figures of several runs or points are expected, in tables: a row each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from simulator.report.text.blocks import headed, heading
from simulator.report.text.column_titles import short
from simulator.report.text.grounds import listed
from simulator.report.text.plain import clean
from simulator.report.text.wording import figures
from simulator.results.spread import Interval

MAIN = ("step_time_s", "tokens_per_s", "mean_ttft_ms", "mean_tpot_ms", "output_throughput")
"""Figures that have a column; the first that a run has says what its intervals are made from."""
TITLE = "Where measured runs are expected"
MOST = 3
"""Lines about what intervals are made from."""
_NARROWEST_NAME = 24  # what is longer is folded where figures need the room
_GAP = 2
_MARGIN = 2

Column = tuple[str, list[str]]
"""A head and its cells."""


class Expected(Protocol):
    """A run, or a point."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """By metric."""


def ends(metric: str, one: Interval | None) -> str:
    """An interval, `12.6 s to 21.6 s`; a dash where there is none."""
    return "-" if one is None else " to ".join(figures(metric, (one.low, one.high)))


def shown(entries: Iterable[Expected]) -> list[str]:
    """The main figures of which any entry has an interval."""
    known = {name for one in entries for name in one.intervals}
    return [name for name in MAIN if name in known]


def cells(one: Expected, metrics: Iterable[str]) -> list[str]:
    """The intervals of an entry."""
    return [ends(name, one.intervals.get(name)) for name in metrics]


def bases(entries: Sequence[Expected]) -> list[str]:
    """What intervals are made from: a line for all that have the same, or with names; at most `MOST`."""
    found: dict[str, list[str]] = {}
    for one in entries:
        first = next((one.intervals[name] for name in MAIN if name in one.intervals), None)
        found.setdefault("no published run says anything" if first is None else first.basis, []).append(one.name)
    if len(found) == 1:
        return list(found)
    lines = [f"{listed(names)}: {basis}" for basis, names in found.items()]
    return [*lines[:MOST], *(["the basis of the others: see --json"] if len(lines) > MOST else [])]


def tables(
    entries: Sequence[Expected], captions: Sequence[str], width: int, more: Iterable[str] = ()
) -> Iterable[RenderableType]:
    """A heading, as many tables as the figures need with a row for each entry under its caption, and under them their
    bases and what `more` there is to say.

    Nothing where no entry has an interval of a main figure.
    """
    metrics = shown(entries)
    if not metrics:
        return
    yield heading(TITLE)
    columns = [(short(metric), [ends(metric, one.intervals.get(metric)) for one in entries]) for metric in metrics]
    room = width - _MARGIN - sum(map(_size, columns))
    name = min(max(_NARROWEST_NAME, room), max(map(len, captions)))
    for group in _groups(columns, width - _MARGIN - name):
        table = headed()
        table.add_column("", style="bold", overflow="fold", width=name)
        for word, _ in group:
            table.add_column(word, justify="right", no_wrap=True)
        for row in zip(captions, *(found for _, found in group), strict=True):
            table.add_row(*row)
        yield table
    yield from (Text(clean(line), "dim") for line in (*bases(entries), *more))


def _size(column: Column) -> int:
    """Its width with the gap beside it."""
    word, found = column
    return max(map(len, (word, *found))) + _GAP


def _groups(columns: Iterable[Column], room: int) -> Iterable[list[Column]]:
    """The columns that stand beside each other."""
    group: list[Column] = []
    for column in columns:
        if group and sum(map(_size, (*group, column))) > room:
            yield group
            group = []
        group.append(column)
    yield group
