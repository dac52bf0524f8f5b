"""Plots of a plan with matplotlib: goodput and share of requests within the objectives, over the rate of arrivals."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from simulator import units
from simulator.report.plan.html import drawn
from simulator.report.svg.figures import legend_below, plain, save_figures
from simulator.report.text import palette
from simulator.results.documents.plan import PlanDocument, ProbedRate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def goodput(document: PlanDocument, axes: "Axes") -> "Axes":
    """Requests per second within all objectives over arrivals per second; a dot at the largest rate of each layout."""
    most = _lines(document, axes, lambda probe: probe.goodput)
    axes.axline((0, 0), slope=1, color="black", linestyle=":", linewidth=1, label="all that arrive")
    axes.set_ylabel("requests per second within all objectives")
    _finish(document, axes, most)
    return axes


def attainment(document: PlanDocument, axes: "Axes") -> "Axes":
    """Percent of the requests within all objectives over arrivals per second; dashed: the share that is wanted."""
    most = _lines(document, axes, lambda probe: 100 * probe.attainment)
    axes.axhline(100 * document.slo.attainment, color="black", linestyle="--", linewidth=1, label="wanted")
    axes.set_ylabel("% of the requests within all objectives")
    _finish(document, axes, most)
    return axes


PLOTS = {"goodput": goodput, "attainment": attainment}
"""The plots by the names of their files."""


def save_plots(document: PlanDocument, folder: str | Path) -> list[Path]:
    """Write the plots as PNG and SVG into a folder that exists, none where no layout has a rate; returns the files.

    Raises InputError where one cannot be written.
    """
    return save_figures(PLOTS if drawn(document) else {}, document, folder, document.name)


def _lines(document: PlanDocument, axes: "Axes", value: Callable[[ProbedRate], float]) -> float:
    """The curves of all layouts that have one; returns the highest value."""
    layouts = drawn(document)
    for (layout, largest, best), slot in zip(layouts, palette.DISTINCT, strict=False):
        probes, colour = layout.curve, palette.LIGHT[slot]
        name = plain(layout.name) or f"simulated, largest rate {units.plain(largest)}/s"
        axes.plot([probe.rate for probe in probes], [value(probe) for probe in probes], color=colour, label=name)
        axes.plot(best.rate, value(best), "o", color=colour)
    return max(value(probe) for found in layouts for probe in found.layout.curve)


def _finish(document: PlanDocument, axes: "Axes", most: float) -> None:
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.08 * (most or 1.0))
    axes.set_xlabel(f"{document.layouts[0].unit} that arrive per second")
    legend_below(axes, columns=4)
