"""What pages say of a fleet: tenants, replicas over time, failures, and requests that were turned away."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.text import Text

from simulator import units
from simulator.report.html import parts as html_parts
from simulator.report.html.markup import Markup, tag
from simulator.report.svg import curves, pictures
from simulator.report.svg.curves import Curve
from simulator.report.svg.pictures import Readout
from simulator.report.text import blocks, palette, scales, wording
from simulator.report.text.plain import clean
from simulator.results.result import Result, Service
from simulator.results.serving.fleet import DOWN, DRAINING, PHASES, REASONS, UP, FleetRecord, over_time
from simulator.results.serving.service import SECOND, by_tenant, span

LEVELS = "▁▂▃▄▅▆▇█"
WIDTH = 64
"""Stretches of the line of a page."""
BINS = 240
"""Of a chart."""
MOST_FAILURES = 40
"""Failures in the table of a report."""
STARTING = (PHASES.index("provisioning"), PHASES.index("loading"), PHASES.index("warming up"))
_COLUMNS = ("mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "p99_e2el_ms")
_TITLES = ("TTFT mean", "P99", "TPOT mean", "E2E mean", "P99")

Floats = NDArray[np.float64]


def of_tenants(service: Service) -> Iterable[RenderableType]:
    """A row for each tenant: how many of its requests came to an end, latencies, share within its objectives."""
    found = by_tenant(service)
    if not found:
        return
    table = blocks.headed("tenant", "finished", "refused", "failed", *_TITLES, "within SLO")
    for name, cells in zip(found, _rows(found), strict=True):
        table.add_row(Text(clean(name), "bold"), *cells)
    yield blocks.heading("Tenants")
    yield table


def _rows(found: dict[str, dict[str, float]]) -> Iterable[tuple[str, ...]]:
    for of in found.values():
        met = wording.percent(of["slo_attainment"]) if "slo_attainment" in of else "-"
        counts = (f"{of[name]:,.0f}" for name in ("completed", "rejected", "lost"))
        yield *counts, *(wording.figure(name, of[name]) for name in _COLUMNS), met


def of_fleet(result: Result, service: Service) -> Iterable[RenderableType]:
    """Replicas over time, and what failed, in some lines."""
    record = service.fleet
    if record is None:
        return
    lines = [*(_over_time(record, service) if record.changes else ()), *_failed(result), *_refused(service, record)]
    if lines:
        yield blocks.heading("Fleet")
        yield from lines


def _over_time(record: FleetRecord, service: Service) -> Iterable[Text]:
    begin, end = span(service)
    level = means(record, begin, end, WIDTH, (UP, DRAINING))
    top = max(float(level.max()), 1e-9)
    glyphs = "".join(
        LEVELS[min(int(value / top * len(LEVELS)), len(LEVELS) - 1)] if value > 0 else " " for value in level
    )
    _, counts = over_time(record, begin, end)
    hours = f"{units.plain(float(record.held(begin, end, len(service.replicas)).sum()) / 3600, 4)} replica-hours"
    yield Text.assemble(("replicas that take requests  ", "dim"), (glyphs, "cyan"))
    mean = f"{float(means(record, begin, end, 1, (UP, DRAINING))[0]):.3g}"
    yield Text(f"from {int(counts.min())} to {int(counts.max(initial=0))}, {mean} on average  ·  {hours}")


def _failed(result: Result) -> Iterable[Text]:
    if said := available(result):
        yield Text("  ·  ".join(said))
    if outages := result.metrics.get("link_failures", 0.0):
        yield Text(wording.plural(int(outages), "failure") + " of links")


def available(result: Result) -> tuple[str, ...]:
    """How often replicas failed, for how much of their time they were not down, and what was tried again; nothing where
    none failed."""
    metrics = result.metrics
    if not (failures := metrics.get("replica_failures", 0.0)):
        return ()
    share = wording.figure("availability", metrics["availability"])
    times = wording.plural(int(metrics["retries"]), "request") + " tried again"
    return wording.plural(int(failures), "failure"), f"replicas not down {share} of their time", times


def _refused(service: Service, record: FleetRecord) -> Iterable[Text]:
    if not len(record.reason):
        return
    counts = np.bincount(record.reason, minlength=len(REASONS)).tolist()
    told = [f"{counts[i]:,} {REASONS[i]}" for i in range(1, len(REASONS)) if counts[i]]
    if told:
        yield Text(f"turned away or failed: {', '.join(told)}", "red")


def means(record: FleetRecord, begin: int, end: int, bins: int, phases: tuple[int, ...]) -> Floats:
    """Replicas in any of these phases, the mean of each of so many equal stretches."""
    moments, counts = over_time(record, begin, end, phases)
    edges = np.linspace(begin, max(end, begin + 1), bins + 1)
    lasts = np.diff(np.append(moments, edges[-1]))
    sums = np.concatenate([[0.0], np.cumsum(counts * lasts)])
    at = np.interp(edges, np.append(moments, edges[-1]).astype(np.float64), sums)
    mean: Floats = np.diff(at) / np.diff(edges)
    return mean


# The report in HTML ---------------------------------------------------------------------------------------------------


def section(result: Result, service: Service) -> Iterable[Markup]:
    """Tenants, replicas over time, availability, failures, requests that were turned away."""
    record = service.fleet
    if record is None:
        return
    if found := by_tenant(service):
        rows = [(name, *cells) for name, cells in zip(found, _rows(found), strict=True)]
        titles = ("finished n", "refused n", "failed n", *(f"{title} n" for title in _TITLES), "within objectives n")
        yield html_parts.table(("tenant name", *titles), rows)
    if record.changes:
        yield from _chart(record, service)
    if said := available(result):
        yield tag("p", "  ·  ".join(said))
    yield from _failures(record, service)
    if len(record.reason) and (counts := np.bincount(record.reason, minlength=len(REASONS)))[1:].any():
        rows = [(REASONS[i], f"{counts[i]:,}") for i in range(1, len(REASONS)) if counts[i]]
        yield html_parts.table(("turned away or failed name", "requests n"), rows)


def _chart(record: FleetRecord, service: Service) -> Iterable[Markup]:
    begin, end = span(service)
    seconds = (end - begin) / SECOND or 1.0
    kinds: tuple[tuple[str, tuple[int, ...], int], ...] = (
        ("taking requests", (UP, DRAINING), palette.BLUE),
        ("starting", STARTING, palette.ORANGE),
        ("down", (DOWN,), palette.VERMILION),
    )
    levels = [(name, means(record, begin, end, BINS, phases), slot) for name, phases, slot in kinds]
    levels = [entry for entry in levels if entry[1].any()]
    top = 1.04 * max((float(level.max()) for _, level, _ in levels), default=1.0) or 1.0
    edge = np.linspace(0.0, 1.0, BINS + 1)
    lines = [Curve(edge, np.append(level, level[-1]) / top, slot, steps=True) for _, level, slot in levels]
    yield pictures.legend((slot, name) for name, _, slot in levels)
    drawn = curves.curves(lines, "replicas over time", readout=Readout(top))
    picture = html_parts.leveled(scales.marks(0.0, top), drawn, html_parts.ticks(0.0, seconds))
    yield html_parts.timeline("fleet", 0.0, seconds, tag("div", tag("h3", "replicas"), picture))
    width = units.format(seconds / BINS, "time")
    yield tag("p", f"Means over stretches of {width} from the first arrival.", class_="soft small")


def _failures(record: FleetRecord, service: Service) -> Iterable[Markup]:
    begin, _ = span(service)
    count = len(record.failed)
    rows = [
        (
            service.replicas[record.failed[i]].name,
            units.format((int(record.failed_at[i]) - begin) / SECOND, "time"),
            units.format((int(record.repaired_at[i]) - int(record.failed_at[i])) / SECOND, "time"),
            f"{record.lost[i]:,}",
        )
        for i in range(min(count, MOST_FAILURES))
    ]
    if rows:
        yield html_parts.table(("failed replica name", "at n", "repaired after n", "requests that it lost n"), rows)
    if count > len(rows):
        yield tag("p", f"The first {len(rows)} of {count:,} failures.", class_="soft small")
    links = [
        (
            outage.link,
            units.format((outage.start - begin) / SECOND, "time"),
            units.format((outage.end - outage.start) / SECOND, "time"),
        )
        for outage in record.outages[:MOST_FAILURES]
    ]
    if links:
        yield html_parts.table(("failed link name", "at n", "repaired after n"), links)
    if len(record.outages) > len(links):
        yield tag("p", f"The first {len(links)} of {len(record.outages):,} failures of links.", class_="soft small")
