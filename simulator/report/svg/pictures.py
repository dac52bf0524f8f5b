"""Inline SVG of bars, levels and Gantt charts; widths are parts of 1,000 and stretch with the page.

Nothing is styled in place: colours are the classes `c0`, `c1` ... of `palette`, so that one style sheet with a hash
serves light, dark and print.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.report.html.markup import Markup, joined, tag
from simulator.report.svg.gantt import Box, Chart, Window
from simulator.report.text import palette

WIDTH = 1000
ROW = 14
"""Height of a row of a chart in CSS pixels."""
FEW = 8
"""Rows up to which a chart is drawn twice as high."""
_MAIN = 0.7  # share of a row for the compute lane where others are drawn below it
_MOST_STEPS = 1500
_SHADES = 4
_SEAM = 1.5  # boxes that are as wide, in parts of the width, have an edge that parts them from the next
RIBBON = 8
"""Height of the phases above a chart."""


class Readout(NamedTuple):
    """What the height of a curve stands for, written where a reader points at it."""

    top: float
    """Value at the upper edge of the picture; its lower edge is 0."""
    unit: str = ""
    """`B`, `B/s`, `%`, `/s` or nothing."""


def picture(
    height: float,
    *content: str,
    label: str,
    class_: str = "",
    pixels: float | None = None,
    top: int = 0,
    readout: Readout | None = None,
    rows: str | None = None,
) -> Markup:
    """An `svg` of the full width and a fixed height.

    `readout` says what its paths of class `series` stand for; `rows` names the element with the texts of its rows.
    """
    known = {} if readout is None else {"data_top": f"{readout.top:.6g}", "data_unit": readout.unit or None}
    return tag(
        "svg",
        tag("title", label) if label else Markup(""),
        *content,
        viewBox=f"0 {top} {WIDTH} {height:g}",
        height=f"{pixels or height:g}",
        preserveAspectRatio="none",
        role="img",
        class_=class_ or None,
        data_rows=rows,
        **known,
    )


def stacked(
    parts: Iterable[tuple[float, int, str]],
    label: str,
    limit: float | None = None,
    pixels: int = 14,
    moot: bool = False,
) -> Markup:
    """A bar of (share of the width, slot, hover text); `limit` draws a line at that share, `moot` fades the bar."""
    drawn, at = [], 0.0
    for share, slot, text in parts:
        if share > 0:
            drawn.append(
                tag(
                    "rect",
                    tag("title", text),
                    x=number(at * WIDTH),
                    y=1,
                    width=number(share * WIDTH),
                    height=8,
                    class_=f"c{slot}",
                )
            )
        at += max(share, 0.0)
    line = [] if limit is None else [tag("path", d=f"M{number(limit * WIDTH)} 0V10", class_="limit")]
    return picture(10, *drawn, *line, label=label, class_="trough moot" if moot else "trough", pixels=pixels)


def level(
    time: NDArray[np.int64], values: NDArray[np.float64], end: float, top: float, limit: float, label: str
) -> Markup:
    """A level over time as a filled step curve up to `top`, with a dashed line at `limit`; 180 pixels high."""
    height = 180.0
    if len(time) and time[0] > 0:  # until something changes there is what stays
        time, values = np.append(0, time), np.append(values.min(), values)
    xs, ys = _thinned(time / max(end, 1.0) * WIDTH, height * (1 - values / (top or 1.0)))
    steps = "".join(f"H{number(x)}V{number(y)}" for x, y in zip(xs, ys, strict=True))
    area = tag("path", d=f"M0 {height:g}{steps}H{WIDTH}V{height:g}Z", class_=f"c{palette.GREY} s2 series")
    cap = tag("path", d=f"M0 {number(height * (1 - limit / (top or 1.0)))}H{WIDTH}", class_="limit")
    return picture(height, area, cap, label=label, class_="plot", readout=Readout(top, "B"))


def area(
    xs: Sequence[float], ys: Sequence[float], slot: int, label: str, readout: Readout, height: float = 40.0
) -> Markup:
    """A step curve filled down to the bottom: from xs[i] (shares of the width) on the height is ys[i] (a share)."""
    steps = "".join(f"H{number(x * WIDTH)}V{number(height * (1 - y))}" for x, y in zip(xs, ys, strict=True))
    path = tag("path", d=f"M0 {height:g}{steps}V{height:g}Z", class_=f"c{slot} series")
    return picture(height, path, label=label, class_="plot", readout=readout)


def _thinned(xs: NDArray[np.float64], ys: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """The highest level (the least y) of each of at most `_MOST_STEPS` runs of neighbours."""
    if len(xs) <= _MOST_STEPS:
        return xs.tolist(), ys.tolist()
    edges = np.linspace(0, len(xs), _MOST_STEPS + 1).astype(int)[:-1]
    return xs[edges].tolist(), np.minimum.reduceat(ys, edges).tolist()


def gantt(
    chart: Chart, names: Sequence[str], label: str, ribbon: Sequence[tuple[Window, int]] = (), rows: str | None = None
) -> Markup:
    """The boxes of a chart; one path for each colour, so that thousands of boxes stay small.

    `ribbon` gives windows and their slots, drawn as a strip above the rows. Edges between boxes are lines as thin at
    every zoom; those of boxes too narrow for one are paths of class `fine`, to be shown when zoomed.
    """
    paths: dict[str, list[str]] = {}
    for index, row in enumerate(chart.rows):
        top, height = index * ROW + 1.0, ROW - 2.0
        main = height * (_MAIN if row.beside else 1.0)
        for box in row.boxes:
            _box(paths, box, (top, main), chart, names)
        for box in row.beside:
            _box(paths, box, (top + main, height - main), chart, names)
    for piece, slot in ribbon:
        x, width = _place(piece.begin, piece.end, chart.window)
        paths[f"c{slot} phase"] = [f"M{number(x)} {-RIBBON}h{number(width)}v{RIBBON - 3}h-{number(width)}z"]
    order = sorted(paths.items(), key=lambda item: (item[0].startswith("seam"), item[0]))
    drawn = [tag("path", d="".join(pieces), class_=look) for look, pieces in order]
    top = RIBBON if ribbon else 0
    height = max(len(chart.rows), 1) * ROW + top
    pixels = height * (2 if len(chart.rows) <= FEW else 1)
    return picture(height, *drawn, label=label, class_="plot", pixels=pixels, top=-top, rows=rows)


def _box(paths: dict[str, list[str]], box: Box, place: tuple[float, float], chart: Chart, names: Sequence[str]) -> None:
    """Add a box: its parts stacked from the bottom up, each as high as its share; what stays free was idle."""
    x, width = _place(box.start, box.end, chart.window)
    (top, height), bottom = place, place[0] + place[1]
    shade = f" s{box.chunk % _SHADES}" if box.chunk % _SHADES else ""
    for kind, share in box.parts:
        high = height * share
        bottom -= high
        across = number(max(width, 0.05))
        piece = f"M{number(x)} {number(max(bottom, top))}h{across}v{number(high)}h-{across}z"
        paths.setdefault(f"c{palette.operation(names[kind])}{shade}", []).append(piece)
    edge = f"M{number(x + width)} {number(top)}v{number(height)}"
    paths.setdefault("seam" if width >= _SEAM else "seam fine", []).append(edge)


def _place(start: int, end: int, window: Window) -> tuple[float, float]:
    """Where an interval begins and how long it is, in parts of the width."""
    scale = WIDTH / (window.end - window.begin)
    return (start - window.begin) * scale, (end - start) * scale


def legend(entries: Iterable[tuple[int, str]]) -> Markup:
    """Colours and what they stand for."""
    return tag("ul", *(tag("li", tag("i", class_=f"c{slot}"), text) for slot, text in entries), class_="legend")


def bars(rows: Iterable[tuple[str, Markup]], named: bool = False) -> Markup:
    """Named bars below each other; names that matter (`named`) are never cut: on a narrow page they stand above."""
    look = "bars named" if named else "bars"
    return tag("div", *(joined(tag("span", name, title=name), bar) for name, bar in rows), class_=look)


def number(value: float) -> str:
    """Two decimals without trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"
