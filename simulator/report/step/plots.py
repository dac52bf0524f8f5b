"""Plots of a Result with matplotlib, which is imported when one is drawn.

Every function draws on the axes that it is given, or on new ones, and returns them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.report.step import ledger
from simulator.report.step import sections as page_sections
from simulator.report.step import step_times as page_steps
from simulator.report.svg.figures import legend_below, new, plain, thickness
from simulator.report.svg.gantt import Box, Window, phases, sample, whole
from simulator.report.svg.gantt import chart as gantt_chart
from simulator.report.text import palette
from simulator.report.text.plain import clean
from simulator.results.infeasibility import filled
from simulator.results.result import MemoryUse, Result
from simulator.results.summary import class_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GB = 1e9
_HEIGHT = 0.84
_BORDERED = 1 / 200  # share of the window from which on a box has a border
_CAPACITY = "memory of the device"


def gantt(result: Result, axes: "Axes | None" = None, window: Window | None = None) -> "Axes":
    """Operations of each device class over time in seconds; of many classes some, of many operations merged ones."""
    axes = axes if axes is not None else new()
    drawn = gantt_chart(result, window)
    found: dict[int, tuple[list[tuple[float, float]], list[tuple[float, float]]]] = {}
    for index, row in enumerate(drawn.rows):
        for box in row.boxes:
            _stack(found, box, index)
    for kind, (across, upward) in sorted(found.items()):
        colour = palette.LIGHT[palette.operation(result.spans.names[kind])]
        bordered = _BORDERED * (drawn.window.end - drawn.window.begin) / 1e12
        _rectangles(axes, across, upward, colour, clean(result.spans.names[kind]), bordered)
    for number, phase in enumerate(phases(result)[1:] if window is None else ()):
        label = "" if number else "steady state begins and ends"  # one entry of the legend for both lines
        axes.axvline(phase.begin / 1e12, color="black", linewidth=0.6, linestyle=":", label=label)
    _rows(axes, [row.name for row in drawn.rows])
    axes.set_xlim(drawn.window.begin / 1e12, drawn.window.end / 1e12)
    axes.set_xlabel("time in s")
    legend_below(axes)
    return axes


def breakdown(result: Result, axes: "Axes | None" = None) -> "Axes":
    """Where the step goes, a bar per device class, in seconds."""
    axes = axes if axes is not None else new()
    names = class_names(result.classes)
    shown = sample(len(result.breakdown))
    words = {key: palette.part(key) for key in dict.fromkeys(key for index in shown for key in result.breakdown[index])}
    _stacked(axes, [result.breakdown[index] for index in shown], words, 1.0)
    _rows(axes, [clean(names[index]) for index in shown])
    axes.set_xlabel("time in s")
    legend_below(axes)
    return axes


def memory(result: Result, axes: "Axes | None" = None) -> "Axes":
    """Memory of each device class at its peak by kind in GB, with the capacity as a dashed line."""
    axes = axes if axes is not None else new()
    names = class_names(result.classes)
    uses = [result.memory[index] for index in sample(len(result.memory))]
    slots = palette.memory(list(dict.fromkeys(kind for use in uses for kind in use.at_peak)))
    _stacked(axes, [use.at_peak for use in uses], {kind: (slot, clean(kind)) for kind, slot in slots.items()}, 1 / _GB)
    for row, use in enumerate(uses):
        label = "" if row else _CAPACITY  # one entry of the legend for all
        ends = [row - 0.5, row + 0.5]
        axes.plot([use.capacity / _GB] * 2, ends, color="black", linestyle="--", linewidth=1, label=label)
    _rows(axes, [clean(names[use.device_class]) for use in uses])
    axes.set_xlabel("memory at the peak in GB")
    legend_below(axes)
    return axes


def memory_over_time(result: Result, axes: "Axes | None" = None) -> "Axes":
    """Memory of the fullest device class over time, in GB and seconds."""
    axes = axes if axes is not None else new()
    if result.memory:
        use = max(result.memory, key=filled)
        time, level = _held(use, whole(result.spans).end)
        axes.step(time / 1e12, level / _GB, where="post", color=palette.LIGHT[palette.BLUE])
        axes.axhline(use.capacity / _GB, color="black", linestyle="--", linewidth=1, label=_CAPACITY)
        axes.set_xlim(0, time[-1] / 1e12)
        legend_below(axes)
        axes.set_title(ledger.place_of(result, use), fontsize="medium")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time in s")
    axes.set_ylabel("memory in GB")
    return axes


def links(result: Result, axes: "Axes | None" = None) -> "Axes":
    """Use of the busiest link of each kind over the step, in percent."""
    axes = axes if axes is not None else new()
    loads = page_sections.busiest(result)
    used = [100 * load.utilisation for _, load in loads]
    axes.barh(range(len(loads)), used, height=_HEIGHT * thickness(len(loads)), color=palette.LIGHT[palette.BLUE])
    _rows(axes, [clean(name) for name, _ in loads])
    axes.set_xlabel("busiest link of the kind, % of capacity x step time")
    return axes


def step_times(result: Result, axes: "Axes | None" = None) -> "Axes":
    """How the times of several steps are distributed, in seconds, with percentiles as dashed lines."""
    axes = axes if axes is not None else new()
    times = result.step_times / 1e12 if len(result.step_times) else np.array([result.metrics.get("step_time_s", 0.0)])
    axes.hist(times, bins=max(len(page_steps.bars(result)), 1), color=palette.LIGHT[palette.BLUE], edgecolor="white")
    for mark in page_steps.marks(result) if len(result.step_times) else ():
        if mark.name in ("median", "p90", "p99"):
            axes.axvline(mark.seconds, color="black", linestyle="--", linewidth=1)
            axes.annotate(f" {mark.name}", (mark.seconds, 1), xycoords=("data", "axes fraction"), va="top")
    axes.set_xlabel("step time in s")
    axes.set_ylabel("steps")
    return axes


PLOTS = {
    "gantt": gantt,
    "breakdown": breakdown,
    "memory": memory,
    "memory-over-time": memory_over_time,
    "links": links,
    "step-times": step_times,
}
"""The plots by the names of their files."""


def _held(use: MemoryUse, end: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ticks and bytes over a step of `end` ticks: what is there before the first change and after the last one too."""
    if not len(use.time):
        return np.array([0, end]), np.full(2, use.peak)
    before = use.level.min() if use.time[0] > 0 else use.level[0]
    time = np.concatenate([[0], use.time, [max(end, int(use.time[-1]))]])
    return time, np.concatenate([[before], use.level, use.level[-1:]])


