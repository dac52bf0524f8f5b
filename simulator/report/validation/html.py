"""Validation as one self-contained HTML file; reads the document that `study.validate.accuracy.document` makes.

All that `validation.page` prints, and what a terminal has no room for: every row in a table that sorts, simulated over
measured times as a plot, the distribution of the errors, suspected causes.
"""

from collections.abc import Iterable, Mapping, Sequence

from simulator import units
from simulator.report.html.markup import Markup, joined, tag
from simulator.report.html.page import standalone
from simulator.report.html.parts import heading, sections, table
from simulator.report.svg import pictures, scatter
from simulator.report.text import palette, scales, wording
from simulator.report.validation.page import Scored, counted, scored
from simulator.results.documents.validation import ErrorStatistics, ValidatedRow, ValidationDocument, ValidationSummary

WORST = 20
"""Worst rows that are shown."""
_EDGE = 0.4  # errors beyond are drawn at the end of the histogram
_BINS = 32
_NEAR = 0.1  # relative error of the band in the plots
_STATISTICS = ("mean", "median", "p90", "signed")
_NUMBERS = ("error", "measured", "simulated", "memory", "devices")
_HEADS = ("row", *_NUMBERS[:4], "source", "model", "device", "devices", "in scope", "assumed or refused")


def page(document: ValidationDocument, by: Sequence[str], worst: int = WORST) -> str:
    """The page as text of an HTML file; `by` names the keys of `by_` tables in the summary."""
    what = document.summary.what
    body = (*_title(document.summary), tag("main", *_sections(document, by, worst)), _footer(what))
    return standalone("Published measurements and simulation", body, "clustersim validate")


def _footer(what: str) -> Markup:
    return tag("footer", tag("p", f"Errors are of {what}: + is too slow, - too fast.", class_="soft small"))


def _title(figures: ValidationSummary) -> Iterable[Markup]:
    yield heading("Published measurements and simulation", tag("p", f"{counted(figures)}.", class_="soft"))
    scope, whole, memory = (getattr(figures, key) for key in ("in_scope", "error", "memory"))
    tiles = [
        (f"{words}, in scope", _said(scope, key))
        for key, words in (
            ("mean", "mean error"),
            ("median", "median error"),
            ("p90", "90 % of errors below"),
            ("signed", "mean signed error"),
        )
    ]
    tiles += [("rows in scope", f"{scope.rows:,}"), ("mean error, all rows", _said(whole, "mean"))]
    tiles += [("mean error of peak memory", _said(memory, "mean"))] if memory.rows else []
    yield tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in tiles), class_="tiles")


def _said(statistics: ErrorStatistics, key: str) -> str:
    return wording.percent(getattr(statistics, key), signed=key == "signed") if statistics.rows else "-"


def _sections(document: ValidationDocument, by: Sequence[str], worst: int) -> Iterable[Markup]:
    figures, rows = document.summary, document.rows
    done = scored(rows)
    yield from sections(
        (
            (f"Error of {figures.what}", _overall(figures)),
            ("Simulated and measured", _plots(done)),
            ("Distribution of the errors", _distribution(done)),
            *((f"By {key}", _errors(key, figures.by[key])) for key in by),
            ("Worst rows", _worst(done, worst)),
            ("Ranking of layouts", _ranking(figures.layout_rank_correlation)),
            ("Peak memory", _memory(figures, done)),
            ("Refused rows", _refused(figures.refused)),
            ("All rows", _all(rows)),
        )
    )


def _overall(figures: ValidationSummary) -> Iterable[Markup]:
    """Errors of all rows and of those that are apart, and which these are."""
    named = {
        "in scope": "in_scope",
        "all": "error",
        "complete rows": "complete",
        "rows with assumptions": "with_assumptions",
    }
    yield from _errors("rows", {words: getattr(figures, key) for words, key in named.items()})
    text = f"In scope: {figures.scope}. Rows with assumptions leave something open that was filled in."
    yield tag("p", text, class_="soft small")


