"""Plots of a whole run with matplotlib: what it does over time, and what intervals of checkpoints come to."""

from typing import TYPE_CHECKING

from simulator.report.step.html_long_run import SLOTS
from simulator.report.svg.figures import legend_below, new
from simulator.report.text import palette
from simulator.results.long_run import STATES, TICKS_PER_SECOND
from simulator.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DAY, _MINUTE = 86_400, 60


def timeline(result: Result, axes: "Axes | None" = None) -> "Axes":
    """The states of the shown run over days, and below each other, so that short ones are seen."""
    axes, run = axes if axes is not None else new(), result.run
    assert run is not None
    shown = sorted({int(state) for state in run.bands[:, 2].tolist()})
    for row, number in enumerate(shown):
        bands = run.bands[run.bands[:, 2] == number] / TICKS_PER_SECOND / _DAY
        spans = [(begin, end - begin) for begin, end, _ in bands.tolist()]
        axes.broken_barh(spans, (row - 0.4, 0.8), color=palette.LIGHT[SLOTS[STATES[number]]], linewidth=0.3)
    axes.set_yticks(range(len(shown)), [STATES[number] for number in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlabel("time in days")
    return axes


def intervals(result: Result, axes: "Axes | None" = None) -> "Axes":
    """Share of training by the interval of checkpoints, with the advised one and the one of the run."""
    axes, run = axes if axes is not None else new(), result.run
    assert run is not None
    axes.semilogx(
        [one["interval_s"] / _MINUTE for one in run.tried],
        [100 * one["ratio"] for one in run.tried],
        color=palette.LIGHT[palette.BLUE],
        marker="o",
        label="simulated",
    )
    for name, label, style in (("advised_interval_s", "advised", "--"), ("checkpoint_interval_s", "of this run", ":")):
        if result.metrics.get(name):
            axes.axvline(result.metrics[name] / _MINUTE, color="black", linewidth=1, linestyle=style, label=label)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("interval of checkpoints in minutes")
    axes.set_ylabel("training in % of the time")
    legend_below(axes)
    return axes


PLOTS = {"run": timeline, "run-intervals": intervals}
"""The plots by the names of their files."""
