"""Ranked layouts as one self-contained HTML file; reads the document that `study.layouts.document` makes."""

from collections.abc import Iterable

from simulator.report.html.markup import Markup, tag
from simulator.report.html.page import standalone
from simulator.report.html.parts import expected, ground, heading, notes, sections, table
from simulator.report.layouts import phrases
from simulator.report.text import wording
from simulator.report.text.grounds import expected_memory
from simulator.results.documents.layouts import LayoutsDocument


def page(document: LayoutsDocument) -> str:
    """The page as text of an HTML file."""
    return standalone(document.name, _body(document), f"clustersim {document.provenance.version}")


def _body(document: LayoutsDocument) -> Iterable[Markup]:
    lines = [tag("p", line, class_="soft") for line in phrases.about(document)]
    yield heading(
        document.name, *lines, *ground(document.ground.sentence), *expected(expected_memory([document.ground]))
    )
    said = tag("p", tag("strong", phrases.headline(document)))
    yield said if document.feasible else tag("div", said, class_="alarm")
    named: list[tuple[str, Iterable[Markup]]] = [
        ("Warnings", notes(document.warnings)),
        ("Layouts", [*_table(document), *notes(phrases.remarks(document) if document.layouts else [])]),
        ("Why", notes(document.why)),
        ("Where a step goes, in seconds", _parts(document)),
        (f"{document.counts.candidates:,} candidates", notes(phrases.counted(document))),
        ("Infeasible", notes(document.infeasible)),
        ("Assumptions", notes(document.assumptions)),
    ]
    yield tag("main", *sections(named))
    known = document.provenance
    made_of = [wording.plural(known.simulations, "simulation"), f"seed {known.seed}", f"scenario {known.scenario}"]
    yield tag("footer", tag("p", " · ".join([*made_of, "simulated, not measured"]), class_="soft small"))


def _table(document: LayoutsDocument) -> Iterable[Markup]:
    if document.layouts:
        titles = ("layout class", *(f"{title} n" for title in phrases.titles(document)))
        yield table(
            titles, [(phrases.layout(document, one), *phrases.cells(document, one)) for one in document.layouts]
        )


def _parts(document: LayoutsDocument) -> Iterable[Markup]:
    """What a step of each layout consists of."""
    names = list(dict.fromkeys(name for one in document.layouts for name, value in one.parts.items() if value))
    if names:
        titles = ("layout class", *(f"{name.replace('_', ' ')} n" for name in names))
        rows = [
            (phrases.layout(document, one), *(f"{one.parts.get(name, 0.0):.4g}" for name in names))
            for one in document.layouts
        ]
        yield table(titles, rows)