def _errors(what: str, groups: Mapping[str, ErrorStatistics]) -> Iterable[Markup]:
    """Statistics of groups of rows, the mean as a bar too."""
    shown = {name: found for name, found in groups.items() if found.rows}
    top = max((found.mean for found in shown.values()), default=0.0) or 1.0
    rows = [
        (
            name,
            f"{found.rows:,}",
            *(wording.percent(getattr(found, key), signed=key == "signed") for key in _STATISTICS),
            pictures.stacked([(found.mean / top, palette.BLUE, name)], f"mean error of {name}"),
        )
        for name, found in shown.items()
    ]
    if rows:
        yield table((f"{what} name", "rows n", "mean n", "median n", "P90 n", "signed n", "mean bar"), rows)


def _plots(done: Sequence[Scored]) -> Iterable[Markup]:
    """Simulated against measured time, and their ratio."""
    if not done:
        return
    sources = sorted({row.source or "" for row, *_ in done})
    axis = scatter.decades([value for *_, times in done for value in times], "time")
    looks = {source: look for look, source in enumerate(sources)}
    points = [scatter.Point(a, b, looks[row.source or ""], _tip(row)) for row, _, (a, b) in done]
    low, high = axis.low, axis.high
    yield scatter.legend(sources)
    label = "simulated against measured time"
    band = ((low, low * (1 - _NEAR)), (low, low * (1 + _NEAR)), (high, high * (1 + _NEAR)), (high, high * (1 - _NEAR)))
    yield tag("h3", "Simulated (up) against measured time (across)")
    yield tag("div", scatter.scatter(points, axis, axis, label, band=band), class_="square")
    yield tag("h3", "Simulated over measured time (up) against measured (across)")
    ratios = [scatter.Point(a, b / a, looks[row.source or ""], _tip(row)) for row, _, (a, b) in done]
    ratio = scatter.Axis(0.25, 1.75, tuple(scales.marks(0.25, 1.75)))
    band = ((low, 1 - _NEAR), (low, 1 + _NEAR), (high, 1 + _NEAR), (high, 1 - _NEAR))
    yield scatter.scatter(ratios, axis, ratio, "ratio of simulated to measured time", band=band, height=420)
    beyond = sum(not ratio.holds(point.y) for point in ratios)
    hollow = f" Hollow at the frame: {wording.plural(beyond, 'row')} beyond it." if beyond else ""
    yield tag(
        "p", f"The band is 10 % either way.{hollow} Point at a mark to read which row it is.", class_="soft small"
    )


def _tip(row: ValidatedRow) -> str:
    measured, simulated = _seconds(row.step_s.measured), _seconds(row.step_s.predicted)
    return f"{row.id}: measured {measured}, simulated {simulated}, {_error(row.error)}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else units.format(value, "time")


def _error(value: float | None) -> str:
    return "-" if value is None else wording.percent(value, signed=True)


def _distribution(done: Sequence[Scored]) -> Iterable[Markup]:
    """A histogram of the signed errors, and how many rows lie how near."""
    if not done:
        return
    inside, outside = ([one.error for one in done if one.row.in_scope is flag] for flag in (True, False))
    ticks = ("-40 % or less", "-20 %", "0", "+20 %", "+40 % or more")
    axis = scatter.Axis(-_EDGE, _EDGE, tuple(scales.words(*ticks)))
    yield pictures.legend(((palette.BLUE, "in scope"), (palette.ORANGE, "other rows")))
    parts = ((palette.BLUE, inside), (palette.ORANGE, outside))
    yield scatter.histogram(parts, axis, _BINS, "how many rows have which error")
    every = inside + outside
    rows = [
        (f"within {limit} %", *(_within(errors, limit / 100) for errors in (inside, every)))
        for limit in (2, 5, 10, 15, 20, 30)
    ]
    yield table(("error name", "in scope n", "all rows n"), rows)


