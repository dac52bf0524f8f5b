"""A plan as one self-contained HTML file; reads the document that `study.plan.document` makes."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from simulator import units
from simulator.report.html.markup import Markup, tag
from simulator.report.html.page import standalone
from simulator.report.html.parts import across, expected, graph, ground, heading, leveled, notes, sections, table
from simulator.report.plan import phrases
from simulator.report.plan.phrases import OBJECTIVES, Rated, figure, rate
from simulator.report.svg import curves, pictures
from simulator.report.svg.curves import Curve
from simulator.report.text import palette, scales, wording
from simulator.report.text.grounds import expected_memory, grounds
from simulator.results.documents.plan import PlanDocument, PlannedLayout, ProbedRate

_HEIGHT = 260.0
_ROOM = 1.04  # of the highest value, so that it does not touch the edge


def page(document: PlanDocument) -> str:
    """The page as text of an HTML file."""
    generator = f"clustersim {document.provenance.version}"
    return standalone(document.name, _body(document), generator)


def drawn(document: PlanDocument) -> list[Rated]:
    """Layouts whose curves are drawn: those with a largest rate, the best for each device first, as many as colours."""
    return [found for found in phrases.ranked(document) if len(found.layout.curve) > 1][: len(palette.DISTINCT)]


def _body(document: PlanDocument) -> Iterable[Markup]:
    yield from _title(document)
    yield tag("main", *_sections(document))
    known = document.provenance
    made_of = [
        wording.plural(known.simulations, "simulation"),
        f"largest rates to {100 * document.tolerance:g} %",
        f"seed {known.seed}",
        f"scenario {known.scenario}",
        "simulated, not measured",
    ]
    yield tag("footer", tag("p", " · ".join(made_of), class_="soft small"))


def _title(document: PlanDocument) -> Iterable[Markup]:
    layouts = document.layouts
    subject = tag("p", phrases.header_lines(document), class_="soft")
    memory = expected_memory(layout.ground for layout in layouts)
    stands = [*ground(*grounds(layouts)), *expected(memory)]
    wanted = tag("p", f"Wanted: {phrases.wanted(document)}.")
    gap = phrases.without_price(document)
    yield heading(document.name, subject, *stands, wanted, *([tag("p", gap, class_="soft")] if gap else []))
    said = [phrases.target(document)] if document.target_rate is not None else []
    said += [phrases.verdict(document, layouts[0])] if len(layouts) == 1 else []
    if document.feasible:
        yield from (tag("p", tag("strong", text)) for text in said)
    else:
        text = " ".join(said) or "No layout meets the objectives."
        yield tag("div", tag("p", tag("strong", text)), class_="alarm")
    if len(layouts) == 1 and (found := phrases.rated(layouts[0])):
        tiles = (tag("div", tag("dt", name), tag("dd", value)) for name, value in _tiles(found))
        yield tag("dl", *tiles, class_="tiles")


def _tiles(found: Rated) -> Iterable[tuple[str, str]]:
    layout, _, best = found
    yield f"largest rate, {layout.unit}", phrases.largest(layout)
    yield "for each device", phrases.largest_per_device(layout)
    yield "within objectives", wording.percent(best.attainment)
    yield "goodput, requests", rate(best.goodput)
    yield "output tokens", f"{figure(best, 'output_throughput')}/s"
    yield "replicas busy", figure(best, "utilisation")
    if "cost_usd_per_million_tokens" in best.metrics:
        yield "per million output tokens", figure(best, "cost_usd_per_million_tokens")
    if "energy_j_per_million_tokens" in best.metrics:
        yield "energy per million output tokens", figure(best, "energy_j_per_million_tokens")


def _sections(document: PlanDocument) -> Iterable[Markup]:
    layouts = document.layouts
    one = layouts[0] if len(layouts) == 1 else None
    named: list[tuple[str, Iterable[Markup]]] = [("Warnings", notes(document.warnings))]
    if one is None:
        named.append(("Layouts", _layouts(document)))
    elif one.at_best is not None:
        where = "at that rate" if one.rate is not None else phrases.where(one.at_best)
        named.append((f"Objectives {where}", _objectives(document, one.at_best)))
    named += [
        ("Goodput over rate", _goodput(document)),
        ("Share of requests within all objectives", _attainment(document)),
        ("Rates tried", _rates(document)),
        ("Assumptions", notes(document.assumptions)),
    ]
    yield from sections(named)


def _objectives(document: PlanDocument, probe: ProbedRate) -> Iterable[Markup]:
    share = f"{100 * document.slo.attainment:g} %"
    rows = [
        (
            OBJECTIVES[name],
            units.format(goal.limit_s, "time"),
            wording.percent(goal.attainment),
            phrases.reached(goal),
            pictures.stacked([(goal.attainment, palette.BLUE, name)], OBJECTIVES[name]),
        )
        for name, goal in probe.objectives.items()
    ]
    bar = pictures.stacked([(probe.attainment, palette.GREEN if probe.meets else palette.VERMILION, "all")], "all")
    rows.append(("all", "", wording.percent(probe.attainment), "", bar))
    titles = ("objective name", "at most n", "met by n", f"{share} of them source", "of all requests bar")
    yield table(titles, rows)


def _layouts(document: PlanDocument) -> Iterable[Markup]:
    layouts = phrases.ranked(document)
    most = max((found.per_device for found in layouts), default=1.0)
    rows = []
    for found in layouts:
        layout, _, best = found
        slot = palette.GREEN if phrases.marks(layout) else palette.BLUE
        price = "-" if layout.usd_per_hour is None else f"{layout.usd_per_hour:.2f}"
        label = f"{layout.name}: {phrases.largest_per_device(layout)} a device"
        rows.append(
            (
                *phrases.cells(found),
                figure(best, "cost_usd_per_million_tokens"),
                price,
                phrases.remark(document, layout),
                pictures.stacked([(found.per_device / most, slot, layout.name)], label),
            )
        )
    if rows:
        yield table(
            (
                "layout class",
                "devices n",
                "largest rate n",
                "rate per device n",
                "limited by name",
                "replicas busy n",
                "per Mtoken n",
                "USD/h n",
                "remark class",
                "rate for each device bar",
            ),
            rows,
        )
        yield tag("p", phrases.explained(several=True), class_="soft small")
    if rest := phrases.without(document):
        yield tag("h3", "Without a rate")
        yield from notes(rest)


def _goodput(document: PlanDocument) -> Iterable[Markup]:
    """Requests per second within all objectives, over the rate of arrivals."""
    yield from _curves(document, "goodput", lambda probe: probe.goodput, None)


def _attainment(document: PlanDocument) -> Iterable[Markup]:
    yield from _curves(document, "attainment", lambda probe: probe.attainment, 1.0)


def _curves(
    document: PlanDocument, what: str, value: Callable[[ProbedRate], float], top: float | None
) -> Iterable[Markup]:
    layouts = drawn(document)
    if not layouts:
        return
    probes = [probe for found in layouts for probe in found.layout.curve]
    end = max(probe.rate for probe in probes)
    high = top or _ROOM * max(map(value, probes)) or 1.0
    lines = [
        _line(found.layout, slot, value, end, high) for found, slot in zip(layouts, palette.DISTINCT, strict=False)
    ]
    goals = [layouts[0].rate / end] if len(layouts) == 1 else []
    if what == "attainment":
        wanted = np.full(2, document.slo.attainment)
        lines.append(Curve(np.array([0.0, 1.0]), wanted, palette.GREY, name="wanted"))
    if len(layouts) > 1:
        yield pictures.legend(
            [(slot, found.layout.name) for found, slot in zip(layouts, palette.DISTINCT, strict=False)]
        )
    upward = scales.marks(0.0, 1.0, "fraction") if top else scales.marks(0.0, high, word="/s")
    readout = pictures.Readout(100.0, "%") if top else pictures.Readout(high, "/s")
    picture = curves.curves(lines, f"{what} over rate", goals, height=_HEIGHT, readout=readout)
    yield graph(end, leveled(upward, picture, across(scales.marks(0.0, end, word="/s"))), unit="/s")
    dashed = " Dashed: the largest rate." if goals else ""
    grey = " Grey: the share that is wanted." if what == "attainment" else ""
    yield tag("p", f"Across: {layouts[0].layout.unit} that arrive.{dashed}{grey}", class_="soft small")


def _line(layout: PlannedLayout, slot: int, value: Callable[[ProbedRate], float], end: float, high: float) -> Curve:
    x = np.array([probe.rate for probe in layout.curve])
    y = np.array([float(value(probe)) for probe in layout.curve])
    return Curve(x / end, y / high, slot, name=layout.name)


def _rates(document: PlanDocument) -> Iterable[Markup]:
    """A table of all rates for each layout; of several behind their names."""
    for layout in document.layouts:
        if layout.curve:
            listed = _table_of_rates(layout.curve, layout.rate)
            several = len(document.layouts) > 1
            yield tag("details", tag("summary", layout.name), listed) if several else listed
    if any(layout.curve for layout in document.layouts):
        yield tag("p", phrases.explained(several=False), class_="soft small")


def _table_of_rates(probes: Sequence[ProbedRate], largest: float | None) -> Markup:
    names = [name for name in OBJECTIVES if name in probes[0].objectives]
    percentiles = [f"{p} {OBJECTIVES[name]} n" for name in names for p in ("median", "P99")]
    rows = [
        (
            rate(probe.rate),
            wording.percent(probe.attainment),
            rate(probe.goodput),
            f"{figure(probe, 'output_throughput')}/s",
            *(figure(probe, f"{p}_{name}_ms") for name in names for p in ("median", "p99")),
            figure(probe, "utilisation"),
            figure(probe, "cost_usd_per_million_tokens"),
            "largest" if probe.rate == largest else "the queue grows" if probe.saturated else "",
        )
        for probe in probes
    ]
    first = ("rate n", "within all objectives n", "goodput n", "output tokens n")
    return table((*first, *percentiles, "replicas busy n", "per Mtoken n", "remark class"), rows)
