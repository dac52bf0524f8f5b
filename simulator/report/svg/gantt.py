"""What a Gantt chart of a step shows: a row per device class, boxes of operations, and the phases of the pipeline.

A pure function from a Result to boxes; pages and plots only draw them. Where a row has more operations than can be
drawn apart, neighbours become one box that says how much of it each kind of operation fills; a box never reaches across
a pause or from one phase of the pipeline into the next.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.report.text import wording
from simulator.report.text.plain import clean
from simulator.results.result import Result, Spans
from simulator.results.summary import class_names

MOST_ROWS = 40
"""Device classes shown; of more, every second, third ... and the last."""
MOST_BOXES = 500
"""Operations of a row that are drawn one by one; more are merged."""
MOST_DRAWN = 27_000
"""Boxes of all charts of a page, some 60 bytes each; of more, fewer device classes are shown."""
_MERGED = 3  # how many single ones a merged box is as large as
_FEWEST_ROWS = 4
_PAUSE = 1 / 500  # share of the window that shows as a gap
_CLOSE = 60  # operations of a row in a close-up of the steady state
_MAIN = "compute"
_FORWARD = ("forward",)
_BACKWARD = ("backward", "input gradient")

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """A named piece of the step, in ticks."""

    name: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Box:
    """One operation, or neighbouring ones merged; ticks."""

    start: int
    end: int
    parts: tuple[tuple[int, float], ...]
    """(index of the kind in `Spans.names`, share of the box that it fills); shares sum to at most 1."""
    text: str
    """What it is, in words, without stage and microbatch."""
    stage: int = -1
    """Pipeline stage of a single operation, -1 where it has none."""
    microbatch: int = -1
    """Microbatch of a single operation, -1 where it has none."""
    chunk: int = 0
    """Which of the stages of its device class it belongs to, counted from 0; interleaved schedules have several."""


@dataclass(frozen=True, slots=True)
class Row:
    """One device class."""

    name: str
    boxes: tuple[Box, ...]
    """What its compute lane did, in order."""
    beside: tuple[Box, ...]
    """What its other lanes did meanwhile, in order of start; they may overlap."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything that a drawing needs."""

    window: Window
    rows: tuple[Row, ...]
    merged: bool
    """Whether boxes stand for several operations."""
    kinds: tuple[int, ...]
    """Indices of the kinds that occur."""

    @property
    def size(self) -> int:
        """How much there is to draw, in boxes of single operations."""
        boxes = (box for row in self.rows for box in (*row.boxes, *row.beside))
        return sum(_MERGED if box.microbatch < 0 and box.stage < 0 else 1 for box in boxes)


