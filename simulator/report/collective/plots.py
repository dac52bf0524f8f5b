"""Plots of a collective over sizes with matplotlib: bus bandwidth and time, of each algorithm and as measured."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.report.svg.figures import legend_below, plain, save_figures
from simulator.report.text import palette
from simulator.results.documents.collective import CollectiveCurve, CollectiveSweepDocument, SizedCollective

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bus_bandwidth(document: CollectiveSweepDocument, axes: "Axes") -> "Axes":
    """Bus bandwidth in GB/s over the size; dots are measured."""
    _lines(document, axes, lambda one, seconds: one.busbw_bytes_per_s * one.time_s / seconds / 1e9)
    axes.set_ylabel("bus bandwidth, GB/s")
    axes.set_ylim(bottom=0)
    return _finish(document, axes)


def time(document: CollectiveSweepDocument, axes: "Axes") -> "Axes":
    """Time in microseconds over the size; dots are measured."""
    _lines(document, axes, lambda one, seconds: seconds * 1e6)
    axes.set_ylabel("time, us")
    axes.set_yscale("log")
    return _finish(document, axes)


MOST = 12
"""Curves beside the library's own that can be told apart."""
PLOTS = {"bus_bandwidth": bus_bandwidth, "time": time}
"""The plots by the names of their files."""


def save_plots(document: CollectiveSweepDocument, folder: str | Path) -> list[Path]:
    """Write the plots as PNG and SVG into a folder that exists; returns the files.

    Raises InputError where one cannot be written.
    """
    title = f"{document.operation}, {document.ranks} ranks on {document.nodes} nodes of {document.cluster}"
    return save_figures(PLOTS, document, folder, title)


def shown(document: CollectiveSweepDocument) -> list[CollectiveCurve]:
    """The curves beside the library's own that are drawn: of those that lie on each other the first, and of more than
    `MOST` those that come nearest to the fastest at any size, in their order."""
    _, *others = document.curves
    distinct: dict[tuple[float, ...], CollectiveCurve] = {}
    for curve in others:
        distinct.setdefault(tuple(float(f"{one.time_s:.3g}") for one in curve.sizes), curve)
    best = [min(one.time_s for one in sizes) for sizes in zip(*(c.sizes for c in document.curves), strict=True)]
    lead = {
        id(curve): max(least / one.time_s for least, one in zip(best, curve.sizes, strict=True))
        for curve in distinct.values()
    }
    kept = sorted(distinct.values(), key=lambda curve: -lead[id(curve)])[:MOST]
    return [curve for curve in others if any(curve is one for one in kept)]


def _lines(document: CollectiveSweepDocument, axes: "Axes", value: Callable[[SizedCollective, float], float]) -> None:
    """A line for each curve, the library's choice the thickest; y is `value` of a size and its seconds."""
    own, *_ = document.curves
    others = shown(document)
    colours = [palette.LIGHT[slot] for slot in palette.DISTINCT]
    for i, curve in enumerate(others):
        x, y = [one.size_bytes for one in curve.sizes], [value(one, one.time_s) for one in curve.sizes]
        style = ("-", "--", ":")[(i + 1) // len(colours) % 3]
        axes.plot(x, y, style, color=colours[(i + 1) % len(colours)], linewidth=1, label=plain(curve.name))
    x, y = [one.size_bytes for one in own.sizes], [value(one, one.time_s) for one in own.sizes]
    axes.plot(x, y, color=colours[0], linewidth=2.5, alpha=0.8, label=plain(own.name), zorder=0)
    known = [one for one in own.sizes if one.measured_s == one.measured_s]
    if known:
        dots = [value(one, one.measured_s) for one in known]
        axes.plot([one.size_bytes for one in known], dots, "o", color="black", markersize=4, label="measured")


def _finish(document: CollectiveSweepDocument, axes: "Axes") -> "Axes":
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda size, _: _binary(size))
    left = len(document.curves) - 1 - len(shown(document))
    axes.set_xlabel(f"size; {left} more algorithms are slower, or as fast as one shown" if left else "size")
    axes.grid(alpha=0.3)
    legend_below(axes)
    return axes


def _binary(size: float) -> str:
    """A power of two in binary units."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << power:
            return f"{size / (1 << power):g} {unit}"
    return f"{size:g} B"
