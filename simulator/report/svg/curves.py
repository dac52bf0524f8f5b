"""Inline SVG of curves and scattered points with labelled axes; places are shares of the width and of the height."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.report.html.markup import Markup, tag
from simulator.report.svg.pictures import WIDTH, Readout, number, picture

HEIGHT = 150.0
_LEAST_STEP = 0.15  # parts of the width or height below which a point is not drawn again

Floats = NDArray[np.float64]


class Curve(NamedTuple):
    """Points that a line joins."""

    x: Floats
    y: Floats
    slot: int
    steps: bool = False
    """Whether a level stays until the next point."""
    name: str = ""
    """Which one it is, where there are several."""


def curves(
    drawn: Iterable[Curve],
    label: str,
    goals: Sequence[float] = (),
    height: float = HEIGHT,
    readout: Readout | None = None,
) -> Markup:
    """Lines over each other; `goals` are dashed vertical lines, `readout` is what the height stands for."""
    lines = [
        tag("path", d=_path(curve, height), class_=f"line k{curve.slot} series", data_name=curve.name or None)
        for curve in drawn
        if len(curve.x)
    ]
    marks = [tag("path", d=f"M{number(goal * WIDTH)} 0V{height:g}", class_="goal") for goal in goals if 0 <= goal <= 1]
    return picture(height, *lines, *marks, label=label, class_="plot", readout=readout)


def dots(groups: Iterable[tuple[Floats, Floats, int]], label: str, box: tuple[float, float], height: float) -> Markup:
    """Points in groups of one colour and, dashed, the right and upper side of a box; beyond 1 there is no side."""
    drawn = [(zip((x * WIDTH).tolist(), ((1 - y) * height).tolist(), strict=True), slot) for x, y, slot in groups]
    points = [
        tag("path", d="".join(f"M{number(a)} {number(b)}h0" for a, b in places), class_=f"dots k{slot}")
        for places, slot in drawn
    ]
    right, top = box
    sides = (f"M{number(right * WIDTH)} {height:g}V0" if right <= 1 else "") + (
        f"M0 {number((1 - top) * height)}H{WIDTH}" if top <= 1 else ""
    )
    goal = [tag("path", d=sides, class_="goal")] if sides else []
    return picture(height, *points, *goal, label=label, class_="plot")


def _path(curve: Curve, height: float) -> str:
    """The line as a path, without points that look like the ones before them."""
    x = np.clip(curve.x, 0, 1.05) * WIDTH
    y = (1 - curve.y) * height
    kept, last = [0], (x[0], y[0])
    for i, point in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        if abs(point[0] - last[0]) > _LEAST_STEP or abs(point[1] - last[1]) > _LEAST_STEP:
            kept.append(i)
            last = point
    start = f"M{number(x[0])} {number(y[0])}"
    if curve.steps:
        return start + "".join(f"H{number(x[i])}V{number(y[i])}" for i in kept[1:])
    return start + "".join(f"L{number(x[i])} {number(y[i])}" for i in kept[1:])
