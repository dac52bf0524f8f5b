"""A frontier as a page for a terminal; reads the document that `study.frontier.document` makes."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simulator import units
from simulator.report.frontier import phrases
from simulator.report.frontier.phrases import ACROSS, UP
from simulator.report.plan.phrases import promised
from simulator.report.text import blocks, scales, wording
from simulator.report.text.plain import clean
from simulator.report.text.terminal import WIDTH, draw
from simulator.results.documents.frontier import FrontierDocument

_COLUMNS = ("tokens/s\n/user", "tokens/s\n/device", "requests\n/s", "P99\nTTFT", "within")
_HEIGHT = 15
_MARGIN = 9
_SIGNS = {"meets": "·", "misses": "x", "grows": "x"}


def page(
    document: FrontierDocument, *, width: int = WIDTH, colour: bool = False, elapsed_s: float | None = None
) -> str:
    """The page as text that ends with a newline."""
    return draw(_blocks(document, width, elapsed_s), width=width, colour=colour)


def _blocks(document: FrontierDocument, width: int, elapsed_s: float | None) -> Iterable[RenderableType]:
    system = document.system
    about = f"{system.model} on {document.devices} x {system.device}, {system.stack}"
    yield blocks.title(document.name, about, f"wanted: {promised(document.slo)}", ground=document.ground.sentence)
    yield Text(phrases.headline(document), "bold" if document.feasible else "bold red")
    yield from blocks.notes("Why", document.why, "green")
    yield blocks.heading(f"{UP} over {ACROSS}: o the front, · others within the objectives, x misses")
    yield from _picture(document, min(width, 110))
    yield from _table(document)
    yield from blocks.notes("Candidates", [f"{document.counts.candidates:,} in all", *_counted(document)], "dim")
    yield from blocks.notes("Assumptions", document.assumptions, "dim")
    yield from blocks.notes("Warnings", document.warnings, "yellow")
    took = "" if elapsed_s is None else f" in {units.format(elapsed_s, 'time')}"
    made = wording.plural(document.provenance.simulations, "simulation")
    yield Text(f"\n{made}{took}, seed {document.provenance.seed}. Simulated, not measured.", "dim")


def _counted(document: FrontierDocument) -> list[str]:
    return [*phrases.counted(document), *filter(None, [phrases.doubt(document)])]


def _table(document: FrontierDocument) -> Iterable[RenderableType]:
    """A line of figures and below it the system, whose name may be long."""
    shown = phrases.listed(document)
    if not shown:
        return
    yield blocks.heading("The front")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for title in _COLUMNS:
        table.add_column(title, justify="right", no_wrap=True, min_width=max(map(len, title.splitlines())))
    table.add_column("", overflow="fold")
    for point in shown:
        name, *figures, remark = phrases.cells(document, point)
        table.add_row(*figures, Text(clean(name) + (f" ({remark})" if remark else "")))
    yield table


def _picture(document: FrontierDocument, width: int) -> Iterable[RenderableType]:
    """The points on a grid of letters."""
    points = phrases.drawable(document.points)
    if not points:
        return
    across = 1.02 * max(one.tokens_per_s_per_user for one in points)
    up = 1.02 * max(one.tokens_per_s_per_device for one in points)
    columns = width - _MARGIN - 8
    grid = [[" "] * columns for _ in range(_HEIGHT)]
    for sign in ("x", "·", "o"):
        for one in points:
            own = "o" if one.on_front else _SIGNS.get(one.state, "x")
            if own == sign:
                row = _HEIGHT - 1 - int(one.tokens_per_s_per_device / up * _HEIGHT)
                grid[row][int(one.tokens_per_s_per_user / across * columns)] = sign
    marks = {_HEIGHT - 1 - min(int(m.share * _HEIGHT), _HEIGHT - 1): m.text for m in scales.marks(0.0, up)}
    for row, letters in enumerate(grid):
        yield Text(f"{marks.get(row, ''):>{_MARGIN - 1}} |{''.join(letters).rstrip()}")
    yield Text(" " * _MARGIN + "+" + "-" * columns)
    below = [" "] * (columns + _MARGIN + 12)
    for mark in scales.marks(0.0, across):
        at = _MARGIN + 1 + int(mark.share * columns)
        below[at : at + len(mark.text)] = mark.text
    yield Text("".join(below).rstrip()[: width - 2])
