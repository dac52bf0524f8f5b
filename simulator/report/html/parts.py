"""What all HTML pages are made of: heading, notes, sortable tables, and pictures that share a time axis."""

import re
from collections.abc import Iterable, Sequence
from functools import cache

from simulator import units
from simulator.report.html.markup import Markup, joined, tag
from simulator.report.text import scales, wording
from simulator.report.text.scales import Mark
from simulator.results.result import Result

_EDGE = 0.04  # share of an axis in which a mark stands at its end
_LETTER = 0.62  # width of a letter in parts of its height, at most
_FEWEST = 3  # rows that are worth sorting
_NUMBER = re.compile(r"([+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)\s*(\S*)")
_SCOPED = re.compile(r"(?<= )(id|data-rows|data-axis)=\"")  # quotes of text and of JSON are escaped
_MARKUP = re.compile(r"<[^>]*>")
_BUTTONS = (
    ("left", "←", "move left"),
    ("right", "→", "move right"),
    ("in", "+", "zoom in"),
    ("out", "−", "zoom out"),
    ("all", "whole", "show the whole time"),
)
_HELP = "Drag to move; Ctrl and wheel, pinch or double click to zoom; Shift and drag to choose a piece; keys + − ← → 0."


def heading(name: str, *content: Markup) -> Markup:
    """The head of a page with the switch between light and dark, which is shown where scripts run."""
    switch = tag("button", "light / dark", type="button", id="theme", aria_label="switch between light and dark")
    return tag("header", tag("h1", name), *content, switch)


def sections(named: Iterable[tuple[str, Iterable[Markup]]]) -> Iterable[Markup]:
    """Sections under their names; those with nothing in them are left out."""
    for name, content in named:
        if pieces := list(content):
            yield tag("section", tag("h2", name), *pieces)


def notes(lines: Sequence[str]) -> Iterable[Markup]:
    """A list of sentences."""
    if lines:
        yield tag("ul", *(tag("li", line) for line in lines), class_="notes")


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], last: Sequence[str] = (), *, sortable: bool = True
) -> Markup:
    """A table that scrolls where it is too wide; the last word of a column's name is the class of its cells.

    A click on a heading sorts by its column, of class `n` by size whatever the unit. `last` is a row that stays below
    the others, such as a sum.
    """
    titles = [column.rpartition(" ") for column in columns]
    classes = [kind if name else None for name, _, kind in titles]
    names = [name or kind for name, _, kind in titles]
    head = tag("tr", *(tag("th", name, class_=kind, scope="col") for name, kind in zip(names, classes, strict=True)))
    body = [_row(row, classes) for row in rows]
    foot = [tag("tfoot", _row(last, classes))] if last else []
    look = "sortable" if sortable and len(body) >= _FEWEST else None
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body), *foot, class_=look), class_="wide")


def _row(cells: Sequence[str], classes: Sequence[str | None]) -> Markup:
    return tag("tr", *(_cell(cell, kind) for cell, kind in zip(cells, classes, strict=True)))


def _cell(cell: str, kind: str | None) -> Markup:
    """A cell; a number whose text does not say how large it is, because units differ, carries its size."""
    size = magnitude(_MARKUP.sub("", cell) if isinstance(cell, Markup) else cell) if kind == "n" else None
    return tag("td", cell, class_=kind, data_v=None if size is None else f"{size:.6g}")


def magnitude(text: str) -> float | None:
    """What a printed quantity is in SI units: 1500.0 of `1.50 kB`; None where it begins with no number."""
    found = _NUMBER.match(text.strip().replace("−", "-"))
    return None if found is None else float(found[1].replace(",", "")) * _size(found[2].rstrip("*;,"))


@cache
def _size(unit: str) -> float:
    """A unit in base units; 1 where it is none."""
    for dimension in units.DIMENSIONS if unit else ():
        try:
            return units.parse(f"1 {unit}", dimension)
        except ValueError:  # a unit of another dimension
            continue
    return 1.0


def scoped(piece: Markup, prefix: str) -> Markup:
    """A piece whose ids and time axes are its own where the same stands on a page several times."""
    return Markup(_SCOPED.sub(rf'\1="{prefix}', piece))


def stands(result: Result) -> Iterable[Markup]:
    """What the figures of a run stand on, and between which values measured ones are expected."""
    yield from ground(result.ground.sentence)
    yield from expected(wording.expected(result))


def expected(words: str) -> Iterable[Markup]:
    """Between which values measured figures are expected."""
    if words:
        yield tag("p", f"Expected: {words}", class_="ground soft")


def ground(*sentences: str) -> Iterable[Markup]:
    """What figures stand on; an estimate looks like one."""
    for sentence in filter(None, sentences):
        look = "ground estimate" if wording.estimated(sentence) else "ground soft"
        yield tag("p", f"Ground: {sentence}", class_=look)


def timeline(axis: str, begin_s: float, end_s: float, *pictures: Markup) -> Markup:
    """Pictures over one stretch of time; all timelines of a page with the same `axis` zoom and move together.

    Marks of the time stand below them in elements made by `ticks`.
    """
    tools = [tag("button", sign, type="button", data_do=do, aria_label=what, title=what) for do, sign, what in _BUTTONS]
    status = tag("output", "", class_="soft small", aria_live="polite")
    bar = tag("div", *tools, status, tag("span", _HELP, class_="soft small"), class_="tools")
    return tag(
        "div", bar, *pictures, class_="timeline", data_axis=axis, data_begin=f"{begin_s:.9g}", data_end=f"{end_s:.9g}"
    )


def graph(end: float, *pictures: Markup, unit: str = "s") -> Markup:
    """Pictures of curves over 0 to `end` that tell their values where a reader points at them, and do not zoom."""
    return tag("div", *pictures, class_="timeline", data_begin=0, data_end=f"{end:.9g}", data_unit=unit)


def ticks(begin_s: float, end_s: float) -> Markup:
    """Round times below a picture."""
    return across(scales.marks(begin_s, end_s, "time"), zooms=True)


def across(marks: Sequence[Mark], zooms: bool = False) -> Markup:
    """Marks below a picture, each at its place; those of a time that zooms are drawn again by the script."""
    drawn = [tag("text", mark.text, x=_percent(mark.share), y=14, text_anchor=_anchor(mark.share)) for mark in marks]
    lines = [tag("line", "", x1=_percent(mark.share), x2=_percent(mark.share), y1=0, y2=4) for mark in marks]
    known = {"data_zooms": 1 if zooms else None, "aria_label": "axis below"}
    return tag("svg", *lines, *drawn, class_="axis", height=18, **known)


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _anchor(share: float) -> str:
    """Words at the ends stay inside."""
    return "start" if share < _EDGE else "end" if share > 1 - _EDGE else "middle"


def leveled(upward: Sequence[Mark], *drawn: Markup) -> Markup:
    """A picture with what stands below it, and marks at its left."""
    wide = max((len(mark.text) for mark in upward), default=0)
    words = [
        tag("text", mark.text, x="100%", y=_percent(1 - mark.share), text_anchor="end", dy=_shift(mark.share))
        for mark in upward
    ]
    levels = tag("svg", *words, class_="levels", width=f"{_LETTER * wide:.2f}em", aria_label="axis at the left")
    return tag("div", levels, joined(*drawn), class_="chart")


def _shift(share: float) -> str:
    """A mark stands beside its height, at the ends inside the picture."""
    return "0" if share < _EDGE else ".75em" if share > 1 - _EDGE else ".36em"
