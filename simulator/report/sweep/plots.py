"""Plots of a sweep with matplotlib: the heat map and the Pareto front."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simulator.report.svg.figures import plain, save_figures
from simulator.report.sweep import phrases
from simulator.report.text import palette, wording
from simulator.results.documents.sweep import HeatMap, SweepDocument

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_FIGURES = 200  # cells up to which the figures stand in them


def heat(document: SweepDocument, axes: "Axes") -> "Axes":
    """A metric over two axes of the sweep; grey cells need more memory than there is, white ones have no point."""
    from matplotlib.patches import Rectangle

    shown = _heat_of(document)
    cells = np.array([[np.nan if c is None else c for c in row] for row in shown.cells], np.float64)
    drawn = axes.imshow(np.ma.masked_invalid(cells), cmap="viridis", aspect="auto", origin="upper")
    across, upward = phrases.axis_words([shown.x, shown.y])
    axes.set_xticks(range(len(shown.x_values)), [plain(phrases.value(v)) for v in shown.x_values])
    axes.set_yticks(range(len(shown.y_values)), [plain(phrases.value(v)) for v in shown.y_values])
    axes.set_xlabel(plain(across))
    axes.set_ylabel(plain(upward))
    axes.grid(visible=False)
    bar = axes.figure.colorbar(drawn, ax=axes, format=_words(shown.metric))
    bar.set_label(plain(phrases.label(shown.metric)))
    if cells.size <= _MOST_FIGURES:
        for (row, column), shade in np.ndenumerate(np.array(phrases.shades(shown), np.float64)):
            if np.isfinite(shade):
                text = wording.figure(shown.metric, float(cells[row, column]))
                colour = "black" if shade > 0.6 else "white"
                axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    for (column, row), needed in _full(document).items():
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color=palette.LIGHT[palette.PALE], linewidth=0))
        if cells.size <= _MOST_FIGURES:
            words = f"needs\n{wording.figure('peak_memory_bytes', needed)}"
            axes.text(column, row, words, ha="center", va="center", color="dimgrey", fontsize=8)
    for row, marks in enumerate(phrases.gaps(document, shown)):
        for column, mark in enumerate(marks):
            if mark == phrases.REFUSED:
                axes.text(column, row, mark, ha="center", va="center", color="black", fontsize=8)
    if words := phrases.gap_words(document, shown, full="grey"):
        axes.set_title(words, fontsize="small", loc="right")
    return axes


def _heat_of(document: SweepDocument) -> HeatMap:
    assert document.heat is not None
    return document.heat


def _full(document: SweepDocument) -> dict[tuple[int, int], float]:
    """By (column, row) of the cells in which no point fits into memory, the bytes that the least of them needs."""
    shown = _heat_of(document)
    found: dict[tuple[int, int], float] = {}
    for point in document.rows:
        cell = (shown.x_values.index(point.values[shown.x]), shown.y_values.index(point.values[shown.y]))
        needed = point.metrics.get("peak_memory_bytes")
        if point.status == "out of memory" and needed is not None and shown.cells[cell[1]][cell[0]] is None:
            found[cell] = min(needed, found.get(cell, needed))
    return found


def pareto(document: SweepDocument, axes: "Axes") -> "Axes":
    """All points by two metrics, those that none beats in both joined by a line."""
    assert document.pareto is not None
    known = phrases.with_figures(document, document.pareto)
    axes.plot(
        [x for _, x, _ in known],
        [y for _, _, y in known],
        ".",
        color=palette.LIGHT[palette.GREY],
        label="all points",
    )
    found = {row.point: (x, y) for row, x, y in known}
    front = [found[point] for point in document.pareto.points]
    axes.plot(
        [x for x, _ in front],
        [y for _, y in front],
        "o-",
        color=palette.LIGHT[palette.VERMILION],
        label="front",
    )
    for axis, name in zip((axes.xaxis, axes.yaxis), document.pareto.metrics, strict=True):
        axis.set_major_formatter(_words(name))
        axis.set_label_text(plain(f"{phrases.label(name)}, {phrases.better(name)} is better"))
    axes.legend(frameon=False)
    return axes


PLOTS: dict[str, Callable[[SweepDocument, "Axes"], "Axes"]] = {"heat": heat, "pareto": pareto}
"""The plots by the names of their files, which are the keys of the document that they draw."""


def save_plots(document: SweepDocument, folder: str | Path) -> list[Path]:
    """Write what the document has of `PLOTS` as PNG and SVG into a folder that exists; returns the files.

    Raises InputError where one cannot be written.
    """
    asked = {name: draw for name, draw in PLOTS.items() if getattr(document, name) is not None}
    return save_figures(asked, document, folder, document.name)


def _words(metric: str) -> Callable[[float, object], str]:
    """How the ticks of a metric's axis are written."""
    return lambda value, _: wording.figure(metric, value)
