"""Plots of several jobs with matplotlib; every function draws on the axes that it is given, or on new ones."""

from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import InputError, Problem
from simulator.report.jobs import contents
from simulator.report.svg.figures import legend_below, new, plain, thickness
from simulator.report.text import palette
from simulator.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def slowdowns(result: Result, axes: "Axes | None" = None) -> "Axes":
    """The slowdown of each job against running alone, in percent more time."""
    axes = axes if axes is not None else new()
    slots = contents.slots(result)
    rows = list(enumerate(result.jobs))
    for row, job in rows:
        more = 100 * (job.slowdown - 1) if job.slowdown == job.slowdown else 0.0
        axes.barh(row, more, height=0.8 * thickness(len(rows)), color=palette.LIGHT[slots[job.name]])
    axes.axvline(0, color="black", linewidth=1)
    axes.set_yticks(range(len(rows)), [plain(job.name) for _, job in rows])
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    axes.set_xlabel("% more time than alone (of a step, or of a request)")
    return axes


def meetings(result: Result, axes: "Axes | None" = None) -> "Axes":
    """Load over time of the link that was full for several jobs for the longest time, by job, in GB/s and seconds.

    InputError where no jobs met.
    """
    if not result.meetings:
        raise InputError(Problem(f"{result.name}: no jobs met on a link", hint="there is nothing to draw"))
    axes = axes if axes is not None else new()
    names, meeting = contents.charts(result)[0]
    begin, end = contents.window(result)
    edges = np.array([moment / 1e12 for moment, _ in meeting.rates])
    below = np.zeros(max(len(edges) - 1, 0))
    for name, slot in contents.slots(result).items():
        if name in meeting.bytes and len(below):
            above = below + np.array([by.get(name, 0.0) for _, by in meeting.rates[:-1]]) / 1e9
            axes.stairs(above, edges, baseline=below, fill=True, color=palette.LIGHT[slot], label=plain(name))
            below = above
    axes.axhline(meeting.capacity / 1e9, color="black", linestyle="--", linewidth=1, label="what the link has")
    axes.set_xlim(begin, end)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time in s")
    axes.set_ylabel("load in GB/s")
    axes.set_title(plain(names), fontsize="medium")
    legend_below(axes)
    return axes


PLOTS = {"slowdowns": slowdowns, "meetings": meetings}
"""The plots by the names of their files."""
