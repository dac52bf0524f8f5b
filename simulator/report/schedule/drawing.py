"""Where everything of a drawn pipeline schedule stands: boxes of passes, their microbatches, names and figures.

Places are pixels from the upper left corner. The boxes grow with the shortest pass until the picture is as wide as it
may be; then they become narrower, at last too narrow for words.
"""

from collections.abc import Iterator
from typing import NamedTuple

from simulator.report.schedule.boxes import SHORT, SLOTS, WORDS, PassBox, kinds_of, rows_of
from simulator.report.svg.gantt import sample
from simulator.report.text import palette, wording
from simulator.report.text.plain import clean
from simulator.results.documents.schedule import ScheduleDocument

FONT = 10.0
"""Size of all words."""
MOST_WIDTH, LEAST_WIDTH = 2400.0, 560.0
"""Of the passes."""
MOST_DEVICES = 256
"""Rows; of more devices every second, third ... and the last."""
_HIGHEST, _ALL_ROWS = 20.0, 1600.0  # a row, and all of them where it may be lower
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 118.0, 52.0, 22.0
_IDLE_WIDTH = 46.0  # pixels of a column of idle shares
_LETTER = 6.0  # pixels of a digit
_AROUND = 8.0  # pixels beside the digits of the shortest pass, where the width allows it
_SEAM = 0.8  # between boxes
_LIGHTER = (0.0, 0.5, 0.25, 0.7)  # share of white in the colours of the chunks in turn
_IDLE = "#8a919e"


class Area(NamedTuple):
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float


class Word(NamedTuple):
    """A piece of text; `anchor` is `start`, `middle` or `end`, `colour` empty for that of the page."""

    x: float
    y: float
    """Of its middle."""
    text: str
    anchor: str = "start"
    colour: str = ""


class Drawing(NamedTuple):
    """All that is drawn."""

    title: str
    width: float
    height: float
    idle: list[Area]
    """What stands behind the passes of each device."""
    idle_colour: str
    areas: dict[str, list[Area]]
    """By colour."""
    words: list[Word]


class _Frame(NamedTuple):
    """Scales of a drawing."""

    document: ScheduleDocument
    rows: dict[int, list[PassBox]]
    across: float
    """Pixels of the makespan."""
    high: float
    """Pixels of a row."""


def drawing(document: ScheduleDocument) -> Drawing:
    """A schedule with its legend, names and figures."""
    rows = rows_of(document.passes)
    shown = {device: rows[device] for device in sample(len(rows), MOST_DEVICES)}
    beside = any(box.parts > 1 for row in shown.values() for box in row)
    high = min(_HIGHEST * (1.4 if beside else 1.0), _ALL_ROWS / len(shown))
    frame = _Frame(document, shown, _across(document, shown), high)
    areas: dict[str, list[Area]] = {}
    words = [*_title(frame), *_legend(frame, areas), *_names(frame)]
    words += _passes(frame, areas)
    idle = [Area(_LEFT, _TOP + at * high + 1, frame.across, high - 2) for at in range(len(shown))]
    height = _TOP + len(shown) * high + _BOTTOM
    return Drawing(words[0].text, _LEFT + frame.across + _RIGHT, height, idle, _IDLE, areas, words)


def _across(document: ScheduleDocument, rows: dict[int, list[PassBox]]) -> float:
    lasts = [
        box.end - box.start for row in rows.values() for box in row if box.kind not in SHORT and box.end > box.start
    ]
    cell = len(str(max(document.passes.microbatch))) * _LETTER + _AROUND
    wanted = document.makespan / min(lasts) * cell if lasts else LEAST_WIDTH
    return min(max(wanted, LEAST_WIDTH), MOST_WIDTH)


def _title(frame: _Frame) -> Iterator[Word]:
    document = frame.document
    sizes = f"{wording.plural(document.devices, 'device')}, {wording.plural(document.microbatches, 'microbatch')}"
    yield Word(_LEFT, 11, f"{clean(document.name)}: {sizes}, bubble {wording.percent(document.bubble)}")


def _legend(frame: _Frame, areas: dict[str, list[Area]]) -> Iterator[Word]:
    """Colours and what they stand for, one box for each chunk."""
    x, chunks = _LEFT, 1 + max(box.chunk for row in frame.rows.values() for box in row)
    for kind in kinds_of(frame.document.passes):
        for chunk in range(min(chunks, len(_LIGHTER))):
            areas.setdefault(_colour(kind, chunk), []).append(Area(x, 23, 11, 11))
            x += 13
        yield Word(x + 2, 28.5, f"{kind} {WORDS[kind]}")
        x += (len(WORDS[kind]) + 4) * _LETTER
    if chunks > 1:
        noun = "copy" if frame.document.copies > 1 else "chunk"
        yield Word(x, 28.5, f"second {noun} lighter" if chunks == 2 else f"{chunks} chunks, lighter in turn")


def _names(frame: _Frame) -> Iterator[Word]:
    """Names on the left, figures on the right and the times below, as many as have room."""
    right = _LEFT + frame.across + 6
    yield Word(right, _TOP - 8, "idle")
    yield Word(right + _IDLE_WIDTH, _TOP - 8, "activations")
    every = max(round(1.2 * FONT / frame.high), 1)
    for at, device in enumerate(frame.rows):
        if at % every == 0:
            share, middle = frame.document.by_device[device], _TOP + (at + 0.5) * frame.high
            yield Word(_LEFT - 6, middle, f"device {device}", "end")
            idle = wording.percent(share.idle / frame.document.makespan)
            yield Word(right, middle, idle)
            yield Word(right + _IDLE_WIDTH, middle, f"{share.peak:.4g}")
    below = _TOP + len(frame.rows) * frame.high + 10
    yield Word(_LEFT, below, "0")
    yield Word(_LEFT + frame.across, below, f"{frame.document.makespan:.6g}", "end")


def _passes(frame: _Frame, areas: dict[str, list[Area]]) -> Iterator[Word]:
    """Boxes into `areas`; words of those that have room."""
    scale = frame.across / frame.document.makespan
    for at, row in enumerate(frame.rows.values()):
        top = _TOP + at * frame.high + 1
        for box in row:
            x, width = _LEFT + box.start * scale, (box.end - box.start) * scale
            colour = _colour(box.kind, box.chunk)
            seam = _SEAM if width > 4 * _SEAM else 0.0
            high = (frame.high - 2) / box.parts
            areas.setdefault(colour, []).append(Area(x, top + box.part * high, width - seam, high))
            text = str(box.microbatch)
            if len(text) * _LETTER + 2 <= width and high > FONT * 0.85:
                yield Word(x + width / 2, top + (box.part + 0.5) * high, text, "middle", _on(box))


def _colour(kind: str, chunk: int) -> str:
    """Of a pass; later chunks are lighter."""
    white = _LIGHTER[chunk % len(_LIGHTER)]
    parts = (int(palette.LIGHT[SLOTS[kind]][at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * white):02x}" for part in parts)


def _on(box: PassBox) -> str:
    """Of words on a pass."""
    return "#ffffff" if box.kind == "F" and box.chunk % len(_LIGHTER) == 0 else "#000000"
