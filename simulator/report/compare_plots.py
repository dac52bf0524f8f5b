"""Plots of a comparison with matplotlib: what the time of each run consists of, and figures relative to the first."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.report import palette, plots
from simulator.report.compare_html import kinds, numbered, part, visible
from simulator.report.compare_page import chosen, label
from simulator.report.drawing import plain, save_figures
from simulator.report.plain import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

"""What `save_plots` writes of each plot."""
_HEIGHT = 0.8
_LONGEST_NAME = 36
_MOST_RUNS = 8  # as many as there are colours that can be told apart
_SLOTS = (
    palette.BLUE, palette.ORANGE, palette.GREEN, palette.VERMILION, palette.PURPLE, palette.SKY, palette.YELLOW,
    palette.CONTRAST,
)  # fmt: skip

Document = Mapping[str, Any]


def parts(document: Document, axes: "Axes | None" = None) -> "Axes":
    """What the time of each run consists of, in percent of that of the first; training where there are both kinds."""
    axes = axes if axes is not None else plots.new()
    words, runs = next(iter(kinds(numbered(document))), ("", []))
    left = np.zeros(len(runs))
    for key in visible(runs):
        slot, meaning = part(key)
        sizes = np.array([100 * run["parts"].get(key, 0.0) for run in runs])
        axes.barh(range(len(runs)), sizes, left=left, height=_HEIGHT, color=palette.LIGHT[slot], label=clean(meaning))
        left += sizes
    axes.set_yticks(range(len(runs)), [_plain(run["name"]) for run in runs], fontsize="small")
    axes.set_ylim(max(len(runs), 1) - 0.5, -0.5)
    first = _plain(runs[0]["name"]) if runs else ""
    axes.set_xlabel(f"{words[:1].lower()}{words[1:]}, % of the time of {first}" if runs else "no run has a time")
    _legend(axes)
    return axes


def figures(document: Document, axes: "Axes | None" = None) -> "Axes":
    """Headline figures of the other runs relative to the first one, in percent; at most eight runs."""
    axes = axes if axes is not None else plots.new()
    names = numbered(document)["names"]
    known = {name: row["values"] for name, row in chosen(document).items() if row["values"][0]}
    others = range(1, min(len(document["names"]), _MOST_RUNS + 1))
    thick = _HEIGHT / max(len(others), 1)
    for place, run in enumerate(others):
        change = [np.nan if v[run] is None else 100 * (v[run] / v[0] - 1) for v in known.values()]
        at = np.arange(len(known)) + (place - (len(others) - 1) / 2) * thick
        colour = palette.LIGHT[_SLOTS[place]]
        axes.barh(at, change, height=thick, color=colour, label=_plain(names[run]))
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(known)), [_plain(label(name, document)) for name in known], fontsize="small")
    axes.set_ylim(max(len(known), 1) - 0.5, -0.5)
    axes.set_xlabel(f"more or less than {_plain(names[0])}, %")
    _legend(axes)
    return axes


PLOTS: dict[str, Callable[[Document, "Axes | None"], "Axes"]] = {"parts": parts, "figures": figures}
"""The plots by the names of their files."""


def save_plots(document: Document, folder: str | Path) -> list[Path]:
    """Write every plot that has something to show as PNG and SVG into a folder that exists; returns the files.

    Raises InputError where one cannot be written.
    """
    known = {"parts": kinds(document), "figures": chosen(document)}
    return save_figures({name: draw for name, draw in PLOTS.items() if known[name]}, document, folder)


def _plain(text: str) -> str:
    """Text in which matplotlib sees no formula, and no longer than what leaves room for the plot."""
    short = text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
    return plain(short)


def _legend(axes: "Axes") -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=4, fontsize="small", frameon=False)
