"""The terminal page of a comparison: a column a run, the best marked, and the differences in words."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simulator.report import wording
from simulator.report.page import WIDTH, draw
from simulator.report.plain import clean
from simulator.report.sections import grid, heading, notes
from simulator.results.metrics import METRICS


def page(document: Mapping[str, Any], *, width: int = WIDTH, colour: bool = False) -> str:
    """The page of the JSON form of a comparison, as text that ends with a newline."""
    return draw(_blocks(document), width=width, colour=colour)


def _blocks(document: Mapping[str, Any]) -> Iterable[RenderableType]:
    names = document["names"]
    yield Text(f"{len(names)} runs side by side; * marks the best", "bold cyan")
    table = grid("left")
    for _ in names:
        table.add_column(justify="right", no_wrap=True)
    table.add_row("", *(Text(clean(name), "bold") for name in names))
    for metric, row in document["metrics"].items():
        table.add_row(METRICS[metric].label, *_values(metric, row, names))
    yield table
    if document["differences"]:
        yield heading("Held against the first")
        for difference in document["differences"]:
            yield Text("- " + clean(difference["sentence"]))
    yield from notes("Notes", tuple(document["notes"]), "yellow")


def _values(metric: str, row: Mapping[str, Any], names: list[str]) -> Iterable[Text]:
    for name, value in zip(names, row["values"], strict=True):
        shown = "-" if value is None else wording.figure(metric, value)
        yield Text(f"{shown} *", "bold green") if name == row["best"] else Text(f"{shown}  ")
