"""The plot of a frontier with matplotlib: tokens per second and device over tokens per second and user."""

from pathlib import Path
from typing import TYPE_CHECKING

from simulator.report.frontier import phrases
from simulator.report.svg.figures import legend_below, plain, save_figures
from simulator.report.text import palette
from simulator.results.documents.frontier import FrontierDocument, FrontierPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GROUPS = (
    ("aggregated", palette.BLUE, "replicas that do both"),
    ("disaggregated", palette.ORANGE, "prefill and decode apart"),
)


def frontier(document: FrontierDocument, axes: "Axes") -> "Axes":
    """Simulated points by mode, those that miss the objectives as grey crosses, the front as a line, the winner."""
    points = phrases.drawable(document.points)
    missed = [one for one in points if one.state != "meets"]
    _dots(axes, missed, palette.GREY, "misses the objectives", "x")
    for mode, slot, name in _GROUPS:
        _dots(axes, [one for one in points if one.mode == mode and one.state == "meets"], slot, name, "o")
        _line(axes, phrases.front_of(document, mode), slot)
    front = sorted(phrases.front(document), key=lambda one: one.tokens_per_s_per_user)
    axes.plot(
        [one.tokens_per_s_per_user for one in front],
        [one.tokens_per_s_per_device for one in front],
        color="black",
        linewidth=1,
        label="front",
    )
    for place, name, below in ((document.winner, "winner", 12), (document.runner_up, "runner-up", -18)):
        if place is not None:
            _named(axes, document.points[place], name, below)
    limit = document.slo.tpot_s
    if limit:
        axes.axvline(1.0 / limit, color="black", linestyle="--", linewidth=1, label="promised time per token")
    axes.set_xlim(0, 1.15 * max((one.tokens_per_s_per_user for one in points), default=1.0))
    axes.set_ylim(0, 1.12 * max((one.tokens_per_s_per_device for one in points), default=1.0))
    axes.set_xlabel("tokens per second and user")
    axes.set_ylabel("output tokens per second and device")
    legend_below(axes, columns=5)
    return axes


PLOTS = {"frontier": frontier}
"""The plots by the names of their files."""


def save_plots(document: FrontierDocument, folder: str | Path) -> list[Path]:
    """Write the plot as PNG and SVG into a folder that exists, none without points; returns the files.

    Raises InputError where one cannot be written.
    """
    return save_figures(PLOTS if phrases.drawable(document.points) else {}, document, folder, document.name)


def _line(axes: "Axes", points: list[FrontierPoint], slot: int) -> None:
    """The front of one kind of systems."""
    across = [one.tokens_per_s_per_user for one in points]
    axes.plot(
        across, [one.tokens_per_s_per_device for one in points], color=palette.LIGHT[slot], linewidth=3, alpha=0.5
    )


def _dots(axes: "Axes", points: list[FrontierPoint], slot: int, name: str, marker: str) -> None:
    if points:
        axes.plot(
            [one.tokens_per_s_per_user for one in points],
            [one.tokens_per_s_per_device for one in points],
            marker,
            color=palette.LIGHT[slot],
            markersize=5,
            label=name,
        )


def _named(axes: "Axes", point: FrontierPoint, name: str, below: int) -> None:
    place = point.tokens_per_s_per_user, point.tokens_per_s_per_device
    axes.annotate(f"{name}: {plain(point.name)}", place, (10, below), textcoords="offset points", fontsize=8)
    axes.plot(*place, "o", color="black", markersize=9, fillstyle="none")
