"""The Gantt chart of the HTML report: the whole step and, where operations are merged, close-ups of its phases."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from simulator import units
from simulator.report.html.markup import Markup, joined, tag
from simulator.report.html.parts import ticks, timeline
from simulator.report.step.sections import chains
from simulator.report.svg import pictures
from simulator.report.svg.gantt import Box, Chart, Window, charts, phases, whole
from simulator.report.text import palette, wording
from simulator.report.text.plain import clean
from simulator.results.link_rates import over_time
from simulator.results.result import LinkLoad, Result, Spans

_MOST_STEPS = 500  # of a link's curve
_MOST_KINDS = 6
_PARTS = 1_000_000  # hover texts know times to this part of a window


def section(result: Result) -> Iterable[Markup]:
    """What runs when: phases, the whole step, close-ups."""
    if not len(result.spans.start):
        return
    drawn, *pieces = charts(result)
    ribbon = list(zip(phases(result), palette.PHASES, strict=False))
    yield _phases(result, ribbon)
    yield pictures.legend(_legend(drawn, result.spans.names))
    if len(drawn.rows) < len(result.classes):
        yield tag("p", f"{len(drawn.rows)} of {len(result.classes):,} device classes are shown.", class_="soft small")
    if said := chains(result):
        yield tag("p", said, class_="soft small")
    if any(box.chunk for row in drawn.rows for box in row.boxes):
        yield tag("p", "Shades of a colour are the model chunks of a device.", class_="soft small")
    if drawn.merged:
        text = "Neighbouring operations are merged: the height of a colour is its share of the time, the rest is idle."
        yield tag("p", text, class_="soft small")
    yield _figure(drawn, result.spans, 0, ribbon, _links(result))
    for number, piece in enumerate(pieces, 1):
        yield tag("h3", f"Close-up: {piece.window.name}, {_from_to(piece.window)}")
        yield _figure(piece, result.spans, number)


def _phases(result: Result, found: Sequence[tuple[Window, int]]) -> Markup:
    """The phases of the pipeline as a legend of the strip above the chart, or why there are none."""
    total = whole(result.spans).end
    if found:
        shares = [100 * (window.end - window.begin) / total for window, _ in found]
        rows = zip(found, shares, strict=True)
        named = [(slot, f"{w.name} {_from_to(w)} ({share:.0f} %)") for (w, slot), share in rows]
        return joined(tag("p", "The strip above the chart:", class_="soft small"), pictures.legend(named))
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


def _figure(
    drawn: Chart, spans: Spans, number: int, ribbon: Sequence[tuple[Window, int]] = (), below: Iterable[Markup] = ()
) -> Markup:
    """Row names, boxes, time axis, the texts for hovering; `below` shares the axis. Number 0 is the whole step."""
    key, axis = f"gantt-{number}", f"piece {number}" if number else "step"
    begin, end = drawn.window.begin / 1e12, drawn.window.end / 1e12
    label = f"Gantt chart of {drawn.window.name}, {_from_to(drawn.window)}"
    picture = tag(
        "div",
        tag("div", *_names(row.name for row in drawn.rows), class_=_look(drawn, bool(ribbon))),
        pictures.gantt(drawn, spans.names, label, ribbon, rows=key),
        ticks(begin, end),
        *below,
        class_="chart",
    )
    data = tag("script", Markup(_data(drawn, whole(spans).end, spans.stage_word)), type="application/json", id=key)
    return timeline(axis, begin, end, picture, data)


def _links(result: Result) -> Iterable[Markup]:
    """The load of the links under the chart, the busiest kinds first; kinds with one curve stand together."""
    end = whole(result.spans).end
    rows: dict[tuple[pictures.Readout, str, tuple[float, ...], tuple[float, ...]], list[str]] = {}
    known = [load for load in result.links if load.by_operation]
    shown = _families(sorted(known, key=lambda load: -load.utilisation))
    for load in shown:
        rates = over_time(result.spans, load).at_most(_MOST_STEPS)
        top = load.peak or 1.0
        share = f", {wording.percent(top / load.capacity)}" if load.capacity else ""
        peak = f"up to {units.format(top, 'bandwidth')}{share}"
        xs, ys = (rates.time / max(end, 1)).tolist(), (rates.rate / top).tolist()
        rows.setdefault((pictures.Readout(top, "B/s"), peak, tuple(xs), tuple(ys)), []).append(load.name)
    if not rows:
        return
    yield tag("h3", "What the busiest link of each kind carries", class_="across")
    for (readout, peak, x, y), names in rows.items():
        listed = ", ".join(names)
        yield tag("div", tag("span", listed, title=listed), tag("span", peak, class_="soft"), class_="load")
        yield pictures.area(x, y, palette.BLUE, f"load of {listed}", readout)
    yield ticks(0.0, end / 1e12)
    text = "Shares are of the link's capacity. What a kind of operation sends is spread evenly over its time."
    if rest := len(known) - len(shown):
        text += f" {wording.plural(rest, 'kind')} of link that carry less stand in the table of links alone."
    yield tag("p", text, class_="soft small across")


def _families(loads: Sequence[LinkLoad]) -> list[LinkLoad]:
    """The first kinds of link, each with its other direction: `NIC up` never without `NIC down`."""
    names = [load.name.rpartition(" ")[0] if load.name.endswith((" up", " down")) else load.name for load in loads]
    first = list(dict.fromkeys(names[:_MOST_KINDS]))
    return [load for load, name in zip(loads, names, strict=True) if name in first]


def _look(drawn: Chart, ribbon: bool) -> str:
    """Classes of the names beside a chart, which must stand beside their rows."""
    return "names" + (" below" if ribbon else "") + (" tall" if len(drawn.rows) <= pictures.FEW else "")


def _data(drawn: Chart, length: int, stages: str) -> str:
    """The hover texts of a chart of a step of that length, as JSON that can stand in a script element.

    `stages` is what the numbers of stages are called.
    """
    texts: dict[str, int] = {}
    rows = [
        {
            "name": row.name,
            "lanes": [_flat(lane, drawn.window, texts, stages) for lane in (row.boxes, row.beside) if lane],
        }
        for row in drawn.rows
    ]
    for row in rows:
        row["lanes"] = row["lanes"] or [[]]
    document: dict[str, Any] = {
        "begin": drawn.window.begin / 1e12,
        "end": drawn.window.end / 1e12,
        "parts": _PARTS,
        "cut": drawn.window.end < length,
        "texts": list(texts),
        "rows": rows,
    }
    # `<` would let a name end the script element.
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _flat(boxes: Sequence[Box], window: Window, texts: dict[str, int], stages: str) -> list[int]:
    """(pause before, length, number of the text, microbatch or -1) of each box, one after the other."""
    scale, at = _PARTS / (window.end - window.begin), 0
    flat: list[int] = []
    for box in boxes:
        start, end = round((box.start - window.begin) * scale), round((box.end - window.begin) * scale)
        text = box.text if box.stage < 0 else f"{box.text}, {stages} {box.stage}"
        flat += (start - at, end - start, texts.setdefault(text, len(texts)), box.microbatch)
        at = end
    return flat
