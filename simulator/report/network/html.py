"""A network as one self-contained HTML file: picture, figures, bill, busiest links."""

from collections.abc import Iterable

from simulator.report.html import parts
from simulator.report.html.markup import Markup, tag
from simulator.report.html.page import standalone
from simulator.report.network.page import bill, figures, hot
from simulator.report.svg.fabric import svg
from simulator.results.documents.network import NetworkDocument


def page(document: NetworkDocument) -> str:
    """The text of an HTML file."""
    return standalone(f"Network of {document.cluster}", _body(document), "clustersim")


def _body(document: NetworkDocument) -> Iterable[Markup]:
    yield tag("header", tag("h1", document.cluster), tag("p", f"Network of kind {document.kind}", class_="soft"))
    found: list[tuple[str, Iterable[Markup]]] = []
    if document.points:
        found.append(("Picture", [svg(document)]))
    found.append(("Figures", [_table(figures(document))]))
    if document.bill:
        found.append(("What it is bought of", [_table(bill(document.bill))]))
    for name, way in document.ways.items():
        found.append((f"Way of {name}", [_table((str(place), link) for place, link in enumerate(way, 1))]))
    if document.hot:
        heads = ("link name", "joins", "bytes n", "busy n")
        found.append((f"Busiest links in {document.collective}", [parts.table(heads, list(hot(document.hot)))]))
    yield tag("main", *parts.sections(found))


def _table(lines: Iterable[tuple[str, ...]]) -> Markup:
    return tag("table", tag("tbody", *(tag("tr", *(tag("td", cell) for cell in line)) for line in lines)))
