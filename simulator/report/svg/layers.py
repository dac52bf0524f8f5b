"""Inline SVG of levels over time that stand on each other, with a line at a limit."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.report.html.markup import Markup, tag
from simulator.report.svg.pictures import WIDTH, Readout, number, picture

HEIGHT = 150.0

Floats = NDArray[np.float64]


class Layer(NamedTuple):
    """One of the levels."""

    name: str
    slot: int
    heights: Floats
    """Share of the height from each moment until the next; shape (moments,)."""


def layers(across: Floats, stack: Sequence[Layer], limit: float, label: str, readout: Readout) -> Markup:
    """Levels on each other from moments on (`across`, shares of the width), dashed a limit (a share of the height).

    Pointing at it shows the height of each.
    """
    areas, below = [], np.zeros(len(across))
    for layer in stack:
        above = below + layer.heights
        areas.append(tag("path", d=_band(across, below, above), class_=f"c{layer.slot}"))
        below = above
    read = [
        tag("path", d=_steps(across, layer.heights), class_="series", fill="none", data_name=layer.name)
        for layer in stack
    ]
    line = tag("path", d=f"M0 {number(HEIGHT * (1 - limit))}H{WIDTH}", class_="limit")
    return picture(HEIGHT, *areas, *read, line, label=label, class_="plot", readout=readout)


def _steps(across: Floats, heights: Floats) -> str:
    """The edge of a level from left to right, at the bottom before it begins."""
    rows = zip((across * WIDTH).tolist(), (HEIGHT * (1 - heights)).tolist(), strict=True)
    return f"M0 {HEIGHT:g}" + "".join(f"H{number(x)}V{number(y)}" for x, y in rows)


def _band(across: Floats, below: Floats, above: Floats) -> str:
    """What lies between two levels, drawn where it is thicker than nothing."""
    pieces = []
    for i in np.flatnonzero(above[:-1] > below[:-1]).tolist():
        x, width = across[i] * WIDTH, (across[i + 1] - across[i]) * WIDTH
        top, bottom = HEIGHT * (1 - above[i]), HEIGHT * (1 - below[i])
        pieces.append(f"M{number(x)} {number(top)}h{number(width)}v{number(bottom - top)}h-{number(width)}z")
    return "".join(pieces)
