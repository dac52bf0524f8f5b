"""A network as SVG and PNG, both of the same drawing: a point each for nodes and switches, a line for what joins two.

Lines are as thick as what they carry is wide; under a collective they are the warmer the busier their busiest link.
"""

from collections import defaultdict
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.report.html.markup import Markup, tag
from simulator.report.svg.fabric_layout import WIDTH, Place, layout, rows
from simulator.report.svg.figures import check_library
from simulator.report.svg.pictures import number
from simulator.report.text import palette
from simulator.report.text.plain import clean
from simulator.report.text.wording import plural
from simulator.results.documents.network import Drawable
from simulator.results.writing import replacing, write

FONT = 13.0
_POINT = 0.72  # points of a pixel of the drawing, at 100 to the inch
_SHARP = 2  # pixels of the PNG for one of the drawing
_FEW = 26  # points of a kind up to which each has its name
_COLD, _HOT = (176, 184, 196), (200, 16, 32)
_STUB = 16.0


@dataclass(frozen=True, slots=True)
class Line:
    """What joins two points."""

    start: Place
    stop: Place
    colour: str
    width: float


@dataclass(frozen=True, slots=True)
class Dot:
    """A point."""

    place: Place
    size: float
    colour: str
    square: bool


@dataclass(frozen=True, slots=True)
class Word:
    """Text at a place."""

    place: Place
    text: str
    anchor: str
    size: float = FONT


@dataclass(frozen=True, slots=True)
class Drawing:
    """All of a picture, in pixels."""

    height: float
    lines: list[Line]
    dots: list[Dot]
    words: list[Word]


def drawing(document: Drawable) -> Drawing:
    """The picture of a network; InputError for one of too many points."""
    if not document.points:
        message = f"{plural(document.nodes, 'node')} and their switches are too many to draw"
        raise InputError(Problem(message, hint="draw a part: `--nodes 64`"))
    places, height = layout(document)
    kinds = list(dict.fromkeys(point.kind for point in document.points))
    many = {kind: sum(point.kind == kind for point in document.points) for kind in kinds}
    colours = {kind: palette.LIGHT[slot % 6] for slot, kind in enumerate(kinds)}
    dots = [
        Dot(place, _size(many[point.kind]), colours[point.kind], point.kind in ("node", "device"))
        for point, place in zip(document.points, places, strict=True)
    ]
    return Drawing(height, _lines(document, places), dots, _words(document, places, many))


def _size(many: int) -> float:
    return max(2.0, min(8.0, 240.0 / many))


