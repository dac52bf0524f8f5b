"""A whole run in the HTML report: its time line, where its time goes, failures, intervals and single runs."""

from collections.abc import Iterable

import numpy as np

from simulator import units
from simulator.report.html.markup import Markup, tag
from simulator.report.html.parts import table, ticks, timeline
from simulator.report.step import long_run
from simulator.report.svg import pictures
from simulator.report.text import palette, wording
from simulator.report.text.plain import clean
from simulator.results.long_run import STATES, TICKS_PER_SECOND, LongRun
from simulator.results.result import Result

SLOTS = {
    "training": palette.BLUE,
    "checkpoint": palette.SKY,
    "detection": palette.YELLOW,
    "restart": palette.PURPLE,
    "idle": palette.PALE,
    "lost work": palette.VERMILION,
}
"""Colour of each state."""
_HEIGHT = 60.0


def section(result: Result) -> Iterable[Markup]:
    """Nothing where no run is asked for."""
    run = result.run
    if run is None:
        return
    yield tag("p", f"{long_run.headline(result, run)}.")
    yield from _line(run)
    whole = sum(run.seconds.values())
    rows = [
        (
            long_run.WORDS.get(part, clean(part)),
            _time(seconds),
            wording.percent(seconds / whole, decimals=2),
        )
        for part, seconds in long_run.parts(run)
    ]
    yield table(("part name", "time n", "share n"), rows, sortable=False)
    yield table(("of the run name", "figures"), [(name, words) for name, words in long_run.sentences(result, run)])
    yield from _tables(run)


def _line(run: LongRun) -> Iterable[Markup]:
    """What the shown run does over time, one path a state."""
    end = long_run.end_s(run)
    if not end:
        return
    scale = pictures.WIDTH / end / TICKS_PER_SECOND
    drawn = []
    for number, state in enumerate(STATES):
        bands = run.bands[run.bands[:, 2] == number]
        if not len(bands):
            continue
        begin, wide = bands[:, 0] * scale, np.maximum((bands[:, 1] - bands[:, 0]) * scale, 0.05)
        way = "".join(f"M{x:.3f} 0h{w:.3f}v{_HEIGHT:g}h-{w:.3f}z" for x, w in zip(begin, wide, strict=True))
        drawn.append(tag("path", tag("title", state), d=way, class_=f"c{SLOTS[state]}"))
    picture = pictures.picture(_HEIGHT, *drawn, label="what the run does over time")
    yield timeline("run", 0.0, end, picture, ticks(0.0, end))
    shown = sorted({int(state) for state in run.bands[:, 2].tolist()})
    yield pictures.legend((SLOTS[STATES[state]], STATES[state]) for state in shown)
    if len(run.samples) > 1:
        text = f"Shown is run {run.shown} of 0 to {len(run.samples) - 1}, whose share of training is the median."
        yield tag("p", text, class_="soft small")


def _tables(run: LongRun) -> Iterable[Markup]:
    """Failures by cause, intervals, and every run."""
    if run.failures:
        rows = [(clean(name), f"{number:,.2f}") for name, number in long_run.causes(run)]
        yield table(("failures by cause name", "in a run n"), rows)
    if run.tried:
        tried = [(_time(one["interval_s"]), wording.percent(one["ratio"], decimals=2)) for one in run.tried]
        yield table(("interval of checkpoints n", "training n"), tried)
    if len(run.samples) > 1:
        cells = [
            (
                str(number),
                _time(one["time_s"]),
                wording.percent(one["ratio"], decimals=2),
                f"{one['failures']:,.0f}",
                f"{one['steps']:,.0f}",
                _time(one["lost_s"]),
            )
            for number, one in enumerate(run.samples)
        ]
        yield table(("run n", "time n", "training n", "failures n", "steps n", "lost work n"), cells)


def _time(seconds: float) -> str:
    return units.format(seconds, "time")
