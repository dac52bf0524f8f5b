"""Scatter plots and histograms as inline SVG; points say what they are when pointed at.

As in `svg`, nothing is styled in place. Numbers on the axes are text of the page beside the picture, so that they keep
their size on a narrow screen.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simulator import units
from simulator.report.html.markup import Markup, joined, tag
from simulator.report.html.parts import across, leveled
from simulator.report.svg import pictures
from simulator.report.text import palette, scales
from simulator.report.text.scales import Mark

COLOURS = tuple(slot for slot in palette.DISTINCT if slot != palette.YELLOW)  # a dot of it is hardly seen
_SIZE = 9.0  # half the width of a marker in a square plot, in parts of the width
_FLAT = 6.0  # the same in a plot that is wider, and shown wider
_SHAPES = ("circle", "square", "diamond", "triangle")


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a plot."""

    x: float
    y: float
    look: int
    """Number of its colour and marker; 28 of them differ."""
    text: str
    """What it says when pointed at."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A range with its marks; points beyond it are drawn at its end, without a filling."""

    low: float
    high: float
    marks: tuple[Mark, ...]
    """Where words and lines of the grid stand."""
    log: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value lies on the axis."""
        return self.low <= value <= self.high

    def share(self, value: float) -> float:
        """Where a value lies, 0 at `low` and 1 at `high`."""
        low, high = (math.log10(end) if self.log else end for end in (self.low, self.high))
        at = (math.log10(max(value, 1e-300)) if self.log else value) - low
        return min(max(at / (high - low), 0.0), 1.0)


def decades(values: Iterable[float], dimension: str) -> Axis:
    """A logarithmic axis of whole decades around positive values, marked in units of a dimension."""
    known = [value for value in values if 0 < value < math.inf] or [1.0]
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    high = max(high, low + 1)
    ticks = tuple(_decade(power, dimension) for power in range(low, high + 1))
    return Axis(10.0**low, 10.0**high, tuple(scales.words(*ticks)), log=True)


def _decade(power: int, dimension: str) -> str:
    """A power of ten in its unit, without the zeros that three digits have."""
    number, _, unit = units.format(10.0**power, dimension).partition(" ")
    return f"{float(number):,g} {unit}"


def scatter(
    points: Sequence[Point], x: Axis, y: Axis, label: str, *, band: Sequence[tuple[float, float]], height: int = 1000
) -> Markup:
    """Points over a grid with a shaded polygon `band` of (x, y) and the axes' words beside them."""

    def place(along: float, up: float) -> tuple[float, float]:
        return pictures.WIDTH * x.share(along), height * (1 - y.share(up))

    corners = " ".join(f"{a:.1f},{b:.1f}" for a, b in (place(*corner) for corner in band))
    drawn = [tag("path", d=_grid(x, y, height), class_="grid"), tag("polygon", points=corners, class_="band")]
    for point in points:
        shape = _marker(point.look, *place(point.x, point.y), _SIZE if height == pictures.WIDTH else _FLAT)
        colour = COLOURS[point.look % len(COLOURS)]
        inside = x.holds(point.x) and y.holds(point.y)
        look = f"c{colour} dot" if inside else f"k{colour} dot beyond"
        drawn.append(tag("path", d=shape, class_=look, data_tip=point.text))
    picture = tag(
        "svg", tag("title", label), *drawn, viewBox=f"0 0 {pictures.WIDTH} {height}", role="img", class_="plot scatter"
    )
    return leveled(y.marks, picture, across(x.marks))


def _grid(x: Axis, y: Axis, height: int) -> str:
    columns, rows = ([mark.share for mark in axis.marks if 0 < mark.share < 1] for axis in (x, y))
    lines = [f"M{pictures.WIDTH * share:.1f} 0V{height}" for share in columns]
    return "".join([*lines, *(f"M0 {height * (1 - share):.1f}H{pictures.WIDTH}" for share in rows)])


def _marker(look: int, x: float, y: float, size: float = _SIZE) -> str:
    """The outline of a marker around a point."""
    left, right, top, bottom = x - size, x + size, y - size, y + size
    match _SHAPES[look % len(_SHAPES)]:
        case "circle":
            arc = f"a{size:g} {size:g} 0 1 0"
            return f"M{left:.1f} {y:.1f}{arc} {2 * size:g} 0{arc} {-2 * size:g} 0z"
        case "square":
            return f"M{left + 1:.1f} {top + 1:.1f}h{2 * size - 2:g}v{2 * size - 2:g}h{2 - 2 * size:g}z"
        case "diamond":
            return f"M{x:.1f} {top - 2:.1f}L{right + 2:.1f} {y:.1f}L{x:.1f} {bottom + 2:.1f}L{left - 2:.1f} {y:.1f}z"
    return f"M{x:.1f} {top:.1f}L{right:.1f} {bottom:.1f}H{left:.1f}z"


def legend(names: Iterable[str]) -> Markup:
    """Names with the colour and marker of their number."""
    entries = []
    for look, name in enumerate(names):
        shape = tag("path", d=_marker(look, 12, 12), class_=f"c{COLOURS[look % len(COLOURS)]} dot")
        entries.append(tag("li", tag("svg", shape, viewBox="0 0 24 24", class_="marker", aria_hidden="true"), name))
    return tag("ul", *entries, class_="legend")


def histogram(parts: Sequence[tuple[int, Sequence[float]]], axis: Axis, bins: int, label: str) -> Markup:
    """How many values fall into each of `bins` equal parts of an axis; parts (slot, values) stand on each other."""
    counts = [[0] * bins for _ in parts]
    for number, (_, values) in enumerate(parts):
        for value in values:
            counts[number][min(int(axis.share(value) * bins), bins - 1)] += 1
    most = max((sum(column) for column in zip(*counts, strict=True)), default=0)
    top = max(most + most % 2, 2)
    height, wide = 180.0, pictures.WIDTH / bins
    drawn, base = [], [height] * bins
    for (slot, _), column in zip(parts, counts, strict=True):
        pieces = []
        for i, count in enumerate(column):
            high = height * count / top
            base[i] -= high
            if count:
                size = f"{wide - 2:.1f}"
                pieces.append(f"M{wide * i + 1:.1f} {base[i]:.1f}h{size}v{high:.1f}h-{size}z")
        drawn.append(tag("path", d="".join(pieces), class_=f"c{slot}"))
    zero = tag("path", d=f"M{pictures.WIDTH * axis.share(0.0):.1f} 0V{height:g}", class_="limit")
    picture = pictures.picture(height, joined(*drawn), zero, label=label, class_="plot")
    return leveled(scales.words("0", f"{top // 2}", f"{top} rows"), picture, across(axis.marks))