def _within(errors: Sequence[float], limit: float) -> str:
    return wording.percent(sum(abs(e) <= limit for e in errors) / len(errors)) if errors else "-"


def _worst(done: Sequence[Scored], count: int) -> Iterable[Markup]:
    """The rows in scope with the largest errors; of all rows where none is in scope."""
    known = [one for one in done if one.row.in_scope] or done
    rows = [one.row for one in sorted(known, key=lambda one: -abs(one.error))[:count]]
    if not rows:
        return
    yield tag("p", "In scope." if rows[0].in_scope else "None is in scope: of all rows.", class_="soft small")
    columns = ("row path", "error n", "measured n", "simulated n", "assumed source", "suspected cause source")
    first: dict[str, str] = {}  # the row at which a cause is spelled out
    listed = []
    for row in rows:
        cause = row.cause or ""
        said = cause if first.setdefault(cause, row.id) == row.id or not cause else f"as for {first[cause]}"
        times = _seconds(row.step_s.measured), _seconds(row.step_s.predicted)
        listed.append((row.id, _error(row.error), *times, "; ".join(row.assumed), said))
    yield table(columns, listed)


def _ranking(found: Mapping[str, float | None]) -> Iterable[Markup]:
    rows = [(name, f"{value:.2f}") for name, value in found.items() if value is not None]
    if rows:
        text = "Spearman's coefficient inside groups of equal model, devices and batch: 1 orders layouts as measured."
        yield tag("p", text, class_="soft small")
        yield table(("source name", "rank correlation n"), rows)


def _memory(figures: ValidationSummary, done: Sequence[Scored]) -> Iterable[Markup]:
    known = [(row.id, row.memory_error) for row, *_ in done if row.memory_error is not None]
    if known:
        yield from _errors("peak memory", {"rows that state it": figures.memory})
        worst = sorted(known, key=lambda one: -abs(one[1]))[:WORST]
        listed = table(("row path", "error of memory n"), ((name, _error(error)) for name, error in worst))
        yield tag("details", tag("summary", f"the {len(worst)} worst"), listed)
    yield tag("p", f"Rows that ran but are called out of memory: {figures.called_out_of_memory}.")


def _refused(reasons: Mapping[str, int]) -> Iterable[Markup]:
    if reasons:
        yield table(("rows n", "reason source"), ((f"{count:,}", reason) for reason, count in reasons.items()))


def _all(rows: Sequence[ValidatedRow]) -> Iterable[Markup]:
    """Every row; a click on a heading sorts."""
    if not rows:
        return
    top = tag("tr", *(tag("th", name, class_="n" if name in _NUMBERS else None, scope="col") for name in _HEADS))
    box = tag("input", type="search", id="filter", placeholder="show rows with …", aria_label="show rows with")
    yield tag("p", box, class_="tools")
    body = tag("tbody", *(tag("tr", *_cells(row)) for row in rows))
    listed = tag("table", tag("thead", top), body, class_="sortable dense", id="rows")
    yield tag("div", listed, class_="wide tall-table")


def _cells(row: ValidatedRow) -> Iterable[Markup]:
    yield tag("td", row.id, class_="path")
    yield _number(row.error, _error(row.error))
    for time in (row.step_s.measured, row.step_s.predicted):
        yield _number(time, _seconds(time))
    yield _number(row.memory_error, _error(row.memory_error))
    for text in (row.source, row.model, row.device):
        yield tag("td", text or "")
    yield _number(row.devices, "" if row.devices is None else f"{row.devices:,}")
    yield tag("td", "yes" if row.in_scope else "")
    refused = joined(tag("em", "refused: "), row.refused) if row.refused else Markup("")
    yield tag("td", refused or "; ".join(row.assumed), class_="source")


def _number(value: float | None, text: str) -> Markup:
    """A cell that sorts by its value and not by its text."""
    return tag("td", "", class_="n") if value is None else tag("td", text, class_="n", data_v=f"{value:.6g}")
