"""A sweep as one self-contained HTML file; reads the document that `study.table` makes."""

from collections.abc import Iterable
from typing import Any

from simulator.report import html, palette, scatter, sweep_words, wording
from simulator.report.html_parts import notes, table
from simulator.report.markup import Markup, tag
from simulator.report.svg_graph import round_end, shares

MOST_ROWS = 2_000
"""Points that the table of all of them shows."""
_CELL = (110, 44)  # width and height of a cell of the heat map
_MARGIN = (150, 30)  # left of it and above it, for the values of the axes
_LEAST = 0.12  # opacity of the least figure


def page(document: dict[str, Any]) -> str:
    """The page as text of an HTML file."""
    return html.standalone(document["name"], _body(document), f"clustersim {document['provenance']['version']}")


def heat_map(document: dict[str, Any]) -> Markup:
    """The heat map as SVG: a rectangle a cell, the deeper its colour the larger the figure."""
    told = document["heat"]
    (wide, high), (left, top) = _CELL, _MARGIN
    drawn = [_word(sweep_words.value(v), left + wide * (i + 0.5), top - 10) for i, v in enumerate(told["x_values"])]
    for row, (value, cells) in enumerate(zip(told["y_values"], told["cells"], strict=True)):
        y = top + high * row
        drawn.append(_word(sweep_words.value(value), left - 10, y + high / 2 + 4, "end"))
        for column, (cell, shade) in enumerate(zip(cells, sweep_words.shades(document)[row], strict=True)):
            x = left + wide * column
            drawn += _cell(told["metric"], cell, shade, x, y)
    across, down = left + wide * len(told["x_values"]), top + high * len(told["y_values"])
    return tag(
        "svg", tag("title", sweep_words.heat_words(document)), *drawn, viewBox=f"0 0 {across} {down}", role="img",
        height=down, preserveAspectRatio="xMinYMid meet",
    )  # fmt: skip


def _cell(metric: str, figure: float | None, shade: float | None, x: float, y: float) -> Iterable[Markup]:
    wide, high = _CELL
    if figure is None or shade is None:
        yield _word("·", x + wide / 2, y + high / 2 + 4)
        return
    opacity = f"{_LEAST + (0.75 - _LEAST) * shade:.2f}"
    size = {"x": x + 1, "y": y + 1, "width": wide - 2, "height": high - 2}
    yield tag("rect", **size, class_=f"c{palette.BLUE}", fill_opacity=opacity)
    yield _word(wording.figure(metric, figure), x + wide / 2, y + high / 2 + 4)


def _word(text: str, x: float, y: float, anchor: str = "middle") -> Markup:
    return tag("text", text, x=f"{x:g}", y=f"{y:g}", text_anchor=anchor, font_size=13, fill="currentColor")


def _body(document: dict[str, Any]) -> Iterable[Markup]:
    yield tag(
        "header",
        tag("h1", document["name"]),
        tag("p", sweep_words.subject(document), class_="soft"),
        *([tag("p", f"Where {' and '.join(document['where'])}.", class_="soft")] if document["where"] else []),
        tag("p", f"{sweep_words.counted(document)}."),
        tag("button", "light / dark", type="button", id="theme", aria_label="switch between light and dark"),
    )
    yield tag("main", *_sections(document))
    facts = f"clustersim {document['provenance']['version']} · seed {document['provenance']['seed']}"
    yield tag("footer", tag("p", f"{facts} · simulated, not measured", class_="soft small"))


def _sections(document: dict[str, Any]) -> Iterable[Markup]:
    best = document["best"]
    if best and best["points"]:
        yield tag("section", tag("h2", f"Best points by {sweep_words.label(best['metric'])}"),
                  _points(document, best["points"][:20], (best["metric"],)))  # fmt: skip
    if document["pareto"]:
        yield tag("section", tag("h2", f"Pareto front: {sweep_words.front_words(document)}"), *_front(document))
    if document["heat"]:
        yield tag("section", tag("h2", sweep_words.heat_words(document)), tag("div", heat_map(document), class_="wide"))
    for status in sweep_words.STATUSES:
        if said := list(sweep_words.reasons(document, status, most=20)):
            yield tag("section", tag("h2", status.capitalize()), *notes(said))
    yield tag("section", tag("h2", "All points"), *_everything(document))


def _points(document: dict[str, Any], numbers: list[int], first: tuple[str, ...]) -> Markup:
    names = sweep_words.columns(document, first)
    heads = [f"{word} class" for word in sweep_words.axis_words(list(document["axes"]))]
    rows = [
        (*map(sweep_words.value, row["values"].values()), *(sweep_words.figure(row, name) for name in names))
        for row in sweep_words.rows_of(document, numbers)
    ]
    return table([*heads, *(f"{sweep_words.short(name)} n" for name in names)], rows)


def _front(document: dict[str, Any]) -> Iterable[Markup]:
    """All points by the two metrics, those of the front marked, and a table of these."""
    first, second = document["pareto"]["metrics"]
    numbers = set(document["pareto"]["points"])
    rows = [
        row for row in document["rows"]
        if row["status"] == "ok" and None not in (row["metrics"].get(first), row["metrics"].get(second))
    ]  # fmt: skip
    points = [
        scatter.Point(row["metrics"][first], row["metrics"][second], int(row["point"] in numbers),
                      f"{row['name']}: {sweep_words.figure(row, first)}, {sweep_words.figure(row, second)}")
        for row in sorted(rows, key=lambda row: row["point"] in numbers)
    ]  # fmt: skip
    if points:
        across, up = (_axis(name, [row["metrics"][name] for row in rows]) for name in (first, second))
        yield scatter.legend(("other points", "on the front"))
        yield scatter.scatter(points, across, up, sweep_words.front_words(document), band=(), height=500)
        text = f"Across: {sweep_words.label(first)}. Up: {sweep_words.label(second)}."
        yield tag("p", text, class_="soft small")
    yield _points(document, document["pareto"]["points"], (first, second))


def _axis(metric: str, values: list[float]) -> scatter.Axis:
    """From zero to a round end."""
    end = round_end(max(values))
    return scatter.Axis(0.0, end, tuple(wording.figure(metric, end * share) for share in shares()))


def _everything(document: dict[str, Any]) -> Iterable[Markup]:
    rows = document["rows"]
    names = sweep_words.columns(document)
    heads = [f"{word} class" for word in sweep_words.axis_words(list(document["axes"]))]
    shown = [
        (f"{row['point']:,}", *map(sweep_words.value, row["values"].values()), row["status"],
         *(sweep_words.figure(row, name) for name in names))
        for row in rows[:MOST_ROWS]
    ]  # fmt: skip
    listed = table(["point n", *heads, "status class", *(f"{sweep_words.short(name)} n" for name in names)], shown)
    more = [tag("p", f"The first {MOST_ROWS:,} of {len(rows):,}.", class_="soft")] if len(rows) > MOST_ROWS else []
    yield tag("details", tag("summary", wording.plural(len(rows), "point")), *more, listed)
