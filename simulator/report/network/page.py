"""A network as a page for a terminal."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table

from simulator import units
from simulator.report.text.blocks import grid, headed, heading, title
from simulator.report.text.plain import clean
from simulator.report.text.terminal import WIDTH, draw
from simulator.report.text.wording import plural
from simulator.results.documents.network import Bill, HotLink, NetworkDocument


def page(document: NetworkDocument, *, width: int = WIDTH, colour: bool = False) -> str:
    """What the network has, how far and wide it is, what it costs, and ways and hot links that were asked for."""
    return draw(_blocks(document), width=width, colour=colour)


def figures(document: NetworkDocument) -> Iterator[tuple[str, str]]:
    """Names and words of all figures but the bill."""
    if document.switches:
        yield "switches", ", ".join(f"{count:,} {clean(kind)}" for kind, count in document.switches.items())
    cables = {kind.removesuffix(" up"): count for kind, count in document.links.items() if not kind.endswith(" down")}
    yield "links", ", ".join(_of_kind(document, kind, count) for kind, count in cables.items()) or "none"
    wire = units.format(document.longest_way_s, "time")
    yield "longest way", f"{plural(document.longest_way, 'link')}, {wire} of wire"
    if document.injection:
        yield "nodes send", units.format(document.injection, "bandwidth")
    if document.bisection is not None:
        shown = units.format(document.bisection, "bandwidth")
        if document.nodes > 1 and document.injection and "NIC up" in document.links:
            shown += f", {_share(2 * document.bisection / document.injection)} of what half of the nodes send"
        yield "between halves", shown
    if document.oversubscription:
        ratios = (_ratio(clean(kind), ratio) for kind, ratio in document.oversubscription.items())
        yield "oversubscription", ", ".join(ratios)
    yield "routing", document.policy


def _ratio(kind: str, ratio: float) -> str:
    """What comes from below over what goes up; less where switches have room for more nodes than there are."""
    return f"{kind} {ratio:.3g}:1" + (" (not all its places are taken)" if ratio < 1 - 1e-9 else "")


def _of_kind(document: NetworkDocument, kind: str, count: int) -> str:
    """How many links of a kind there are and what one carries."""
    slow, fast = (rates.get(kind, rates.get(f"{kind} up")) for rates in (document.rates, document.fastest))
    shown = f"{count:,} {clean(kind)}"
    if slow:
        shown += f" of {units.format(slow, 'bandwidth')}"
    if slow and fast and fast > slow * (1 + 1e-9):
        shown += f" to {units.format(fast, 'bandwidth')}"
    return shown


def _share(part: float) -> str:
    """Whole percents, and of less than one two digits."""
    return f"{part:.0%}" if part >= 0.01 or not part else f"{100 * part:.2g}%"


def bill(found: Bill) -> Iterator[tuple[str, str]]:
    """Names and words of what a network is bought of."""
    yield "parts", clean(found.parts)
    boxes = ", ".join(f"{count:,} {clean(kind)}" for kind, count in found.switches.items())
    yield "boxes", f"{sum(found.switches.values()):,} ({boxes})"
    yield "transceivers", f"{found.transceivers:,}"
    yield "cards", f"{found.cards:,}"
    yield "power", units.format(found.power_w, "power")
    yield "price", units.format(found.cost_usd, "money")


def hot(links: tuple[HotLink, ...]) -> Iterator[tuple[str, ...]]:
    """Cells of a table of links."""
    for link in links:
        busy, size = units.format(link.busy_s, "time"), units.format(link.bytes, "bytes")
        yield clean(link.name), clean(link.ends), size, busy


def _blocks(document: NetworkDocument) -> Iterator[RenderableType]:
    size = f"{plural(document.nodes, 'node')}, {plural(document.devices, 'device')}"
    yield title(document.cluster, f"{size} on a network of kind {document.kind}")
    yield _table(figures(document))
    if document.bill:
        yield heading("What it is bought of")
        yield _table(bill(document.bill))
    if document.ways:
        yield heading("Way")
        for name, way in document.ways.items():
            yield _table([(name if place == 0 else "", clean(link)) for place, link in enumerate(way)])
    if document.hot:
        yield heading(f"Busiest links in {document.collective}")
        table = headed("", "", "bytes", "busy")
        for cells in hot(document.hot):
            table.add_row(*cells)
        yield table


def _table(lines: "Iterator[tuple[str, str]] | list[tuple[str, str]]") -> Table:
    table = grid("left", "left")
    table.columns[1].no_wrap = False
    for name, words in lines:
        table.add_row(name, words)
    return table
