"""A whole run on the terminal page: where its time goes, what fails, its checkpoints, and how often to save."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simulator import units
from simulator.report.text import wording
from simulator.report.text.blocks import grid, heading
from simulator.report.text.plain import clean
from simulator.results.long_run import SPARED, STATES, TICKS_PER_SECOND, LongRun
from simulator.results.result import Result

MOST_CAUSES = 6
"""Causes of failures named on the page."""
MOST_TRIED = 5
"""Intervals named on the page."""
CELLS = 64
"""Stretches of the run whose progress is shown."""
WORDS = {
    "training": "training",
    "data": "waiting for samples",
    "evaluation": "evaluations",
    "slow": "something slow",
    "fewer nodes": "fewer nodes",
    "checkpoint": "waiting for checkpoints",
    "detection": "until detected",
    "restart": "restarts",
    "idle": "waiting for nodes",
    "lost work": "lost work, done again",
}
"""Parts of a run in words."""
_STYLES = {"training": "green", "lost work": "red", "detection": "yellow", "restart": "magenta"}
_LEVELS = "▁▂▃▄▅▆▇█"


def section(result: Result) -> Iterable[RenderableType]:
    """Nothing where no run is asked for."""
    run = result.run
    if run is None:
        return
    yield heading(f"The run: {headline(result, run)}")
    table = grid("left", "right", "right", "left")
    whole = sum(run.seconds.values())
    for part, seconds in parts(run):
        share = seconds / whole
        bar = Text(wording.bar(share, 40), _STYLES.get(part, "blue"))
        table.add_row(WORDS.get(part, clean(part)), _time(seconds), wording.percent(share, decimals=2), bar)
    yield table
    said = Table.grid(padding=(0, 2))
    said.add_column(style="dim", no_wrap=True)
    said.add_column(overflow="fold")
    if strip := idle_strip(run):
        said.add_row("no progress", strip)
    for name, words in sentences(result, run):
        said.add_row(name, words)
    yield said


def headline(result: Result, run: LongRun) -> str:
    """How long it is, and how much of that is training."""
    metrics, count = result.metrics, len(run.samples)
    spread = ""
    if count > 1:
        low, high = (wording.percent(metrics[f"effective_time_ratio_{p}"]).removesuffix(" %") for p in ("p10", "p90"))
        spread = f" ({low} to {high} % in the middle 80 % of {count} runs)"
    time = units.format(metrics["run_time_s"], "time")
    return f"{time}, {wording.percent(metrics['effective_time_ratio'])} of it training{spread}"


def parts(run: LongRun) -> list[tuple[str, float]]:
    """Parts of the time that are there, and their seconds."""
    return [(part, seconds) for part, seconds in run.seconds.items() if seconds > 0]


def sentences(result: Result, run: LongRun) -> Iterable[tuple[str, str]]:
    """(what, figures): progress, failures, checkpoints, advice."""
    metrics = result.metrics
    tokens, goodput = metrics["run_tokens"], wording.figure("goodput_tokens_per_s", metrics["goodput_tokens_per_s"])
    yield "progress", f"{metrics['run_steps']:,.0f} steps, {wording.tokens(tokens)} tokens, {goodput} tokens/s in all"
    if metrics["failures"]:
        between = units.format(metrics["mtbf_s"], "time") if "mtbf_s" in metrics else "as recorded"
        what = ", ".join(f"{clean(name)} {number:.3g}" for name, number in causes(run)[:MOST_CAUSES])
        yield "failures", f"{metrics['failures']:,.1f}, one that stops the run every {between}: {what}"
    yield "checkpoint", saved(run)
    if run.tried:
        yield "advised", advised(result, run)


def causes(run: LongRun) -> list[tuple[str, float]]:
    """Failures by cause, the most frequent first."""
    return sorted(run.failures.items(), key=lambda one: (-one[1], one[0]))


def saved(run: LongRun) -> str:
    """What a checkpoint is and takes."""
    known = run.checkpoint
    interval = known["interval_s"]
    every = f"every {_time(interval)} ({known['interval_steps']:,.0f} steps)" if interval else "only at the end"
    size = units.format(known["bytes"], "bytes")
    stall, store, load = (_time(known[name]) for name in ("stall_s", "store_s", "load_s"))
    beside = f", written {store} beside them" if known["store_s"] else ""
    return f"{size} {every}; steps wait {stall}{beside}; read in {load}"


def advised(result: Result, run: LongRun) -> str:
    """The interval that is advised, and what others would come to."""
    best = result.metrics["advised_interval_s"]
    others = ", ".join(f"{_time(one['interval_s'])} {wording.percent(one['ratio'])}" for one in chosen(run.tried))
    spared = wording.percent(SPARED)
    return f"{_time(best)}, the longest within {spared} of the best; training by interval: {others}"


def chosen(tried: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Some of the intervals that were tried, the first and the last among them."""
    places = np.unique(np.linspace(0, len(tried) - 1, min(MOST_TRIED, len(tried))).round().astype(int))
    return [tried[place] for place in places]


def idle_strip(run: LongRun) -> str:
    """A mark for each stretch of the run, higher where more of its time is no progress; empty where there is none."""
    shares = without_progress(run, CELLS)
    most = float(shares.max(initial=0.0))
    if not most:
        return ""
    marks = "".join(_LEVELS[min(int(share / most * len(_LEVELS)), len(_LEVELS) - 1)] for share in shares)
    return f"{marks} up to {wording.percent(most, decimals=0)}"


def without_progress(run: LongRun, cells: int) -> NDArray[np.float64]:
    """Share of each of equal stretches of the shown run in which it does no lasting work; shape (cells,)."""
    bands = run.bands[run.bands[:, 2] != STATES.index("training")]
    end = int(run.bands[:, 1].max(initial=0))
    if not end:
        return np.zeros(cells)
    edges = np.linspace(0, end, cells + 1)
    total = np.zeros(len(edges))
    for start, stop in bands[:, :2].tolist():
        total += np.clip(edges - start, 0, stop - start)
    found: NDArray[np.float64] = np.diff(total) / (end / cells)
    return found


def end_s(run: LongRun) -> float:
    """Seconds of the run whose bands are shown."""
    return float(run.bands[:, 1].max(initial=0)) / TICKS_PER_SECOND


def _time(seconds: float) -> str:
    return units.format(seconds, "time")
