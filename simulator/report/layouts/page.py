"""Ranked layouts as a page for a terminal; reads the document that `study.layouts.document` makes."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simulator import units
from simulator.report.layouts import phrases
from simulator.report.text import blocks, wording
from simulator.report.text.grounds import expected_memory
from simulator.report.text.terminal import WIDTH, draw
from simulator.results.documents.layouts import LayoutsDocument


def page(document: LayoutsDocument, *, width: int = WIDTH, colour: bool = False, elapsed_s: float | None = None) -> str:
    """The page as text that ends with a newline."""
    return draw(_blocks(document, elapsed_s), width=width, colour=colour)


def _blocks(document: LayoutsDocument, elapsed_s: float | None) -> Iterable[RenderableType]:
    memory = expected_memory([document.ground])
    yield blocks.title(document.name, *phrases.about(document), ground=document.ground.sentence, expected=memory)
    yield Text(phrases.headline(document), "bold" if document.feasible else "bold red")
    if document.layouts:
        yield blocks.heading("Layouts")
        yield _table(document)
        yield from (Text(line, "dim") for line in phrases.remarks(document))
    yield from blocks.notes("Why", document.why, "green")
    yield from blocks.notes(f"{document.counts.candidates:,} candidates", phrases.counted(document), "dim")
    yield from blocks.notes("Infeasible", document.infeasible, "dim")
    yield from blocks.notes("Assumptions", document.assumptions, "dim")
    yield from blocks.notes("Warnings", document.warnings, "yellow")
    took = "" if elapsed_s is None else f" in {units.format(elapsed_s, 'time')}"
    made = wording.plural(document.provenance.simulations, "simulation")
    priced = wording.plural(document.counts.priced - document.counts.ledger, "step")
    yield Text(f"\n{made}, {priced} priced{took}. Simulated, not measured.", "dim")


def _table(document: LayoutsDocument) -> Table:
    """A line of figures and below it the layout, whose name is long."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("", no_wrap=True)
    for title in phrases.titles(document):
        table.add_column(title, justify="right", no_wrap=True)
    for number, one in enumerate(document.layouts, 1):
        table.add_row(f"{number}.", *phrases.cells(document, one))
    grid = Table.grid()
    grid.add_row(table)
    names = Table.grid(padding=(0, 1, 0, 0))
    for number, one in enumerate(document.layouts, 1):
        names.add_row(f"{number}.", Text(phrases.layout(document, one)))
    grid.add_row("")
    grid.add_row(names)
    return grid
