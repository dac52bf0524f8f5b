"""An order of nodes as a page for a terminal."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from simulator import units
from simulator.report.text import blocks, wording
from simulator.report.text.plain import clean
from simulator.report.text.terminal import WIDTH, draw
from simulator.results.documents.order import BusiestPair, OrderDocument

_SHOWN = 64
"""Nodes that are listed."""


def page(document: OrderDocument, *, width: int = WIDTH, colour: bool = False, elapsed_s: float | None = None) -> str:
    """The page as text that ends with a newline."""
    return draw(_blocks(document, elapsed_s), width=width, colour=colour)


def _blocks(document: OrderDocument, elapsed_s: float | None) -> Iterable[RenderableType]:
    yield blocks.title(document.name, document.system)
    yield Text(clean(headline(document)), "bold")
    yield blocks.heading("Steps")
    table = blocks.headed("", "step", "links busy", "busiest pair")
    for name, step_s, busy_s, pair in (
        ("in order", document.default_step_s, document.default_busy_s, document.default_pair),
        ("as found", document.step_s, document.busy_s, document.pair),
    ):
        table.add_row(name, units.format(step_s, "time"), units.format(busy_s, "time"), _pair(pair))
    yield table
    if document.moved:
        yield blocks.heading("Order")
        yield Text(clean(order(document)))
    took = "" if elapsed_s is None else f" in {units.format(elapsed_s, 'time')}"
    looked = wording.plural(document.orders, "order")
    made = wording.plural(document.simulations, "step")
    yield Text(f"\n{looked} looked at, {made} simulated{took}. Simulated, not measured.", "dim")


def headline(document: OrderDocument) -> str:
    """What the order is worth."""
    if not document.moved:
        return "The order of the numbers: no shorter step was found"
    return f"A step is {document.default_step_s / document.step_s:.2f} times as fast as with ranks on nodes in order"


def order(document: OrderDocument) -> str:
    """The nodes, ranks after ranks, with the names that their file has."""
    names = [
        f"{node} ({document.called[place]})" if document.called else str(node)
        for place, node in enumerate(document.nodes[:_SHOWN])
    ]
    more = len(document.nodes) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _pair(pair: BusiestPair | None) -> str:
    if pair is None:
        return "-"
    return f"{pair.nodes[0]} > {pair.nodes[1]}, {units.format(pair.bandwidth, 'bandwidth')}"
