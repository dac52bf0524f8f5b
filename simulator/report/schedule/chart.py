"""A pipeline schedule as rows of cells for a terminal: bands of time with every pass in it, or an overview.

Where every pass has room for its microbatch, or at least for a cell of its own, the step is cut into as many bands of
the terminal's width as it takes. Of longer ones the page shows the whole step with what fills most of each cell, and
its middle pass by pass. Without colours a pass begins with its letter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.text import Text

from simulator.report.schedule.boxes import SHORT, WORDS, PassBox, kinds_of, rows_of
from simulator.report.svg.gantt import sample
from simulator.results.documents.schedule import ScheduleDocument

Floats = NDArray[np.float64]
MOST_LINES = 48
"""Rows of all bands together; a longer chart is an overview."""
MOST_DEVICES = 16
"""Devices of an overview and its pieces; of more, every second, third ... and the last."""
_ROOM = 12  # columns for the device's name and the page's margin
_IDLE, _MIXED = "·", "▒"
_MOST = 0.85  # share of what a cell's device does that makes the cell one of that kind
_STYLES = {
    "F": ("white on blue", "black on cyan"),
    "B": ("black on yellow", "black on bright_yellow"),
    "I": ("black on green", "black on bright_green"),
    "W": ("white on magenta", "black on bright_magenta"),
    "S": ("white on cyan", "black on bright_cyan"),
    "T": ("white on red", "black on bright_red"),
}
"""Of each kind: even chunks, odd chunks."""
_MIXED_STYLE = "blue on yellow"


@dataclass(frozen=True, slots=True)
class Look:
    """How passes are written."""

    colour: bool
    chunks: int
    """Of a device."""
    digits: int
    """Of the largest microbatch."""

    def label(self, box: PassBox) -> str:
        """The words of a pass: its microbatch, after its letter where there is no colour."""
        return f"{'' if self.colour else self.letter(box)}{box.microbatch}"

    def letter(self, box: PassBox) -> str:
        """The kind of a pass: small for the second chunk of two; of more chunks each has a letter before it."""
        if self.chunks <= 2:
            return box.kind.lower() if box.chunk else box.kind
        return f"{chr(ord('a') + box.chunk % 26)}{box.kind}"

    def style(self, box: PassBox) -> str:
        """The colours of a pass."""
        return _STYLES[box.kind][box.chunk % 2] + (" underline" if box.chunk % 4 >= 2 else "")

    @property
    def widest(self) -> int:
        """Cells of the widest label, and of what parts it from the next: its letter, or a space."""
        return self.digits + (1 if self.colour else 1 + (self.chunks > 2))


def chart(document: ScheduleDocument, *, width: int, colour: bool) -> Iterator[RenderableType]:
    """The schedule on a page of `width` columns; lines of text with their styles."""
    rows, columns = rows_of(document.passes), width - _ROOM
    chunks = max((box.chunk for row in rows.values() for box in row), default=0) + 1
    look = Look(colour, chunks, len(str(max(document.passes.microbatch))))
    shown = sorted(rows)
    short = _shortest(rows)
    for cells in (look.widest, 1):
        scale = cells / short
        length = columns // cells * cells / scale
        if _count(document.makespan, length) * len(shown) <= MOST_LINES:
            yield from _legend(document, look, chunks if colour or cells > 1 else 1)
            for begin, end in _bands(document.makespan, length):
                yield from _band(rows, shown, begin, end, scale, look)
            return
    shown = sample(len(rows), MOST_DEVICES)
    yield from _legend(document, look, chunks)
    yield Text.assemble(
        (_MIXED, _MIXED_STYLE if colour else ""), " several kinds in one cell; below, a piece of the middle"
    )
    yield from _overview(document, rows, shown, columns, look)
    length = columns // look.widest * short
    begin = (document.makespan - length) // (2 * short) * short
    yield from _band(rows, shown, begin, min(begin + length, document.makespan), look.widest / short, look)


def _shortest(rows: dict[int, list[PassBox]]) -> float:
    """The shortest pass that gets its microbatch, where it lasts at all; W, S and T may be shorter."""
    shares = ((box.kind, *box.share) for row in rows.values() for box in row)
    lasts = [(kind in SHORT, end - start) for kind, start, end in shares if end > start]
    return min(lasts)[1]


def _legend(document: ScheduleDocument, look: Look, chunks: int) -> Iterator[RenderableType]:
    """What the colours and letters stand for; `chunks` have letters of their own."""
    line = Text(no_wrap=False)
    for kind in kinds_of(document.passes):
        for chunk in range(min(chunks, 2) if look.colour else 1):
            style = look.style(PassBox(kind, chunk, 0, 0.0, 0.0)) if look.colour else ""
            line.append(f" {kind} " if look.colour else kind, style)
        line.append(f" {WORDS[kind]}  ")
    if chunks > 1:
        line.append(f" {'copies' if document.copies > 1 else 'chunks'}: {_chunk_words(look)}", "dim")
    yield line


def _chunk_words(look: Look) -> str:
    if look.colour:
        return "dark, light" if look.chunks == 2 else "dark and light in turn, underlined from the third"
    return "F, f" if look.chunks == 2 else ", ".join(f"{chr(ord('a') + at)}F" for at in range(min(look.chunks, 4)))


def _count(makespan: float, length: float) -> int:
    """Bands of a length that the time takes: astronomically many where one pass is that much shorter than others."""
    return max(int(np.ceil(makespan / length - 1e-9)), 1)


def _bands(makespan: float, length: float) -> list[tuple[float, float]]:
    """Pieces of the time, none longer than `length`."""
    return [(at * length, min((at + 1) * length, makespan)) for at in range(_count(makespan, length))]


def _band(
    rows: dict[int, list[PassBox]], shown: Sequence[int], begin: float, end: float, scale: float, look: Look
) -> Iterator[RenderableType]:
    """A heading with the times of both ends, and a line for each device."""
    cells = round((end - begin) * scale)
    yield _axis(begin, end, cells)
    for device in shown:
        line = Text(_name(device), no_wrap=True, end="")
        at = 0
        for box in rows[device]:
            first, last = (min(max(round((time - begin) * scale), 0), cells) for time in box.share)
            if last <= first:
                continue
            line.append(_IDLE * (first - at), "dim")
            line.append(_words(box, last - first, look), look.style(box) if look.colour else "")
            at = last
        line.append(_IDLE * (cells - at), "dim")
        yield line


def _words(box: PassBox, cells: int, look: Look) -> str:
    """The label of a pass where it fits, else its letter where there is no colour."""
    label = look.label(box)
    if len(label) > cells:
        label = "" if look.colour else look.letter(box)[-1]
    return label.ljust(cells)


def _overview(
    document: ScheduleDocument, rows: dict[int, list[PassBox]], shown: Sequence[int], cells: int, look: Look
) -> Iterator[RenderableType]:
    """The whole step, each cell as what its device does most in it."""
    yield _axis(0.0, document.makespan, cells)
    for device in shown:
        line = Text(_name(device), no_wrap=True, end="")
        for kind in _mostly(rows[device], document.makespan, cells):
            style = "dim" if kind == _IDLE else _overview_style(kind) if look.colour else ""
            line.append(" " if look.colour and kind in _STYLES else kind, style)
        yield line


def _overview_style(kind: str) -> str:
    return _MIXED_STYLE if kind == _MIXED else _STYLES[kind][0]


def _mostly(row: Sequence[PassBox], makespan: float, cells: int) -> Iterator[str]:
    """What fills each of so many cells: a kind of pass, several, or nothing."""
    edges = np.linspace(0.0, makespan, cells + 1)
    filled = {kind: np.diff(_busy_until(edges, [box for box in row if box.kind == kind])) for kind in WORDS}
    busy = np.sum(list(filled.values()), axis=0)
    for at in range(cells):
        kind = max(filled, key=lambda kind: float(filled[kind][at]))
        if busy[at] < makespan / cells / 2:
            yield _IDLE
        else:
            yield kind if filled[kind][at] >= _MOST * busy[at] else _MIXED


def _busy_until(times: Floats, row: Sequence[PassBox]) -> Floats:
    """How long passes that follow each other have run until each moment."""
    if not row:
        return np.zeros_like(times)
    moments = np.array([box.share for box in row]).ravel()
    lengths = np.array([box.share[1] - box.share[0] for box in row])
    done = np.repeat(np.cumsum(lengths), 2)
    done[::2] -= lengths
    return np.asarray(np.interp(times, moments, done, left=0.0))


def _axis(begin: float, end: float, cells: int) -> Text:
    """The times of both ends over a band."""
    left, right = f"{begin:.6g} ", f" {end:.6g}"
    line = "─" * max(cells - len(left) - len(right), 1)
    return Text(f"{'':<{len(_name(0))}}{left}{line}{right}", "dim", no_wrap=True)


def _name(device: int) -> str:
    return f"device {device:<3}"
