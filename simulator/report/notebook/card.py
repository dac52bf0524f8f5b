"""A Result, a comparison or a sweep in a cell of a notebook: a small piece of HTML without style sheet and script.

Notebooks style what they show: lists, tables and headings look different in each of them, and some drop style sheets.
So everything is a `div` or a `span` with its style in place. Text takes the colours of the page around it, light or
dark; nothing is loaded from anywhere.
"""

from collections.abc import Callable, Iterable, Sequence

from simulator import units
from simulator.metrics import METRICS
from simulator.report.compare.html import kinds, numbered, part, visible
from simulator.report.compare.page import cells, chosen, fits, held_against, label
from simulator.report.html.markup import Markup, joined, tag
from simulator.report.jobs import contents as of_jobs
from simulator.report.serving import contents
from simulator.report.step import ledger, sections
from simulator.report.text import palette, wording
from simulator.report.text.column_titles import short
from simulator.report.text.grounds import grounds
from simulator.results.documents.comparison import ComparedRun, ComparisonDocument
from simulator.results.documents.sweep import RankedPoints, SweepDocument
from simulator.results.infeasibility import Infeasibility, filled, infeasibility, nothing_served, reason, remarks
from simulator.results.metrics import mean
from simulator.results.result import Result
from simulator.results.serving.request_time import mean_request_time

_HEADLINE = {
    "training": (
        "step_time_s",
        "tokens_per_s",
        "mfu",
        "bubble_fraction",
        "exposed_communication_s",
        "peak_memory_bytes",
        "cost_usd",
    ),
    "serving": (
        "output_throughput",
        "request_goodput",
        "median_ttft_ms",
        "p99_ttft_ms",
        "median_tpot_ms",
        "p99_tpot_ms",
        "slo_attainment",
        "peak_memory_bytes",
    ),
    "jobs": ("makespan_s", "worst_slowdown", "mean_slowdown", "shared_link_s"),
}
_VERDICTS: dict[Infeasibility, str] = {
    "out of memory": "Does not fit into memory: ",
    "all requests rejected": "Cannot serve: ",
    "no replica starts": "Cannot serve: ",
}
_MOST_WARNINGS = 5
_MOST_POINTS = 10
_INVISIBLE = 0.0005  # share of a bar
_ROOT = (
    "all:initial;display:block;box-sizing:border-box;max-width:60rem;margin:.2rem 0;color:inherit;"
    "font:14px/1.45 system-ui,sans-serif;text-align:left"
)
_SOFT = "opacity:.7;margin:.1rem 0"
_SMALL = "font-size:.85em"
_STRONG = "font-weight:600"
_TILES = "display:flex;flex-wrap:wrap;gap:.3rem 1.6rem;margin:.4rem 0"
_LEGEND = f"display:flex;flex-wrap:wrap;gap:.1rem 1rem;margin:.2rem 0;{_SMALL}"
_SWATCH = "display:inline-block;width:.75rem;height:.75rem;margin-right:.35rem;outline:1px solid #8886"
_BAR = "display:flex;background:#8882;overflow:hidden"
_BARS = f"display:grid;grid-template-columns:max-content 1fr;gap:.15rem .7rem;align-items:center;{_SMALL}"
_NAME = "max-width:16rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap"
_TABLE = "display:grid;width:max-content;font-size:.9em"
_CELL = "padding:.1rem .9rem .1rem 0;border-bottom:1px solid #8884"


def card(result: Result) -> str:
    """Name, headline figures, a bar of where the time goes, and warnings."""
    return _framed(*_card(result))


def comparison_card(document: ComparisonDocument) -> str:
    """The headline figures of each run, bars of where the time goes, and why they differ."""
    known = numbered(document)
    pieces: list[Markup] = [*_ground(*grounds(document.runs))]
    if known.metrics:
        found = fits(known) | {label(name, known): cells(name, row, known) for name, row in chosen(known).items()}
        rows = [(words, *((f"{c.text} *" if c.best else c.text) for c in row)) for words, row in found.items()]
        best = {(i, j) for i, row in enumerate(found.values()) for j, c in enumerate(row, 1) if c.best}
        pieces.append(_table(("figure", *known.names), rows, best))
    for _, runs in kinds(known):
        pieces += _stacks(runs)
    if document.differences:
        pieces.append(_div(held_against(document), style=f"{_SOFT};{_SMALL}"))
        pieces += _list([difference.sentence for difference in document.differences])
    return _framed(*pieces, *_notes(document.notes))


def sweep_card(document: SweepDocument) -> str:
    """The best points of a sweep: what was varied and the headline figures."""
    best = document.best or RankedPoints("", ())
    rows = {row.point: row for row in document.rows}
    shown = [rows[point] for point in best.points[:_MOST_POINTS]]
    lost = len([row for row in rows.values() if row.status != "ok"])
    names = [best.metric, *(n for n in _HEADLINE.get(document.of, ()) if n != best.metric)]
    names = [name for name in names if any(name in row.metrics for row in shown)]
    table = _table(
        ("point", *map(short, names)),
        [(row.name, *(_figure(name, row.metrics.get(name)) for name in names)) for row in shown],
    )
    said = wording.plural(len(rows), "point") + (f", {lost} that do not fit or are refused" if lost else "")
    said += f"; the best {len(shown)} by {METRICS[best.metric].label}" if shown else ""
    head = (_div(document.name, style=_STRONG), _div(said, style=_SOFT), *_ground(*grounds(document.rows)))
    return _framed(*head, *([table] if shown else []))


def _figure(name: str, value: float | None) -> str:
    return "-" if value is None else wording.figure(name, value)


def _framed(*content: Markup) -> str:
    return tag("div", *content, class_="clustersim", style=_ROOT)


