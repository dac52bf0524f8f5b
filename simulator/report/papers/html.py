"""Published systems as one self-contained HTML file with tables that sort."""

from collections.abc import Iterable, Sequence

from simulator.report.html.markup import Markup, tag
from simulator.report.html.page import standalone
from simulator.report.html.parts import heading, notes, sections, table
from simulator.report.papers import phrases
from simulator.report.papers.markdown import verdict
from simulator.report.svg import scatter
from simulator.report.text import scales
from simulator.results.documents.papers import (
    DIRECTION,
    GIVEN,
    HOLDS,
    MISSED,
    OF_SYSTEMS,
    REPRODUCED,
    PaperEntry,
    PapersDocument,
    PublishedFigure,
)

_EDGE = 1.0  # errors beyond are drawn at the end of the histogram
_BINS = 40


def page(document: PapersDocument) -> str:
    """The page as text of an HTML file."""
    title = "Published systems and simulation"
    lead = [tag("p", text, class_="soft") for text in (phrases.systems(document), phrases.all_figures(document))]
    body = (heading(title, *lead, *_tiles(document)), tag("main", *_sections(document)), _footer(document))
    return standalone(title, body, "clustersim papers")


def _tiles(document: PapersDocument) -> Iterable[Markup]:
    found = document.totals.systems
    tiles = [(f"systems: {name}", str(found.get(name, 0))) for name in (REPRODUCED, HOLDS, DIRECTION, MISSED)]
    yield tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in tiles), class_="tiles")


def _footer(document: PapersDocument) -> Markup:
    text = f"clustersim {document.version}. The error is of the figure: simulated over published, less 1."
    return tag("footer", tag("p", text, class_="soft small"))


def _sections(document: PapersDocument) -> Iterable[Markup]:
    figures = [one for paper in document.papers for one in paper.figures]
    yield from sections(
        (
            ("Distribution of the errors", _distribution(figures)),
            ("Systems by mechanism", _mechanisms(document)),
            ("Systems", _systems(document)),
            *((one.title, _paper(one)) for one in document.papers),
        )
    )


def _distribution(figures: Sequence[PublishedFigure]) -> Iterable[Markup]:
    errors = [one.error for one in figures if one.error is not None and one.verdict != GIVEN]
    if not errors:
        return
    ticks = ("-100 % or less", "-50 %", "0", "+50 %", "+100 % or more")
    axis = scatter.Axis(-_EDGE, _EDGE, tuple(scales.words(*ticks)))
    yield scatter.histogram(((0, errors),), axis, _BINS, "how many figures have which error")


def _mechanisms(document: PapersDocument) -> Iterable[Markup]:
    rows = [
        (name, *(str(found.get(head) or "") for head in OF_SYSTEMS))
        for name, found in sorted(document.totals.by_mechanism.items())
    ]
    yield table(("mechanism name", *(f"{head} n" for head in OF_SYSTEMS)), rows)


def _systems(document: PapersDocument) -> Iterable[Markup]:
    rows = [
        (one.title, one.mechanism, verdict(one), ", ".join(one.papers) or one.why)
        for one in sorted(document.systems, key=lambda one: (one.mechanism, one.name))
    ]
    yield table(("system name", "mechanism source", "verdict source", "figures under, or why none source"), rows)


def _paper(entry: PaperEntry) -> Iterable[Markup]:
    rows = [
        (
            f"{one.claim} ({one.source})",
            phrases.published(one),
            phrases.shown(one.ours, one.unit),
            phrases.error(one),
            one.verdict,
            phrases.reason(one),
        )
        for one in entry.figures
    ]
    yield table(("claim name", "published n", "ours n", "error n", "verdict source", "reason source"), rows)
    if entry.left_out:
        yield tag("p", "Not reproduced:")
        yield from notes([f"{one.claim}: {one.why}" for one in entry.left_out])
