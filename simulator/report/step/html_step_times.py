"""Step times in the HTML report: a histogram with its percentiles as dashed lines, and the figures below it."""

from collections.abc import Iterable

from simulator import units
from simulator.report.html.markup import Markup, tag
from simulator.report.html.parts import across, leveled, table
from simulator.report.step import step_times
from simulator.report.svg import pictures
from simulator.report.text import palette, scales, wording
from simulator.results.result import Result

_HEIGHT = 160.0
_GAP = 2.0  # between bars, in parts of the width
_LINES = ("median", "p90", "p99")


def section(result: Result) -> Iterable[Markup]:
    """Nothing where one step was simulated."""
    if len(result.step_times) < 2:
        return
    yield tag("p", f"{step_times.shown(result)}.".capitalize(), class_="soft small")
    drawn = step_times.bars(result)
    if not drawn:
        return
    marks = step_times.marks(result)
    begin, end, most = drawn[0].begin, drawn[-1].end, max(bar.steps for bar in drawn)
    scale = pictures.WIDTH / (end - begin)
    boxes = [_box(bar, (bar.begin - begin) * scale, scale, most) for bar in drawn]
    lines = [
        tag("path", tag("title", mark.name), d=f"M{(mark.seconds - begin) * scale:.2f} 0V{_HEIGHT:g}", class_="limit")
        for mark in marks
        if mark.name in _LINES
    ]
    label = f"distribution of {wording.plural(len(result.step_times), 'step')}"
    picture = pictures.picture(_HEIGHT, *boxes, *lines, label=label, class_="plot")
    yield leveled(scales.words("0", f"{most:,}"), picture, across(scales.marks(begin, end, "time")))
    yield tag("p", f"Steps by time; dashed: {', '.join(_LINES)}.", class_="soft small")
    rows = [
        (mark.name, units.format(mark.seconds, "time"), wording.percent(mark.excess, signed=True, decimals=2))
        for mark in marks
    ]
    yield table(("of all steps name", "time n", "to the median n"), rows)


def _box(bar: step_times.Bar, x: float, scale: float, most: int) -> Markup:
    height = _HEIGHT * bar.steps / most
    text = f"{wording.plural(bar.steps, 'step')} of {bar.begin:.4g} to {bar.end:.4g} s"
    width = (bar.end - bar.begin) * scale - _GAP
    return tag(
        "rect",
        tag("title", text),
        x=f"{x + _GAP / 2:.2f}",
        y=f"{_HEIGHT - height:.2f}",
        width=f"{width:.2f}",
        height=f"{height:.2f}",
        class_=f"c{palette.BLUE}",
    )
