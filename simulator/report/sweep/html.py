"""A sweep as one self-contained HTML file; reads the document that `study.sweep.table` makes."""

from collections.abc import Iterable, Sequence

from simulator.metrics import METRICS
from simulator.report.html.markup import Markup, tag
from simulator.report.html.page import standalone
from simulator.report.html.parts import expected, ground, notes, table
from simulator.report.svg import scatter
from simulator.report.sweep import phrases
from simulator.report.text import intervals, scales, wording
from simulator.report.text.column_titles import short
from simulator.report.text.grounds import expected_memory, grounds
from simulator.results.documents.sweep import HeatMap, ParetoFront, SweepDocument

MOST_ROWS = 2_000
"""Points that the table of all of them shows."""
_DEEPEST = 9  # of the shades of the heat map, `h0` the palest


def page(document: SweepDocument) -> str:
    """The page as text of an HTML file."""
    return standalone(document.name, _body(document), f"clustersim {document.provenance['version']}")


def heat_map(document: SweepDocument, heat: HeatMap) -> Iterable[Markup]:
    """The heat map as a table, the deeper the colour of a cell the larger its figure, and what its marks stand for."""
    across, upward = phrases.axis_words([heat.x, heat.y])
    head = [tag("th", phrases.value(value), scope="col") for value in heat.x_values]
    rows = zip(heat.y_values, heat.cells, phrases.shades(heat), phrases.gaps(document, heat), strict=True)
    body = [
        tag(
            "tr",
            tag("th", phrases.value(value), scope="row"),
            *(_cell(heat.metric, *cell) for cell in zip(cells, shades, marks, strict=True)),
        )
        for value, cells, shades, marks in rows
    ]
    corner = tag("th", f"{upward} \\ {across}", scope="col")
    table = tag("table", tag("thead", tag("tr", corner, *head)), tag("tbody", *body), class_="heat")
    yield tag("div", table, class_="wide")
    if words := phrases.gap_words(document, heat):
        yield tag("p", words, class_="soft small")


def _cell(metric: str, figure: float | None, shade: float | None, mark: str) -> Markup:
    if figure is None or shade is None:
        return tag("td", mark, class_="none")
    return tag("td", wording.figure(metric, figure), class_=f"h{round(shade * _DEEPEST)}")


def _body(document: SweepDocument) -> Iterable[Markup]:
    yield tag(
        "header",
        tag("h1", document.name),
        *(tag("p", line, class_="soft") for line in (*phrases.about(document), phrases.header_lines(document))),
        *([tag("p", f"Where {' and '.join(document.where)}.", class_="soft")] if document.where else []),
        *ground(*grounds(document.rows)),
        *expected(expected_memory(row.ground for row in document.rows)),
        tag("p", f"{phrases.counted(document)}."),
        tag("button", "light / dark", type="button", id="theme", aria_label="switch between light and dark"),
    )
    yield tag("main", *_sections(document))
    made_by = f"clustersim {document.provenance['version']} · seed {document.provenance['seed']}"
    yield tag("footer", tag("p", f"{made_by} · simulated, not measured", class_="soft small"))


def _sections(document: SweepDocument) -> Iterable[Markup]:
    if said := list(phrases.missed(document)):
        yield tag("section", tag("h2", "What the conditions leave out"), *notes(said))
    best = document.best
    if text := phrases.unranked(document):
        yield tag("section", tag("p", f"{text}."))
    if best and best.points:
        yield tag(
            "section",
            tag("h2", f"Best points by {phrases.label(best.metric)}"),
            _points(document, best.points[:20], (best.metric,)),
        )
        if said := list(_expected(document, best.points[:20])):
            yield tag("section", tag("h2", intervals.TITLE), *said)
    if front := document.pareto:
        yield tag("section", tag("h2", f"Pareto front: {phrases.front_words(front)}"), *_front(document, front))
    if document.heat:
        yield tag("section", tag("h2", phrases.heat_words(document.heat)), *heat_map(document, document.heat))
    for status in phrases.STATUSES:
        if said := list(phrases.reasons(document, status, most=20)):
            yield tag("section", tag("h2", status.capitalize()), *notes(said))
    yield tag("section", tag("h2", "All points"), *_everything(document))


def _points(document: SweepDocument, numbers: Sequence[int], first: tuple[str, ...]) -> Markup:
    names = phrases.columns(document, first)
    titles = [f"{word} class" for word in phrases.axis_words(list(document.axes))]
    rows = [
        (*map(phrases.value, row.values.values()), *(phrases.figure(row, name) for name in names))
        for row in phrases.rows_of(document, numbers)
    ]
    return table([*titles, *(f"{short(name)} n" for name in names)], rows)


def _expected(document: SweepDocument, numbers: Sequence[int]) -> Iterable[Markup]:
    """Between which values the main figures of measured runs are."""
    points = phrases.rows_of(document, numbers)
    if metrics := intervals.shown(points):
        rows = [(row.name, *intervals.cells(row, metrics)) for row in points]
        yield table(("point name", *(f"{short(name)} n" for name in metrics)), rows)
        yield from (
            tag("p", line, class_="soft small") for line in (*intervals.bases(points), *phrases.left_out(points))
        )


def _front(document: SweepDocument, front: ParetoFront) -> Iterable[Markup]:
    """All points by the two metrics, those of the front marked, and a table of these."""
    first, second = front.metrics
    numbers, rows = set(front.points), phrases.with_figures(document, front)
    points = [
        scatter.Point(
            x,
            y,
            int(row.point in numbers),
            f"{row.name}: {phrases.figure(row, first)}, {phrases.figure(row, second)}",
        )
        for row, x, y in sorted(rows, key=lambda known: known[0].point in numbers)
    ]
    if points:
        across, up = _axis(first, [x for _, x, _ in rows]), _axis(second, [y for *_, y in rows])
        yield scatter.legend(("other points", "on the front"))
        yield scatter.scatter(points, across, up, phrases.front_words(front), band=(), height=500)
        text = f"Across: {phrases.label(first)}. Up: {phrases.label(second)}."
        yield tag("p", text, class_="soft small")
    yield _points(document, front.points, (first, second))


def _axis(metric: str, values: list[float]) -> scatter.Axis:
    """Around the values, with round marks."""
    low, high = scales.around(values)
    known = METRICS[metric]
    named = known.dimension if known.dimension not in ("rate", "count") else ""
    return scatter.Axis(low, high, tuple(scales.marks(low, high, named, scale=known.scale if named else 1.0)))


def _everything(document: SweepDocument) -> Iterable[Markup]:
    rows = document.rows
    names = phrases.columns(document)
    titles = [f"{word} class" for word in phrases.axis_words(list(document.axes))]
    spread = intervals.shown(rows)
    shown = [
        (
            f"{row.point:,}",
            *map(phrases.value, row.values.values()),
            row.status,
            *(phrases.figure(row, name) for name in names),
            *intervals.cells(row, spread),
        )
        for row in rows[:MOST_ROWS]
    ]
    heads = [*(f"{short(name)} n" for name in names), *(f"{short(name)} expected n" for name in spread)]
    listed = table(["point n", *titles, "status class", *heads], shown)
    more = [tag("p", f"The first {MOST_ROWS:,} of {len(rows):,}.", class_="soft")] if len(rows) > MOST_ROWS else []
    yield tag("details", tag("summary", wording.plural(len(rows), "point")), *more, listed)
