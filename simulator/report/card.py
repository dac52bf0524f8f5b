"""A Result or a comparison in a cell of a notebook: a small piece of HTML with its own style and no script.

Text takes the colours of the page around it, light or dark; nothing is loaded from anywhere.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from simulator import units
from simulator.report import compare_html, html_parts, ledger, palette, sections, serving_facts, svg, wording
from simulator.report.compare_html import part
from simulator.report.markup import Markup, joined, tag
from simulator.results.metrics import METRICS, mean
from simulator.results.obstacle import Obstacle, filled, obstacle, reason
from simulator.results.request_time import mean_request_time
from simulator.results.result import Result

_HEADLINE = {
    "training": ("step_time_s", "tokens_per_s", "mfu", "bubble_fraction", "exposed_communication_s",
                 "peak_memory_bytes", "cost_usd"),
    "serving": ("output_throughput", "request_goodput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms",
                "p99_tpot_ms", "slo_attainment", "peak_memory_bytes"),
}  # fmt: skip
_VERDICTS: dict[Obstacle, str] = {
    "out of memory": "Does not fit into memory: ", "all requests rejected": "Cannot serve: ",
}  # fmt: skip
_MOST_WARNINGS = 5
_MOST_POINTS = 10
_STYLE = (
    ".clustersim{max-width:60rem;font:14px/1.45 system-ui,sans-serif}"
    ".clustersim dl{display:flex;flex-wrap:wrap;gap:.3rem 1.6rem;margin:.4rem 0}"
    ".clustersim dt{font-size:.8em;opacity:.7;font-weight:400}"
    ".clustersim dd{margin:0;font-weight:600}"
    ".clustersim svg{display:block;width:100%}"
    ".clustersim .trough{background:#8882}"
    ".clustersim .legend,.clustersim .bars{font-size:.85em;margin:.2rem 0}"
    ".clustersim .legend{display:flex;flex-wrap:wrap;gap:.1rem 1rem;list-style:none;padding:0}"
    ".clustersim .legend i{display:inline-block;width:.75rem;height:.75rem;margin-right:.35rem;outline:1px solid #8886}"
    ".clustersim .bars{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .7rem;align-items:center}"
    ".clustersim .bars span{max-width:16rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}"
    ".clustersim .soft{opacity:.7;margin:.1rem 0}"
    ".clustersim .wide{overflow-x:auto}"
    ".clustersim table{color:inherit;border-collapse:collapse;font-size:.9em}"
    ".clustersim th,.clustersim td{text-align:right;padding:.1rem .9rem .1rem 0;border-bottom:1px solid #8884}"
    ".clustersim td.n{white-space:nowrap}"
    ".clustersim th:first-child,.clustersim td:first-child{text-align:left}"
    ".clustersim ul.notes{margin:.3rem 0;padding-left:1.2rem}"
)


def card(result: Result) -> str:
    """Name, headline figures, a bar of where the time goes, and warnings."""
    return _framed(*_card(result))


def comparison_card(document: Mapping[str, Any]) -> str:
    """The headline figures of each run, bars of where the time goes, and why they differ."""
    numbered = compare_html.numbered(document)
    pieces = [compare_html.figures(numbered, everything=False)] if numbered["metrics"] else []
    for _, runs in compare_html.kinds(numbered):
        pieces += compare_html.stacks(runs)
    pieces += compare_html.differences(document)
    return _framed(*pieces, *_notes(document["notes"]))


def sweep_card(document: Mapping[str, Any]) -> str:
    """The best points of a sweep: what was varied and the headline figures."""
    best = document["best"] or {"metric": None, "points": []}
    rows = {row["point"]: row for row in document["rows"]}
    shown = [rows[point] for point in best["points"][:_MOST_POINTS]]
    lost = len([row for row in rows.values() if row["status"] != "ok"])
    names = [best["metric"], *(n for n in _HEADLINE.get(document["of"], ()) if n != best["metric"])]
    names = [name for name in names if name is not None and any(name in row["metrics"] for row in shown)]
    table = html_parts.table(
        ("point name", *(f"{METRICS[name].label} n" for name in names)),
        [(row["name"], *(_figure(name, row["metrics"].get(name)) for name in names)) for row in shown],
    )
    told = wording.plural(len(rows), "point") + (f", {lost} that do not fit or are refused" if lost else "")
    told += f"; the best {len(shown)} by {METRICS[best['metric']].label}" if shown else ""
    return _framed(joined(tag("strong", document["name"])), tag("p", told, class_="soft"), *([table] if shown else []))


def _figure(name: str, value: float | None) -> str:
    return "-" if value is None else wording.figure(name, value)


def _framed(*content: Markup) -> str:
    colours = "".join(f".clustersim .c{slot}{{fill:{c};background:{c}}}" for slot, c in enumerate(palette.LIGHT))
    return tag("div", tag("style", Markup(_STYLE + colours)), *content, class_="clustersim")


def _card(result: Result) -> Iterable[Markup]:
    yield joined(tag("strong", result.name))
    subject = serving_facts.subject(result) if result.kind == "serving" else sections.subject(result.scenario)
    yield tag("p", " · ".join(subject), class_="soft")
    if not result.feasible:
        yield tag("p", tag("strong", _VERDICTS[obstacle(result)]), _missing(result))
    shown = [name for name in _HEADLINE.get(result.kind, ()) if name in result.metrics]
    tiles = [
        tag("div", tag("dt", METRICS[name].label), tag("dd", wording.figure(name, result.metrics[name])))
        for name in shown
    ]
    yield tag("dl", *tiles)
    yield from _bar(result)
    yield from _notes(result.warnings)


def _missing(result: Result) -> str:
    over = [use for use in result.memory if use.peak > use.capacity]
    if not over:
        return f"{reason(result)}."
    worst = max(over, key=filled)
    size = f"{units.format(worst.peak, 'bytes')} of {units.format(worst.capacity, 'bytes')}"
    return f"{ledger.place_of(result, worst)} needs {size}."


def _bar(result: Result) -> Iterable[Markup]:
    """Where a step, or a mean request, goes."""
    if result.service is not None:
        parts = mean_request_time(result.service)
    else:
        parts = mean(result.breakdown, [c.ranks for c in result.classes]) if result.breakdown else {}
    whole = sum(parts.values())
    if not whole > 0:
        return
    shown = {key: seconds for key, seconds in parts.items() if seconds >= 0.0005 * whole}
    yield svg.legend((part(key)[0], f"{part(key)[1]} {wording.percent(s / whole)}") for key, s in shown.items())
    drawn = [(s / whole, part(key)[0], f"{part(key)[1]}: {units.format(s, 'time')}") for key, s in shown.items()]
    yield svg.stacked(drawn, "where the time goes", pixels=18)


def _notes(lines: Iterable[str]) -> Iterable[Markup]:
    """Sentences, of many the first few."""
    listed = list(lines)
    if len(listed) > _MOST_WARNINGS:
        listed = [*listed[:_MOST_WARNINGS], f"and {len(listed) - _MOST_WARNINGS} more"]
    if listed:
        yield tag("ul", *(tag("li", line) for line in listed), class_="notes")
