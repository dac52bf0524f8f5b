"""A pipeline schedule as SVG and PNG, both of the same drawing."""

from io import BytesIO
from pathlib import Path

from simulator.report.html.markup import Markup, tag
from simulator.report.schedule.drawing import FONT, Area, Drawing, drawing
from simulator.report.svg.figures import check_library
from simulator.report.svg.pictures import number
from simulator.results.documents.schedule import ScheduleDocument
from simulator.results.writing import replacing, write

_IDLE_OPACITY = 0.22
_SHARP = 2  # pixels of the PNG for one of the drawing
_POINT = 0.72  # points of a pixel of the drawing, at 100 to the inch


def svg(document: ScheduleDocument, background: str | None = None) -> Markup:
    """The picture as an element, one path for each colour; without a background its words have the page's colour."""
    plan = drawing(document)
    size = {"width": number(plan.width), "height": number(plan.height)}
    behind = [] if background is None else [tag("rect", **size, fill=background)]
    idle = tag("path", d=_path(plan.idle), fill=plan.idle_colour, fill_opacity=_IDLE_OPACITY)
    passes = [tag("path", d=_path(areas), fill=colour) for colour, areas in plan.areas.items()]
    return tag(
        "svg",
        tag("title", plan.title),
        *behind,
        idle,
        *passes,
        *_words(plan),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {size['width']} {size['height']}",
        **size,
        role="img",
        font_family="sans-serif",
        font_size=f"{FONT:g}",
        fill="currentColor" if background is None else "#000000",
        dominant_baseline="central",
        style="max-width:100%;height:auto",
    )


def _path(areas: list[Area]) -> str:
    return "".join(f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h-{number(w)}z" for x, y, w, h in areas)


def _words(plan: Drawing) -> list[Markup]:
    return [
        tag(
            "text",
            word.text,
            x=number(word.x),
            y=number(word.y),
            text_anchor=None if word.anchor == "start" else word.anchor,
            fill=word.colour or None,
        )
        for word in plan.words
    ]


def save_svg(document: ScheduleDocument, path: str | Path) -> None:
    """Write the picture on white; InputError where it cannot be written."""
    write(path, f"{svg(document, background='#ffffff')}\n")


def save_png(document: ScheduleDocument, path: str | Path) -> None:
    """Write the picture on white, drawn by matplotlib; InputError where it cannot be drawn or written."""
    check_library()
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

    plan, buffer = drawing(document), BytesIO()
    figure = Figure(figsize=(plan.width / 100, plan.height / 100), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, plan.width), ylim=(plan.height, 0))
    idle = (plan.idle_colour, _IDLE_OPACITY)
    for colour, areas in [(idle, plan.idle), *plan.areas.items()]:
        axes.add_collection(PolyCollection([_corners(area) for area in areas], facecolors=[colour], linewidths=0))
    for word in plan.words:
        align = {"start": "left", "middle": "center", "end": "right"}[word.anchor]
        axes.text(
            word.x,
            word.y,
            word.text,
            ha=align,
            va="center",
            color=word.colour or "black",
            fontsize=FONT * _POINT,
            parse_math=False,
        )
    figure.savefig(buffer, format="png", dpi=100 * _SHARP, metadata={"Software": None})
    with replacing(path) as file:
        file.write(buffer.getvalue())


def _corners(area: Area) -> list[tuple[float, float]]:
    x, y, width, height = area
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
