"""The Gantt chart of the HTML report: the whole step and, where operations are merged, close-ups of its phases."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from simulator import units
from simulator.report import palette, svg, wording
from simulator.report.gantt import Box, Chart, Window, chart, close_ups, phases, whole
from simulator.report.link_load import over_time
from simulator.report.markup import Markup, joined, tag
from simulator.report.plain import clean
from simulator.results.result import Result

_TICKS = 5
_MOST_STEPS = 500  # of a link's curve
_MOST_KINDS = 6
_PARTS = 100_000  # hover texts know times to this part of a window
_PHASES = (palette.SKY, palette.GREY, palette.PURPLE)
_BUTTONS = (("left", "←", "move left"), ("right", "→", "move right"), ("in", "+", "zoom in"), ("out", "−", "zoom out"),
            ("all", "whole", "show the whole window"))  # fmt: skip


def section(result: Result) -> Iterable[Markup]:
    """What runs when: phases, the whole step, close-ups."""
    if not len(result.spans.start):
        return
    drawn = chart(result)
    ribbon = list(zip(phases(result), _PHASES, strict=False))
    yield _phases(result, ribbon)
    yield svg.legend(_legend(drawn, result.spans.names))
    if len(drawn.rows) < len(result.classes):
        yield tag("p", f"{len(drawn.rows)} of {len(result.classes):,} device classes are shown.", class_="soft small")
    if any(box.chunk for row in drawn.rows for box in row.boxes):
        yield tag("p", "Shades of a colour are the model chunks of a device.", class_="soft small")
    if drawn.merged:
        text = "Neighbouring operations are merged: the height of a colour is its share of the time, the rest is idle."
        yield tag("p", text, class_="soft small")
    yield _figure(drawn, result.spans.names, "gantt-0", ribbon)
    yield from _links(result)
    windows = close_ups(result) if drawn.merged else ()
    for number, window in enumerate(windows, 1):
        yield tag("h3", f"Close-up: {window.name}, {_from_to(window)}")
        yield _figure(chart(result, window), result.spans.names, f"gantt-{number}")


def _phases(result: Result, found: Sequence[tuple[Window, int]]) -> Markup:
    """The phases of the pipeline as a legend of the strip above the chart, or why there are none."""
    total = whole(result.spans).end
    if found:
        shares = [100 * (window.end - window.begin) / total for window, _ in found]
        rows = zip(found, shares, strict=True)
        return svg.legend((slot, f"{w.name} {_from_to(w)} ({share:.0f} %)") for (w, slot), share in rows)
    if len(result.classes) < 2:
        return Markup("")
    text = "At no moment are all stages between their first backward and their last forward pass: no steady state."
    return tag("p", text, class_="soft small")


def _from_to(window: Window) -> str:
    return f"{units.format(window.begin / 1e12, 'time')} to {units.format(window.end / 1e12, 'time')}"


def _legend(drawn: Chart, names: Sequence[str]) -> list[tuple[int, str]]:
    """Colours of the kinds that occur; kinds of one colour stand together."""
    together: dict[int, list[str]] = {}
    for kind in drawn.kinds:
        together.setdefault(palette.operation(names[kind]), []).append(clean(names[kind]))
    return [(slot, ", ".join(named)) for slot, named in together.items()]


def _names(names: Iterable[str]) -> list[Markup]:
    return [tag("div", name, title=name) for name in names]


def _figure(drawn: Chart, names: Sequence[str], key: str, ribbon: Sequence[tuple[Window, int]] = ()) -> Markup:
    """Buttons, row names, boxes, time axis and the texts for hovering."""
    begin, length = drawn.window.begin / 1e12, (drawn.window.end - drawn.window.begin) / 1e12
    marks = [units.format(begin + length * i / (_TICKS - 1), "time") for i in range(_TICKS)]
    tools = [tag("button", sign, type="button", data_do=do, aria_label=what, title=what) for do, sign, what in _BUTTONS]
    return tag(
        "div",
        tag("div", *tools, tag("span", "drag to move, Ctrl and wheel to zoom", class_="soft small"), class_="tools"),
        tag(
            "div",
            tag("div", *_names(row.name for row in drawn.rows), class_=_look(drawn, bool(ribbon))),
            svg.gantt(drawn, names, f"Gantt chart of {drawn.window.name}, {_from_to(drawn.window)}", ribbon),
            tag("div", *(tag("span", mark) for mark in marks), class_="axis"),
            class_="chart",
        ),
        tag("script", Markup(_data(drawn)), type="application/json", id=key),
        data_chart=key,
    )


def _links(result: Result) -> Iterable[Markup]:
    """The load of the links under the chart, the busiest kinds first; kinds with one curve stand together."""
    end = whole(result.spans).end
    rows: dict[str, list[str]] = {}
    known = [load for load in result.links if load.by_operation]
    for load in sorted(known, key=lambda load: -load.utilisation)[:_MOST_KINDS]:
        rates = over_time(result, load).at_most(_MOST_STEPS)
        top = float(rates.rate.max(initial=0.0)) or 1.0
        share = f", {wording.percent(top / load.capacity)}" if load.capacity else ""
        peak = f"up to {units.format(top, 'bandwidth')}{share}"
        curve = svg.area((rates.time / max(end, 1)).tolist(), (rates.rate / top).tolist(), palette.BLUE, peak)
        rows.setdefault(joined(tag("span", peak, class_="soft"), curve), []).append(load.name)
    if not rows:
        return
    yield tag("h3", "What the busiest link of each kind carries")
    curves = [
        tag("div", tag("span", ", ".join(names)), ": ", Markup(drawn), class_="load") for drawn, names in rows.items()
    ]
    marks = [tag("span", units.format(end / 1e12 * i / (_TICKS - 1), "time")) for i in range(_TICKS)]
    yield tag("div", *curves, tag("div", *marks, class_="axis"))
    text = "Shares are of the link's capacity. What a kind of operation sends is spread evenly over its time."
    yield tag("p", text, class_="soft small")


def _look(drawn: Chart, ribbon: bool) -> str:
    """Classes of the names beside a chart, which must stand beside their rows."""
    return "names" + (" below" if ribbon else "") + (" tall" if len(drawn.rows) <= svg.FEW else "")


def _data(drawn: Chart) -> str:
    """The hover texts as JSON that can stand in a script element."""
    texts: dict[str, int] = {}
    rows = [
        {"name": row.name, "lanes": [_flat(lane, drawn.window, texts) for lane in (row.boxes, row.beside) if lane]}
        for row in drawn.rows
    ]
    for row in rows:
        row["lanes"] = row["lanes"] or [[]]
    document: dict[str, Any] = {
        "begin": drawn.window.begin / 1e12, "end": drawn.window.end / 1e12, "parts": _PARTS, "texts": list(texts),
        "rows": rows,
    }  # fmt: skip
    # `<` would let a name end the script element.
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _flat(boxes: Sequence[Box], window: Window, texts: dict[str, int]) -> list[int]:
    """(pause before, length, number of the text) of each box, one after the other."""
    scale, at = _PARTS / (window.end - window.begin), 0
    flat: list[int] = []
    for box in boxes:
        start, end = round((box.start - window.begin) * scale), round((box.end - window.begin) * scale)
        flat += (start - at, end - start, texts.setdefault(box.text, len(texts)))
        at = end
    return flat
