"""A plan as a page for a terminal; reads the document that `study.plan.document` makes."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simulator import units
from simulator.report.plan import phrases
from simulator.report.plan.phrases import OBJECTIVES, Rated, figure, rate
from simulator.report.text import blocks, wording
from simulator.report.text.grounds import expected_memory, grounds
from simulator.report.text.plain import clean
from simulator.report.text.terminal import WIDTH, draw
from simulator.results.documents.plan import PlanDocument, PlannedLayout, ProbedRate

_BAR = 24
_LONGEST = 34  # characters of a name that is not broken


def page(document: PlanDocument, *, width: int = WIDTH, colour: bool = False, elapsed_s: float | None = None) -> str:
    """The page as text that ends with a newline."""
    return draw(_blocks(document, elapsed_s), width=width, colour=colour)


def _blocks(document: PlanDocument, elapsed_s: float | None) -> Iterable[RenderableType]:
    layouts = document.layouts
    wanted = f"wanted: {phrases.wanted(document)}"
    said = len(layouts) == 1 or bool(phrases.target(document))
    yield blocks.title(
        document.name,
        phrases.header_lines(document),
        wanted,
        spaced=said,
        ground=" · ".join(grounds(layouts)),
        expected=expected_memory(layout.ground for layout in layouts),
    )
    if len(layouts) == 1:
        yield Text(clean(phrases.verdict(document, layouts[0])), "bold" if document.feasible else "bold red")
    if answer := phrases.target(document):
        yield Text(answer, "bold green" if document.feasible else "bold red")
    yield from _one(document, layouts[0]) if len(layouts) == 1 else _several(document)
    if gap := phrases.without_price(document):
        yield Text(gap, "dim")
    yield from blocks.notes("Assumptions", document.assumptions, "dim")
    yield from blocks.notes("Warnings", document.warnings, "yellow")
    yield Text("")
    yield Text(clean(_footer(document, elapsed_s)), "dim")


def _one(document: PlanDocument, layout: PlannedLayout) -> Iterable[RenderableType]:
    best = layout.at_best
    if best is None:
        return
    if found := phrases.rated(layout):
        yield from _headline(found)
    where = "at that rate" if layout.rate is not None else phrases.where(best)
    yield blocks.heading(f"Objectives {where}")
    yield _objectives(document, best)
    yield from _curve(layout)


def _headline(found: Rated) -> Iterable[RenderableType]:
    layout, _, best = found
    rows = [
        (f"largest rate, {layout.unit}", phrases.largest(layout)),
        ("for each device", phrases.largest_per_device(layout)),
        ("requests within objectives", wording.percent(best.attainment)),
        ("goodput, requests", rate(best.goodput)),
        ("output tokens", f"{figure(best, 'output_throughput')}/s"),
        ("replicas busy", figure(best, "utilisation")),
    ]
    if "cost_usd_per_million_tokens" in best.metrics:
        rows.append(("per million output tokens", figure(best, "cost_usd_per_million_tokens")))
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column(style="dim", no_wrap=True)
        table.add_column(style="bold", no_wrap=True)
    half = (len(rows) + 1) // 2
    for i in range(half):
        table.add_row(*rows[i], *(rows[i + half] if i + half < len(rows) else ("", "")))
    yield Text("")
    yield table


def _objectives(document: PlanDocument, probe: ProbedRate) -> RenderableType:
    share = f"{100 * document.slo.attainment:g} %"
    table = _table(("", "at most", "met by", f"{share} of the requests are"), "lrrl")
    for name, goal in probe.objectives.items():
        good = goal.attainment >= document.slo.attainment
        limit = units.format(goal.limit_s, "time")
        far = Text(phrases.reached(goal), "" if good else "red")
        table.add_row(OBJECTIVES[name], limit, wording.percent(goal.attainment), far)
    good = probe.meets
    together = Text(wording.percent(probe.attainment), "bold" if good else "bold red")
    table.add_row(Text("all", "bold"), "", together, "")
    return table


def _curve(layout: PlannedLayout) -> Iterable[RenderableType]:
    """Goodput over rate, a row for each rate."""
    probes = layout.curve
    if len(probes) < 2:
        return
    most = max(probe.goodput for probe in probes) or 1.0
    names = [name for name in OBJECTIVES if name in probes[0].objectives]
    yield blocks.heading("Goodput over rate: requests within all objectives")
    columns = ("rate", "within", "goodput", *(f"P99 {OBJECTIVES[name]}" for name in names), "busy", "")
    table = _table(columns, "rrr" + "r" * len(names) + "rl")
    for probe in probes:
        best = probe.rate == layout.rate and layout.state == "found"
        bar = Text(wording.bar(probe.goodput / most, _BAR), "green" if probe.meets else "red")
        bar.append("  largest" if best else "  queue grows" if probe.saturated else "", "bold" if best else "dim")
        table.add_row(
            rate(probe.rate),
            wording.percent(probe.attainment),
            rate(probe.goodput),
            *(figure(probe, f"p99_{name}_ms") for name in names),
            figure(probe, "utilisation"),
            bar,
            style="bold" if best else "",
        )
    yield table
    yield Text(phrases.explained(several=False), "dim")


def _several(document: PlanDocument) -> Iterable[RenderableType]:
    """A row for each layout that has a rate, and why others have none."""
    layouts = phrases.ranked(document)
    if layouts:
        yield blocks.heading(f"Largest rate of each layout, {layouts[0].layout.unit}")
        yield _layouts(document, layouts)
        yield Text(phrases.explained(several=True), "dim")
    yield from blocks.notes("Without a rate", phrases.without(document), "dim")


def _layouts(document: PlanDocument, layouts: list[Rated]) -> RenderableType:
    table = _table(("", "devices", "rate", "per device", "limited by", "busy", "USD/Mtoken", ""), "lrrrlrrl")
    table.columns[0].no_wrap = max(len(found.layout.name) for found in layouts) <= _LONGEST
    table.columns[-1].no_wrap = False
    for found in layouts:
        layout, _, best = found
        cost = best.metrics.get("cost_usd_per_million_tokens")
        table.add_row(
            *phrases.cells(found),
            "-" if cost is None else f"{cost:#.3g}",
            phrases.remark(document, layout),
            style=_style(layout),
        )
    return table


def _style(layout: PlannedLayout) -> str:
    if layout.carries_target is False:
        return "dim"
    return "bold green" if layout.cheapest else "bold" if layout.best_per_device else ""


def _table(columns: tuple[str, ...], sides: str) -> Table:
    table = blocks.headed()
    for name, side in zip(columns, sides, strict=True):
        table.add_column(name, justify="left" if side == "l" else "right", no_wrap=True)
    return table


def _footer(document: PlanDocument, elapsed_s: float | None) -> str:
    known = document.provenance
    took = f" in {units.format(elapsed_s, 'time')}" if elapsed_s is not None else ""
    tolerance = f"largest rates to {100 * document.tolerance:g} %"
    runs = wording.plural(known.simulations, "simulation")
    return f"{runs}{took} · {tolerance} · clustersim {known.version} · scenario {known.scenario}"
