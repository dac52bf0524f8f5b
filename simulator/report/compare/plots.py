"""Plots of a comparison with matplotlib: what the time of each run consists of, and figures relative to the first."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simulator.report.compare.html import kinds, numbered, part, visible
from simulator.report.compare.page import chosen, label
from simulator.report.svg.figures import legend_below, new, plain, save_figures
from simulator.report.text import palette
from simulator.report.text.plain import clean
from simulator.results.documents.comparison import ComparedRun, ComparisonDocument

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT = 0.8
_LONGEST_NAME = 36
_FADED = 0.35  # opacity of what does not fit
_BESIDE = 15.0  # percent of room for numbers at bars that are cut
_ROOM = 0.11  # inches that a bar with its number takes
_MOST_RUNS = 40  # that `figures` shows
_CAP = 100.0  # percent at which an axis ends; what goes beyond is written at its bar
_HATCHES = ("", "///", "...", "xxx", "|||")  # tell runs of one colour apart, so that there are 40 looks


def parts(document: ComparisonDocument, axes: "Axes | None" = None) -> "Axes":
    """What the time of each run consists of, in percent of that of the first; training where there are both kinds."""
    axes = axes if axes is not None else new()
    words, runs = next(iter(kinds(numbered(document))), ("", []))
    left = np.zeros(len(runs))
    for key in visible(runs):
        slot, meaning = part(key)
        sizes = np.array([100 * run.parts.get(key, 0.0) for run in runs])
        bars = axes.barh(
            range(len(runs)), sizes, left=left, height=_HEIGHT, color=palette.LIGHT[slot], label=clean(meaning)
        )
        for bar, run in zip(bars, runs, strict=True):
            bar.set_alpha(1.0 if run.feasible else _FADED)
        left += sizes
    axes.set_yticks(range(len(runs)), [_name(run.name, run) for run in runs], fontsize="small")
    axes.set_ylim(max(len(runs), 1) - 0.5, -0.5)
    first = _plain(runs[0].name) if runs else ""
    axes.set_xlabel(f"{words[:1].lower()}{words[1:]}, % of the time of {first}" if runs else "no run has a time")
    legend_below(axes, columns=4)
    return axes


def figures(document: ComparisonDocument, axes: "Axes | None" = None) -> "Axes":
    """Headline figures of the other runs relative to the first one, in percent.

    The axis ends at twice the first one's figure, or at what is farthest inside that; the number stands at bars that
    go beyond. Runs that do not fit are faded. Of more than 40 runs the first are shown, and the axis says so.
    """
    axes = axes if axes is not None else new()
    names, runs = numbered(document).names, document.runs
    known = {name: (row.values[0], row.values) for name, row in chosen(document).items() if row.values[0]}
    others = range(1, min(len(document.names), _MOST_RUNS + 1))
    thick = _HEIGHT / max(len(others), 1)
    for place, run in enumerate(others):
        change = np.array([_percent_beyond(values[run], first) for first, values in known.values()])
        at = np.arange(len(known)) + (place - (len(others) - 1) / 2) * thick
        turn, slot = divmod(place, len(palette.DISTINCT))
        axes.barh(
            at,
            np.clip(change, -_CAP, _CAP),
            height=thick,
            label=_name(names[run], runs[run]),
            linewidth=0,
            color=palette.LIGHT[palette.DISTINCT[slot]],
            hatch=_HATCHES[turn],
            edgecolor="white",
            alpha=1.0 if runs[run].feasible else _FADED,
        )
        for row in np.flatnonzero(change > _CAP):
            axes.annotate(
                f"{change[row]:+,.0f} %",
                (_CAP, at[row]),
                (3, 0),
                "data",
                "offset points",
                va="center",
                fontsize=6,
                annotation_clip=False,
            )
    _heighten(axes, len(known) * len(others))
    if axes.texts:
        axes.set_xlim(right=_CAP + _BESIDE)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(known)), [_plain(label(name, document)) for name in known], fontsize="small")
    axes.set_ylim(max(len(known), 1) - 0.5, -0.5)
    left_out = len(names) - 1 - len(others)
    more = f"; {left_out:,} more runs are not shown" if left_out else ""
    axes.set_xlabel(f"more or less than {_plain(names[0])}, %{more}")
    legend_below(axes, columns=4)
    return axes


PLOTS: dict[str, Callable[[ComparisonDocument, "Axes | None"], "Axes"]] = {"parts": parts, "figures": figures}
"""The plots by the names of their files."""


def save_plots(document: ComparisonDocument, folder: str | Path) -> list[Path]:
    """Write every plot that has something to show as PNG and SVG into a folder that exists; returns the files.

    Raises InputError where one cannot be written.
    """
    known = {"parts": kinds(document), "figures": chosen(document)}
    return save_figures({name: draw for name, draw in PLOTS.items() if known[name]}, document, folder)


def _plain(text: str) -> str:
    """Text in which matplotlib sees no formula, and no longer than what leaves room for the plot."""
    short = text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
    return plain(short)


def _percent_beyond(value: float | None, first: float) -> float:
    return np.nan if value is None else 100 * (value / first - 1)


def _heighten(axes: "Axes", bars: int) -> None:
    """Room for every bar, in a figure that has nothing but these axes."""
    from matplotlib.figure import Figure

    if isinstance(axes.figure, Figure) and len(axes.figure.axes) == 1:
        axes.figure.set_figheight(max(axes.figure.get_figheight(), _ROOM * bars))


def _name(name: str, run: ComparedRun) -> str:
    """A run's name on a plot, and whether it does not fit."""
    return _plain(name) + ("" if run.feasible else " (does not fit)")
