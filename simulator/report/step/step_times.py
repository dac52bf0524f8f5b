"""Steps that differ: their percentiles and how they are distributed, as figures and as a part of the terminal page."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from simulator import units
from simulator.metrics import PERCENTILES
from simulator.report.text import wording
from simulator.report.text.blocks import grid, heading
from simulator.results.result import Result

MOST_BINS = 12
"""Bars of a distribution."""


class Mark(NamedTuple):
    """A figure of the distribution."""

    name: str
    seconds: float
    excess: float
    """Relative difference to the median."""


class Bar(NamedTuple):
    """Steps of similar times."""

    begin: float
    """Seconds."""
    end: float
    steps: int


def marks(result: Result) -> list[Mark]:
    """Mean, percentiles and the extremes of several steps."""
    seconds = result.step_times / units.TICKS_PER_SECOND
    middle = float(np.median(seconds))
    named = [("shortest", float(seconds.min())), ("mean", float(seconds.mean())), ("median", middle)]
    named += [(f"p{level}", float(np.percentile(seconds, level))) for level in PERCENTILES if level != 50]
    named.append(("longest", float(seconds.max())))
    return [Mark(name, value, value / middle - 1 if middle else 0.0) for name, value in named]


def bars(result: Result) -> list[Bar]:
    """The distribution in bars of equal width (by Sturges' rule); none where all steps are equal."""
    times = result.step_times
    if len(times) < 2 or times.min() == times.max():
        return []
    count = min(int(np.ceil(np.log2(len(times)))) + 1, MOST_BINS)
    steps, edges = np.histogram(times / units.TICKS_PER_SECOND, bins=count)
    return [Bar(*bar) for bar in zip(edges[:-1].tolist(), edges[1:].tolist(), steps.tolist(), strict=True)]


def shown(result: Result) -> str:
    """Which step the rest of a page is about; a sentence."""
    step, count = result.provenance.get("step_shown"), wording.plural(len(result.step_times), "step")
    if not bars(result):
        return f"{count}, all equal"
    if not isinstance(step, int):
        return f"{count}; one is shown"
    last = len(result.step_times) - 1
    return f"{count}; times are means, what is shown in detail is step {step} (of 0 to {last:,}), of median time"


def section(result: Result) -> Iterable[RenderableType]:
    """Percentiles beside a distribution."""
    if len(result.step_times) < 2:
        return
    yield heading(f"Step times of {shown(result)}")
    table = grid("left", "right", "right", "right", "right", "left")
    drawn = bars(result)
    most = max((bar.steps for bar in drawn), default=1)
    figures = marks(result) if drawn else []
    for row in range(max(len(figures), len(drawn))):
        table.add_row(*_figure(figures, row), *_bar(drawn, row, most))
    if drawn:
        yield table


def _figure(figures: list[Mark], row: int) -> tuple[str | Text, ...]:
    if row >= len(figures):
        return "", "", ""
    name, seconds, excess = figures[row]
    return name, units.format(seconds, "time"), Text(wording.percent(excess, signed=True) + "  ", "dim")


def _bar(drawn: list[Bar], row: int, most: int) -> tuple[str | Text, ...]:
    if row >= len(drawn):
        return "", "", ""
    begin, end, steps = drawn[row]
    return f"{begin:.4g} to {end:.4g} s", f"{steps:,}", Text(wording.bar(steps / most, 30), "blue")
