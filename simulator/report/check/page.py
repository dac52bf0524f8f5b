"""The terminal page of a regression check: what failed in three lines each, the rest in a line each."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from simulator.report.check.phrases import STATES, lines, summary
from simulator.report.text.blocks import notes
from simulator.report.text.plain import clean
from simulator.report.text.terminal import WIDTH, draw
from simulator.results.documents.check import CheckDocument

_STYLES = {"moved": "bold red", "missing": "bold red", "gone": "bold red", "refused": "bold red"}


def page(document: CheckDocument, *, width: int = WIDTH, colour: bool = False) -> str:
    """The page of a check, as text that ends with a newline."""
    return draw(_blocks(document), width=width, colour=colour)


def _blocks(document: CheckDocument) -> Iterable[RenderableType]:
    yield Text(summary(document), "bold green" if document.passed else "bold red")
    widest = max(len(STATES[entry.state]) for entry in document.scenarios)
    for entry in sorted(document.scenarios, key=lambda entry: entry.state == "same"):
        state = STATES[entry.state]
        style = _STYLES.get(entry.state, "green" if entry.state == "same" else "yellow")
        yield Text.assemble((state.ljust(widest), style), "  ", clean(entry.file))
        for line in lines(entry):
            yield Padding(Text(line), (0, 0, 0, 4))
    yield from notes("Notes", tuple(document.notes), "yellow")