def _stack(found: dict[int, tuple[list[tuple[float, float]], list[tuple[float, float]]]], box: Box, row: int) -> None:
    """Add the parts of a box as (start, length) and (bottom, height), stacked from the lower edge of its row."""
    bottom = row + _HEIGHT / 2
    for kind, share in box.parts:
        across, upward = found.setdefault(kind, ([], []))
        bottom -= share * _HEIGHT
        across.append((box.start / 1e12, (box.end - box.start) / 1e12))
        upward.append((bottom, share * _HEIGHT))


def _rectangles(
    axes: "Axes",
    across: Sequence[tuple[float, float]],
    upward: Sequence[tuple[float, float]],
    colour: str,
    label: str,
    bordered: float,
) -> None:
    """Boxes, those of at least `bordered` seconds with a thin white border: of a narrower one it would be all."""
    from matplotlib.collections import PolyCollection

    (x, width), (y, height) = np.array(across).T, np.array(upward).T
    corners = np.stack([np.stack([x, x + width, x + width, x], 1), np.stack([y, y, y + height, y + height], 1)], 2)
    wide = width >= bordered
    for some, edge in ((wide, {"edgecolors": "white", "linewidths": 0.15}), (~wide, {"antialiaseds": False})):
        if some.any():
            axes.add_collection(PolyCollection(list(corners[some]), facecolors=colour, label=label, **edge))
            label = ""  # one entry of the legend for both


def _stacked(
    axes: "Axes", rows: Sequence[Mapping[str, float]], words: Mapping[str, tuple[int, str]], scale: float
) -> None:
    """Bars of parts that follow each other; parts of nothing are left out."""
    left = np.zeros(len(rows))
    for key, (slot, label) in words.items():
        sizes = np.array([row.get(key, 0.0) for row in rows]) * scale
        if sizes.any():
            thick = _HEIGHT * thickness(len(rows))
            axes.barh(range(len(rows)), sizes, left=left, height=thick, color=palette.LIGHT[slot], label=label)
            left += sizes


def _rows(axes: "Axes", names: Iterable[str]) -> None:
    """Names of the rows, the first one on top."""
    labels = [plain(name) for name in names]
    axes.set_yticks(range(len(labels)), labels, fontsize="small" if len(labels) <= 20 else "x-small")
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
