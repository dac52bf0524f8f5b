"""What terminal pages are made of: title, headings, tables without lines, lists of sentences."""

from collections.abc import Iterable, Sequence

from rich.console import JustifyMethod, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from simulator.report.text import wording
from simulator.report.text.plain import clean


def heading(text: str) -> RenderableType:
    """A section's title over a thin line."""
    return Text.assemble("\n", (text, "bold"))


def grid(*columns: JustifyMethod) -> Table:
    """A table without lines whose columns do not wrap."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in columns:
        table.add_column(justify=justify, no_wrap=True)
    return table


def headed(*words: str) -> Table:
    """A table without lines but with heads: columns of figures under `words`, of names where a word is empty."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for word in words:
        table.add_column(word, justify="right" if word else "left", no_wrap=True)
    return table


def title(name: str, *lines: str, spaced: bool = True, ground: str = "", expected: str = "") -> RenderableType:
    """A name over a line, and under it what was simulated, what that stands on (`ground`, a sentence) and between which
    values measured figures are expected (`expected`).

    `spaced` off where a heading follows, which has a space.
    """
    table = Table.grid(expand=True)
    table.add_column(ratio=1)
    table.add_row(Text(clean(name), "bold cyan"))
    table.add_row(Rule(style="dim"))
    for line in filter(None, lines):
        table.add_row(Text(clean(line), "dim"))
    if ground:
        table.add_row(Text(clean(f"Ground: {ground}"), "yellow" if wording.estimated(ground) else "dim"))
    if expected:
        table.add_row(Text(clean(f"Expected: {expected}"), "dim"))
    if spaced and any(lines):
        table.add_row("")
    return table


def notes(name: str, lines: Sequence[str], style: str) -> Iterable[RenderableType]:
    """A list of sentences under a heading, or nothing."""
    if not lines:
        return
    table = Table.grid(padding=(0, 1, 0, 0))
    for line in lines:
        table.add_row(Text("·", style), Text(clean(line), style if style != "dim" else ""))
    yield heading(clean(name))
    yield table
