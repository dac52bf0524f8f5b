"""Published systems as a page for a terminal; reads the document that `study.papers.reproduce` makes."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simulator.report.papers import phrases
from simulator.report.text import blocks
from simulator.report.text.plain import clean
from simulator.report.text.terminal import WIDTH, draw
from simulator.results.documents.papers import (
    DIRECTION,
    HOLDS,
    MISSED,
    OF_SYSTEMS,
    REPRODUCED,
    PaperEntry,
    PapersDocument,
)

_COLOURS = {REPRODUCED: "green", HOLDS: "green", DIRECTION: "yellow", MISSED: "red"}
FEW = 3
"""Papers up to which every figure is listed; the whole list is a page of the documentation."""


def page(document: PapersDocument, *, width: int = WIDTH, colour: bool = False) -> str:
    """The page as text that ends with a newline."""
    return draw(_blocks(document), width=width, colour=colour)


def _blocks(document: PapersDocument) -> Iterable[RenderableType]:
    yield blocks.title("Published systems", phrases.systems(document), phrases.all_figures(document), spaced=False)
    if len(document.papers) <= FEW:
        for one in document.papers:
            yield from _paper(one)
    else:
        yield blocks.heading("Systems by mechanism")
        yield _mechanisms(document)
        yield blocks.heading("Figures by paper")
        yield _papers(document)
        yield Text("\nEvery figure: name papers, or --html FILE", "dim")
    lines = [f"{one.title}: {one.why}" for one in document.systems if one.why]
    yield from blocks.notes("No scenario, or no figure that counts", lines, "dim")


def _mechanisms(document: PapersDocument) -> RenderableType:
    table = blocks.headed("", *OF_SYSTEMS)
    for name, found in sorted(document.totals.by_mechanism.items()):
        cells = (str(found.get(head) or "") for head in OF_SYSTEMS)
        table.add_row(clean(name), *cells)
    return table


def _papers(document: PapersDocument) -> RenderableType:
    table = blocks.headed("", REPRODUCED, HOLDS, DIRECTION, MISSED)
    for one in document.papers:
        cells = (sum(each.verdict == head for each in one.figures) for head in (REPRODUCED, HOLDS, DIRECTION, MISSED))
        table.add_row(clean(one.name), *(str(cell or "") for cell in cells))
    return table


def _paper(entry: PaperEntry) -> Iterable[RenderableType]:
    yield blocks.heading(clean(entry.title))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("claim", ratio=1)
    for word in ("published", "ours", "error"):
        table.add_column(word, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for one in entry.figures:
        table.add_row(
            Text(clean(f"{one.claim} ({one.source})")),
            phrases.published(one),
            phrases.shown(one.ours, one.unit),
            phrases.error(one),
            Text(one.verdict, _COLOURS.get(one.verdict, "dim")),
        )
    yield table
    reasons = [f"{one.claim}: {text}" for one in entry.figures if (text := phrases.reason(one))]
    yield from blocks.notes("Why", reasons, "dim")
    yield from blocks.notes("Not reproduced", [f"{one.claim}: {one.why}" for one in entry.left_out], "dim")