def _div(*content: str, **attributes: object) -> Markup:
    return tag("div", *content, **attributes)


def _card(result: Result) -> Iterable[Markup]:
    yield _div(result.name, style=_STRONG)
    yield _div(" · ".join(_SUBJECT[result.kind](result)), style=_SOFT)
    yield from _ground(result.ground.sentence)
    if words := wording.expected(result):
        yield _div(f"Expected: {words}", style=f"{_SOFT};{_SMALL}")
    if not result.feasible and not result.jobs:
        yield _div(tag("span", _VERDICTS[infeasibility(result)], style=_STRONG), _missing(result))
    wanted = () if nothing_served(result) else _HEADLINE.get(result.kind, ())
    shown = [name for name in wanted if name in result.metrics]
    tiles = [
        _div(
            _div(METRICS[name].label, style="font-size:.8em;opacity:.7"),
            _div(wording.figure(name, result.metrics[name]), style=_STRONG),
        )
        for name in shown
    ]
    yield _div(*tiles, style=_TILES)
    yield from _bar(result)
    yield from _jobs(result)
    yield from _notes(remarks(result))


_SUBJECT: dict[str, Callable[[Result], Iterable[str]]] = {
    "training": lambda result: sections.header_lines(result.scenario),
    "serving": contents.header_lines,
    "jobs": of_jobs.header_lines,
}


def _jobs(result: Result) -> Iterable[Markup]:
    """A row for each of several jobs."""
    rows = [
        (
            *(row.name, row.does, row.devices, f"{row.alone} a {row.of}", f"{row.beside} a {row.of}", row.slowdown),
            row.memory if row.fits else f"{row.memory}, does not fit",
        )
        for row in of_jobs.rows(result)
    ]
    if rows:
        yield _table(("job", "does", "devices", "alone", "together", "slowdown", "memory"), rows)


def _ground(*sentences: str) -> Iterable[Markup]:
    """What figures stand on."""
    for sentence in filter(None, sentences):
        yield _div(f"Ground: {sentence}", style=f"{_SOFT};{_SMALL}")


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
    shown = {key: seconds for key, seconds in parts.items() if seconds >= _INVISIBLE * whole}
    yield _legend((part(key)[0], f"{part(key)[1]} {wording.percent(s / whole)}") for key, s in shown.items())
    drawn = [(s / whole, part(key)[0], f"{part(key)[1]}: {units.format(s, 'time')}") for key, s in shown.items()]
    yield _stacked(drawn, "where the time goes", pixels=18)


def _stacks(runs: Sequence[ComparedRun]) -> Iterable[Markup]:
    """A legend and a bar of parts for each run, all on one scale."""
    keys, longest = visible(runs), max(sum(run.parts.values()) for run in runs) or 1.0
    yield _legend(part(key) for key in keys)
    bars: list[Markup] = []
    for run in runs:
        shares = [(key, run.parts.get(key, 0.0)) for key in keys]
        drawn = [(s / longest, part(key)[0], f"{part(key)[1]}: {wording.percent(s)}") for key, s in shares]
        bars += [tag("span", run.name, style=_NAME, title=run.name), _stacked(drawn, run.name, pixels=14)]
    yield _div(*bars, style=_BARS)


def _stacked(parts: Iterable[tuple[float, int, str]], text: str, pixels: int) -> Markup:
    """A bar of (share of the width, slot, what it says when pointed at)."""
    pieces = [
        _div(style=f"flex:0 0 {100 * share:.3f}%;background:{palette.LIGHT[slot]}", title=hover)
        for share, slot, hover in parts
        if share > 0
    ]
    return _div(*pieces, style=f"{_BAR};height:{pixels}px", role="img", aria_label=text)


def _legend(entries: Iterable[tuple[int, str]]) -> Markup:
    """Colours and what they stand for."""
    swatches = [
        tag("span", tag("span", style=f"{_SWATCH};background:{palette.LIGHT[slot]}"), text) for slot, text in entries
    ]
    return _div(*swatches, style=_LEGEND)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], strong: Iterable[tuple[int, int]] = ()) -> Markup:
    """Rows of words and figures; `strong` are the cells (row, column) to stand out."""
    marked = set(strong)
    lines = [_line(titles, {*range(len(titles))}, "columnheader")]
    lines += [_line(row, {j for i, j in marked if i == at}, "cell") for at, row in enumerate(rows)]
    columns = f"grid-template-columns:repeat({len(titles)},auto)"
    return _div(_div(*lines, style=f"{_TABLE};{columns}", role="table"), style="overflow-x:auto;margin:.4rem 0")


def _line(cells: Sequence[str], strong: set[int], role: str) -> Markup:
    """A row of a table: its cells stand in the grid of the whole, the first one to the left."""
    drawn = []
    for at, cell in enumerate(cells):
        look = f"{_CELL};text-align:{'right' if at else 'left'}" + (f";{_STRONG}" if at in strong else "")
        drawn.append(_div(cell, style=look, role=role))
    return _div(*drawn, style="display:contents", role="row")


def _notes(lines: Iterable[str]) -> Iterable[Markup]:
    """Sentences, of many the first few."""
    listed = list(lines)
    if len(listed) > _MOST_WARNINGS:
        listed = [*listed[:_MOST_WARNINGS], f"and {len(listed) - _MOST_WARNINGS} more"]
    yield from _list(listed)


def _list(lines: Sequence[str]) -> Iterable[Markup]:
    if lines:
        style = "padding-left:1em;text-indent:-.8em"
        items = [_div(joined("• ", line), style=style, role="listitem") for line in lines]
        yield _div(*items, style="margin:.3rem 0", role="list")