def _lines(document: Drawable, places: list[Place]) -> list[Line]:
    """Both directions as one line, the busier on top; a seam of a torus as a stub at each of its ends."""
    pairs: dict[tuple[int, int], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for join in document.joins:
        key = (min(join.start, join.stop), max(join.start, join.stop))
        capacity, heat = pairs[key]
        pairs[key] = max(capacity, join.capacity), max(heat, join.heat)
    widest = max((capacity for capacity, _ in pairs.values()), default=0.0) or 1.0
    found = []
    for (start, stop), (capacity, heat) in sorted(pairs.items(), key=lambda item: item[1][1]):
        width = (0.5 + 1.8 * (capacity / widest) ** 0.5) * (1.0 if len(pairs) < 1500 else 0.4) * (1 + heat)
        colour = _warm(heat)
        ends = places[start], places[stop]
        if _seam(document, start, stop):
            found += [Line(here, _towards(here, there, -_STUB), colour, width) for here, there in (ends, ends[::-1])]
        else:
            found.append(Line(*ends, colour, width))
    return found


def _seam(document: Drawable, start: int, stop: int) -> bool:
    """Whether a link leads around a torus, from one end of a dimension to the other."""
    one, other = document.points[start], document.points[stop]
    if document.kind not in ("torus", "multislice") or {one.kind, other.kind} != {"device"}:
        return False
    return sum(abs(a - b) for a, b in zip(one.numbers, other.numbers, strict=True)) > 1


def _towards(here: Place, there: Place, length: float) -> Place:
    x, y = there[0] - here[0], there[1] - here[1]
    away = max((x * x + y * y) ** 0.5, 1e-9)
    return here[0] + x * length / away, here[1] + y * length / away


def _warm(heat: float) -> str:
    red, green, blue = (round(cold + (hot - cold) * heat) for cold, hot in zip(_COLD, _HOT, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _words(document: Drawable, places: list[Place], many: dict[str, int]) -> list[Word]:
    heat = f"; red: busy in {document.collective}" if document.collective else ""
    counted = ", ".join(_counted(count, kind, " ") for kind, count in many.items())
    found = [
        Word((20.0, 22.0), clean(document.cluster)[:90], "start", 16.0),
        Word((20.0, 44.0), f"{document.kind}: {counted}{heat}", "start"),
    ]
    order = rows(document)
    for kind in order:
        y = next(place[1] for point, place in zip(document.points, places, strict=True) if point.kind == kind)
        found.append(Word((20.0, y), _counted(many[kind], kind, " x "), "start"))
    named = {kind for kind, count in many.items() if count <= _FEW and len(many) + len(order) > 1}
    for point, (x, y) in zip(document.points, places, strict=True):
        if point.kind in named and point.name != point.kind and (order or point.kind != "node"):
            name = ".".join(map(str, point.numbers)) or clean(point.name.removeprefix(point.kind).strip())[:18]
            found.append(Word((x, y + (22.0 if point.kind in ("node", "device") else -16.0)), name, "middle", 11.0))
    return found


def _counted(many: int, kind: str, between: str) -> str:
    """`4 spine`, but `global links`: where groups meet stands for all of them."""
    return clean(kind) if kind.endswith(" links") else f"{many:,}{between}{clean(kind)}"


def svg(document: Drawable, background: str | None = None) -> Markup:
    """The picture as an element; without a background its words have the page's colour."""
    plan = drawing(document)
    size = {"width": number(WIDTH), "height": number(plan.height)}
    behind = [] if background is None else [tag("rect", **size, fill=background)]
    lines = [
        tag("path", d=_path(line), stroke=line.colour, stroke_width=number(line.width), fill="none")
        for line in plan.lines
    ]
    dots = [_dot(dot) for dot in plan.dots]
    words = [
        tag(
            "text",
            word.text,
            x=number(word.place[0]),
            y=number(word.place[1]),
            font_size=f"{word.size:g}",
            text_anchor=None if word.anchor == "start" else word.anchor,
        )
        for word in plan.words
    ]
    return tag(
        "svg",
        tag("title", f"Network of {clean(document.cluster)}"),
        *behind,
        *lines,
        *dots,
        *words,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {size['width']} {size['height']}",
        **size,
        role="img",
        font_family="sans-serif",
        fill="currentColor" if background is None else "#000000",
        dominant_baseline="central",
        style="max-width:100%;height:auto",
    )


def _path(line: Line) -> str:
    (x, y), (to_x, to_y) = line.start, line.stop
    return f"M{number(x)} {number(y)}L{number(to_x)} {number(to_y)}"


def _dot(dot: Dot) -> Markup:
    (x, y), size = dot.place, dot.size
    if dot.square:
        side = number(2 * size)
        return tag("rect", x=number(x - size), y=number(y - size), width=side, height=side, fill=dot.colour)
    return tag("circle", cx=number(x), cy=number(y), r=number(size), fill=dot.colour)


def save_svg(document: Drawable, path: str | Path) -> None:
    """Write the picture on white; InputError where it cannot be drawn or written."""
    write(path, f"{svg(document, background='#ffffff')}\n")


def save_png(document: Drawable, path: str | Path) -> None:
    """Write the picture on white, drawn by matplotlib; InputError where it cannot be drawn or written."""
    check_library()
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    plan, buffer = drawing(document), BytesIO()
    figure = Figure(figsize=(WIDTH / 100, plan.height / 100), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, WIDTH), ylim=(plan.height, 0))
    axes.add_collection(
        LineCollection(
            [(line.start, line.stop) for line in plan.lines],
            colors=[line.colour for line in plan.lines],
            linewidths=[line.width * _POINT for line in plan.lines],
        )
    )
    for square in (True, False):
        some = [dot for dot in plan.dots if dot.square == square]
        if some:
            area = [(2 * dot.size * _POINT) ** 2 for dot in some]
            x, y = zip(*(dot.place for dot in some), strict=True)
            axes.scatter(
                x, y, area, [dot.colour for dot in some], marker="s" if square else "o", linewidths=0, zorder=3
            )
    for word in plan.words:
        align = {"start": "left", "middle": "center"}[word.anchor]
        axes.text(
            *word.place, word.text, ha=align, va="center", fontsize=word.size * _POINT, parse_math=False, zorder=4
        )
    figure.savefig(buffer, format="png", dpi=100 * _SHARP, metadata={"Software": None})
    with replacing(path) as file:
        file.write(buffer.getvalue())