def sample(number: int, most: int = MOST_ROWS) -> list[int]:
    """Indices of the device classes that are shown: all, or every k-th and the last."""
    step = max(-(-number // most), 1)
    return sorted({*range(0, number, step), *([number - 1] if number else [])})


def charts(result: Result) -> list[Chart]:
    """The whole step and, where boxes are merged in it, close-ups; together of at most about `MOST_DRAWN` boxes."""
    first = chart(result)
    windows = close_ups(result) if first.merged else ()
    drawn = [first, *(chart(result, window) for window in windows)]
    if (size := sum(one.size for one in drawn)) <= MOST_DRAWN:
        return drawn
    most = max(len(first.rows) * MOST_DRAWN // size, _FEWEST_ROWS)
    return [chart(result, one.window, most) for one in drawn]


def chart(result: Result, window: Window | None = None, most: int = MOST_ROWS) -> Chart:
    """At most about `most` rows of a window (the whole step if left out), their boxes merged if there are too many."""
    window = window or whole(result.spans)
    rows = sample(len(result.classes), most)
    main, beside = lanes(result)
    merged = max((len(_inside(result.spans, main[index], window)) for index in rows), default=0) > MOST_BOXES
    names = class_names(result.classes)
    drawn = tuple(
        Row(
            clean(names[index]),
            _boxes(result.spans, main[index], window, merged),
            _boxes(result.spans, beside[index], window, None),
        )
        for index in rows
    )
    kinds = {kind for row in drawn for box in (*row.boxes, *row.beside) for kind, _ in box.parts}
    return Chart(window, drawn, merged, tuple(sorted(kinds)))


def whole(spans: Spans) -> Window:
    """The window of all operations."""
    return Window("the whole step", 0, max(int(spans.end.max()), 1) if len(spans.end) else 1)


def lanes(result: Result) -> tuple[list[Ints], list[Ints]]:
    """Per device class the rows of `spans` on its compute lane and those on its other lanes, by start."""
    spans = result.spans
    order = np.argsort(spans.start, kind="stable")
    place = np.array([index for index, _ in spans.lanes] or [0])[spans.lane[order]] if len(order) else order
    computing = np.array([name == _MAIN for _, name in spans.lanes] or [False])[spans.lane[order]]
    count = range(len(result.classes))
    return [order[computing & (place == i)] for i in count], [order[~computing & (place == i)] for i in count]


def phases(result: Result) -> tuple[Window, ...]:
    """Warm-up, steady state and cool-down of the pipeline; nothing where there is no pipeline or no such state.

    Steady are the moments at which every class is between its first backward and its last forward pass.
    """
    edges = [_turns(result.spans, rows) for rows in lanes(result)[0]]
    if len(edges) < 2 or any(edge is None for edge in edges):
        return ()
    backward, forward = zip(*(edge for edge in edges if edge), strict=True)
    begin, end, length = max(backward), min(forward), whole(result.spans).end
    if begin >= end:
        return ()
    return Window("warm-up", 0, begin), Window("steady state", begin, end), Window("cool-down", end, length)


def close_ups(result: Result) -> tuple[Window, ...]:
    """Windows in which single operations are visible: the warm-up, some of the steady state, the cool-down."""
    if not (found := phases(result)):
        return ()
    first, steady, last = found
    rows = [lanes(result)[0][index] for index in sample(len(result.classes))]
    length = _shrunk(result.spans, rows, first, MOST_BOXES)
    middle, half = (steady.begin + steady.end) // 2, _shrunk(result.spans, rows, steady, _CLOSE) // 2
    return (
        Window("warm-up", 0, length),
        Window("a piece of the steady state", middle - half, middle + half),
        Window("cool-down", last.end - _shrunk(result.spans, rows, last, MOST_BOXES), last.end),
    )


def _turns(spans: Spans, rows: Ints) -> tuple[int, int] | None:
    """Start of the first backward and end of the last forward pass; None where one is missing."""
    backward = rows[np.isin(spans.name[rows], _kinds(spans, _BACKWARD))]
    forward = rows[np.isin(spans.name[rows], _kinds(spans, _FORWARD))]
    if not len(backward) or not len(forward):
        return None
    return int(spans.start[backward].min()), int(spans.end[forward].max())


def _kinds(spans: Spans, names: tuple[str, ...]) -> list[int]:
    return [index for index, name in enumerate(spans.names) if name in names]


def _shrunk(spans: Spans, rows: list[Ints], window: Window, most: int) -> int:
    """Length of the part of a window in which no row has many more than `most` operations."""
    busiest = max(len(_inside(spans, row, window)) for row in rows)
    return max(int((window.end - window.begin) * min(0.95 * most / max(busiest, 1), 1.0)), 2)


def _inside(spans: Spans, rows: Ints, window: Window) -> Ints:
    return rows[(spans.end[rows] > window.begin) & (spans.start[rows] < window.end)]


def _boxes(spans: Spans, rows: Ints, window: Window, merged: bool | None) -> tuple[Box, ...]:
    """Boxes of a lane in a window, merged on demand; `None` merges where there are too many."""
    rows = _inside(spans, rows, window)
    if not len(rows):
        return ()
    if merged or (merged is None and len(rows) > MOST_BOXES):
        return tuple(_merged(spans, piece, window, phase) for piece, phase in _pieces(spans, rows, window))
    chunks = np.searchsorted(np.unique(spans.stage[rows][spans.stage[rows] >= 0]), spans.stage[rows])
    return tuple(_single(spans, row, window, chunk) for row, chunk in zip(rows.tolist(), chunks.tolist(), strict=True))


def _single(spans: Spans, row: int, window: Window, chunk: int) -> Box:
    kind, stage, microbatch = int(spans.name[row]), int(spans.stage[row]), int(spans.microbatch[row])
    place = _clipped(spans, row, row, window)
    return Box(*place, ((kind, 1.0),), clean(spans.names[kind]), stage, microbatch, chunk)


def _clipped(spans: Spans, first: int, last: int, window: Window) -> tuple[int, int]:
    return max(int(spans.start[first]), window.begin), min(int(spans.end[last]), window.end)


def _pieces(spans: Spans, rows: Ints, window: Window) -> list[tuple[Ints, str]]:
    """Runs of operations without a visible pause and within one phase of their lane, with the phase."""
    phase = np.ones(len(rows), np.int64)
    if (turns := _turns(spans, rows)) is not None and turns[0] < turns[1]:
        phase = np.searchsorted(np.array([turns[0], turns[1] + 1]), spans.start[rows], side="right")
        names = ("warm-up", "steady state", "cool-down")
    else:
        names = ("", "", "")
    pause = (window.end - window.begin) * _PAUSE
    apart = spans.start[rows][1:] - np.maximum.accumulate(spans.end[rows])[:-1] >= pause
    cuts = np.flatnonzero(apart | (np.diff(phase) != 0)) + 1
    pieces = np.split(rows, cuts)
    return [(piece, names[int(phase[at])]) for piece, at in zip(pieces, [0, *cuts.tolist()], strict=True)]


def _merged(spans: Spans, rows: Ints, window: Window, phase: str) -> Box:
    start, end = int(spans.start[rows[0]]), int(spans.end[rows].max())
    kinds, counts = np.unique(spans.name[rows], return_counts=True)
    took = np.bincount(spans.name[rows], weights=spans.end[rows] - spans.start[rows], minlength=len(spans.names))
    scale = max(end - start, float(took.sum()), 1.0)
    parts = tuple((int(kind), float(took[kind]) / scale) for kind in kinds.tolist())
    listed = ", ".join(f"{count:,} {clean(spans.names[kind])}" for kind, count in zip(kinds, counts, strict=True))
    busy = wording.percent(float(took.sum()) / scale)
    text = f"{phase}: {listed}; busy {busy}" if phase else f"{listed}; busy {busy}"
    return Box(max(start, window.begin), min(end, window.end), parts, text)
