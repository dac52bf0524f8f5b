"""The HTML report of a serving run: its title and its sections."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.metrics import METRICS
from simulator.report.html import parts as html_parts
from simulator.report.html.markup import Markup, joined, tag
from simulator.report.serving import contents, fleet, models
from simulator.report.serving.contents import LATENCIES, WORDS, Cdf, Goals, goals, header_lines
from simulator.report.step import html_sections
from simulator.report.svg import curves, pictures
from simulator.report.svg.curves import Curve
from simulator.report.svg.pictures import Readout
from simulator.report.text import palette, scales, wording
from simulator.report.text.plain import clean
from simulator.report.text.scales import Mark
from simulator.results.infeasibility import nothing_served, remarks
from simulator.results.result import Result, Service
from simulator.results.serving.request_time import mean_request_time
from simulator.results.serving.service import attainment, by_priority, latencies, tier_hits
from simulator.results.summary import ordered_metrics

SLOTS = {
    "earlier": palette.GREY,
    "queue": palette.VERMILION,
    "prefill": palette.ORANGE,
    "handover": palette.SKY,
    "preempted": palette.YELLOW,
    "stalled": palette.PURPLE,
    "peers": palette.GREEN,
    "decode": palette.BLUE,
}
"""Colours of the parts of a request's time."""
BINS = 240
"""Stretches of a chart over time."""
MOST_REQUESTS = 200
"""Requests of the chart of lives."""
MOST_POINTS = 2000
"""Points of a curve or a scatter."""
MOST_REPLICAS = 32
"""Replicas in the table."""
_ROOM = 1.04  # of the highest level, so that it does not touch the edge
_ROW = 3.0  # pixels of a request in the chart of lives
_PARTS = (palette.BLUE, palette.ORANGE, palette.GREEN, palette.SKY, palette.PURPLE, palette.YELLOW, palette.VERMILION)
_TILES = (
    "output_throughput",
    "output_throughput_per_device",
    "request_throughput",
    "request_goodput",
    "slo_attainment",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_itl_ms",
    "mean_e2el_ms",
    "utilisation",
    "mean_batch",
    "max_kv_usage",
    "preemptions",
    "energy_j_per_million_tokens",
    "cost_usd_per_million_tokens",
)
_STATISTICS = ("mean", "median", "p90", "p95", "p99", "std")

Floats = NDArray[np.float64]


def title(result: Result) -> Markup:
    """Name, subject, the switch between light and dark, headline figures."""
    about = tag("p", clean(" · ".join(header_lines(result))), class_="soft")
    head = html_parts.heading(result.name, *html_sections.changed(result), about, *html_parts.stands(result))
    shown = [name for name in _TILES if name in result.metrics]
    cards = (
        []
        if nothing_served(result)
        else [html_sections.tiles(result, shown), *html_sections.remarks_on_figures(result)]
    )
    return joined(head, *html_sections.alarm(result), *cards)


def sections(result: Result) -> Iterable[tuple[str, Iterable[Markup]]]:
    """Names and contents of the sections in their order."""
    yield "Published and simulated", html_sections.published(result)
    yield "Warnings", html_parts.notes(remarks(result))
    served = not nothing_served(result)
    if served and (service := result.service) is not None:
        kept = len(service.requests.arrival) > 0
        yield "Records", records(service)
        yield "Latency", latency(result, service)
        yield "Objectives", objectives(result, service)
        yield "Where the time of a request goes", request_time(service) if service.records == "all" else ()
        yield "Over time", over_time(service) if service.records == "all" and kept else ()
        yield "Single requests", lives(service) if kept else ()
        if service.fleet is not None:
            yield "Fleet", fleet.section(result, service)
        yield "Models", models.section(service)
        yield "Replicas", replicas(result, service)
        yield "Tiers of the cache", cache_tiers(service)
        yield "Adapters", adapters(service)
        yield "Finetuning beside it", finetuning(service)
    yield "Device memory", html_sections.memory(result)
    yield "Links", html_sections.links(result)
    yield from html_sections.left_open(result)
    yield "All figures", figures(result) if served else ()
    yield "Provenance", html_sections.provenance(result)


def records(service: Service) -> Iterable[Markup]:
    """What single requests and curves are of, where not all records were kept."""
    if service.records != "all":
        count = wording.plural(len(service.requests.arrival), "request")
        text = f"{count}, drawn from all with equal chances, are kept: distributions and single requests are of these"
        more = "iterations in traces are those of the beginning. Tables of latencies and all figures are"
        yield tag("p", f"{text}; {more} of the whole run.")


def latency(result: Result, service: Service) -> Iterable[Markup]:
    """The table of latencies and their distributions."""
    rows = []
    for key, short, words in LATENCIES:
        shown = [result.metrics.get(f"{statistic}_{key}_ms") for statistic in _STATISTICS]
        if any(value is not None for value in shown):
            rows.append((f"{short}, {words}", *("" if v is None else wording.figure("mean_ttft_ms", v) for v in shown)))
    if rows:
        titles = ("latency name", "mean n", "median n", "P90 n", "P95 n", "P99 n", "standard deviation n")
        yield html_parts.table(titles, rows)
    if by_class := by_priority(service):
        names = [f"{statistic}_{key}_ms" for key in ("ttft", "tpot", "e2el") for statistic in ("mean", "p99")]
        classes = [
            (f"class {one}", f"{of['completed']:,.0f}", *(wording.figure(name, of[name]) for name in names))
            for one, of in by_class.items()
        ]
        columns = ("TTFT mean n", "TTFT P99 n", "TPOT mean n", "TPOT P99 n", "E2E mean n", "E2E P99 n")
        yield html_parts.table(("priority name", "finished n", *columns), classes)
    found, promised = contents.cdfs(service), goals(result)
    graphs = [
        _distribution(found[key], short, words, promised.of(key)) for key, short, words in LATENCIES if key in found
    ]
    if graphs:
        yield tag("div", *graphs, class_="graphs")
        text = "Share of requests (ITL: of tokens) whose latency is at most that long"
        dashed = ". Dashed: the objective." if any(promised.of(key) for key, _, _ in LATENCIES) else "."
        yield tag("p", text + dashed, class_="soft small")


def _distribution(cdf: Cdf, short: str, words: str, goal: float | None) -> Markup:
    """The distribution of a latency up to its 99.5th percentile or a bit beyond its objective."""
    end = max(float(cdf.value[np.searchsorted(cdf.share, 0.995)]) / 1e3, 1.1 * (goal or 0.0)) or 1.0
    thin = contents.thinned(cdf, MOST_POINTS)
    inside = thin.value <= 1e3 * end
    x, y = np.append(0.0, thin.value[inside]) / 1e3 / end, np.append(0.0, thin.share[inside])
    drawn = curves.curves(
        [Curve(np.append(x, 1.0), np.append(y, y[-1]), palette.BLUE, steps=True)],
        f"distribution of {short}",
        [goal / end] if goal else [],
        readout=Readout(100.0, "%"),
    )
    picture = html_parts.leveled(_percents(), drawn, html_parts.ticks(0.0, end))
    return tag("div", tag("h3", f"{short}: {words}"), html_parts.graph(end, picture))


def _percents() -> list[Mark]:
    return scales.marks(0.0, 1.0, "fraction")


def objectives(result: Result, service: Service) -> Iterable[Markup]:
    """Share of requests that met each objective, and which requests failed which."""
    rows = []
    for key, short in (*((key, short) for key, short, _ in LATENCIES), ("slo", "all")):
        if (value := result.metrics.get(f"{key}_attainment")) is not None:
            goal = goals(result).of(key)
            bar = pictures.stacked([(value, palette.BLUE, short)], f"{short}: {wording.percent(value)}")
            rows.append((short, units.format(goal, "time") if goal else "", wording.percent(value), bar))
    if not rows:
        return
    yield html_parts.table(("objective name", "at most n", "met by n", "of all requests bar"), rows)
    yield from _scatter(goals(result), service)


def _scatter(promised: Goals, service: Service) -> Iterable[Markup]:
    """TTFT and TPOT of single requests with the box of the objectives."""
    times, met = latencies(service.requests), attainment(service, promised)
    if not met or not len(times.ttft):
        return
    shown = np.unique(np.linspace(0, len(times.ttft) - 1, min(MOST_POINTS, len(times.ttft))).astype(int))
    ttft, tpot, good = times.ttft[shown] / 1e3, times.tpot[shown] / 1e3, met["slo"][shown]
    right = max(float(np.percentile(ttft, 99)), 1.15 * (promised.ttft or 0.0)) or 1.0
    top = max(float(np.percentile(tpot, 99)), 1.15 * (promised.tpot or 0.0)) or 1.0
    x, y = np.minimum(ttft / right, 1.0), np.minimum(tpot / top, 1.0)
    groups = [(x[good], y[good], palette.BLUE), (x[~good], y[~good], palette.VERMILION)]
    box = ((promised.ttft or 2 * right) / right, (promised.tpot or 2 * top) / top)
    yield pictures.legend([(palette.BLUE, "met all objectives"), (palette.VERMILION, "did not")])
    drawn = curves.dots(groups, "TTFT and TPOT of single requests", box, 260.0)
    below = html_parts.across(scales.marks(0.0, right, "time"))
    yield html_parts.leveled(scales.marks(0.0, top, "time"), drawn, below)
    some = "" if len(shown) == len(times.ttft) else f"; {len(shown):,} of {len(times.ttft):,} requests"
    text = f"Across: TTFT; upward: TPOT{some}. Dashed: the objectives. What is slower stands at the edge."
    yield tag("p", text, class_="soft small")


def request_time(service: Service) -> Iterable[Markup]:
    """Where the time of a mean request goes."""
    parts = mean_request_time(service)
    total = sum(parts.values())
    if not total > 0:
        return
    shown = {name: seconds for name, seconds in parts.items() if seconds > 0}
    yield pictures.legend((SLOTS[name], WORDS[name]) for name in shown)
    bar = [(s / total, SLOTS[n], f"{WORDS[n]}: {units.format(s, 'time')}") for n, s in shown.items()]
    yield pictures.stacked(bar, "where the time of a mean request goes", pixels=26)
    rows = [(WORDS[n], units.format(s, "time"), wording.percent(s / total)) for n, s in shown.items()]
    together = "arrival to last token", units.format(total, "time"), ""
    yield html_parts.table(("part name", "mean n", "of the whole n"), rows, together)


def over_time(service: Service) -> Iterable[Markup]:
    """Queue, running requests, caches and tokens per second."""
    drawn = contents.series(service, BINS)
    graphs = [
        _series(drawn.edge, "requests in the queue", drawn.queue, SLOTS["queue"], None),
        _series(drawn.edge, "requests running", drawn.running, palette.BLUE, None),
        _series(drawn.edge, "cache blocks in use", drawn.usage, palette.GREEN, 1.0),
        _series(drawn.edge, "output tokens per second", drawn.rate, palette.PURPLE, None),
    ]
    end = float(drawn.edge[-1])
    yield html_parts.timeline("run", 0.0, end, tag("div", *graphs, class_="graphs"))
    width = units.format(float(drawn.edge[1] - drawn.edge[0]), "time")
    yield tag("p", f"All replicas together, means over stretches of {width}.", class_="soft small")


def _series(edge: Floats, name: str, level: Floats, slot: int, top: float | None) -> Markup:
    """A level over time up to `top`, or up to the highest."""
    highest = top or _ROOM * float(level.max(initial=0.0)) or 1.0
    end = float(edge[-1])
    line = Curve(edge / end, np.append(level, level[-1]) / highest, slot, steps=True)
    upward = _percents() if top == 1.0 else scales.marks(0.0, highest)
    readout = Readout(100.0, "%") if top == 1.0 else Readout(highest)
    drawn = curves.curves([line], f"{name} over time", readout=readout)
    return tag("div", tag("h3", name), html_parts.leveled(upward, drawn, html_parts.ticks(0.0, end)))


def lives(service: Service) -> Iterable[Markup]:
    """The first requests, a row each: waiting, prefill, decoding."""
    rows, stretches = contents.bars_of(service, MOST_REQUESTS)
    if not len(rows):
        return
    end = float(stretches["decode"][1].max()) or 1.0
    scale = pictures.WIDTH / end
    height = max(len(rows) * _ROW, 20.0)
    thick = height / len(rows)
    paths = []
    for name, (starts, stops) in stretches.items():
        pieces = [
            f"M{a * scale:.2f} {i * thick:.2f}h{(b - a) * scale:.2f}v{0.85 * thick:.2f}h-{(b - a) * scale:.2f}z"
            for i, (a, b) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True))
            if b > a
        ]
        paths.append(tag("path", d="".join(pieces), class_=f"c{SLOTS[name]}"))
    words = {**WORDS, "decode": "first to last token"}
    yield pictures.legend((SLOTS[name], words[name]) for name in stretches)
    of = "of the sample " if service.records == "sample" else ""
    label = f"lives of the first {len(rows):,} requests {of}that finished"
    drawn = pictures.picture(height, *paths, label=label, class_="plot")
    picture = html_parts.leveled(scales.words("last", "first"), drawn, html_parts.ticks(0.0, end))
    yield html_parts.timeline("requests", 0.0, end, picture)
    yield tag(
        "p",
        f"The first {wording.plural(len(rows), 'request')} {of}that finished, in the order of arrival.",
        class_="soft small",
    )


def busy_slots(service: Service) -> dict[str, int]:
    """Colours of the parts of busy time, the longest part first."""
    totals: dict[str, float] = {}
    for replica in service.replicas:
        for part, seconds in replica.parts.items():
            totals[part] = totals.get(part, 0.0) + seconds
    order = sorted(totals, key=lambda part: -totals[part])
    return {part: _PARTS[i] if i < len(_PARTS) else palette.GREY for i, part in enumerate(order)}


def replicas(result: Result, service: Service) -> Iterable[Markup]:
    """How busy each replica was and what its busy time consists of."""
    duration = result.metrics.get("duration", 0.0)
    shown = service.replicas[:MOST_REPLICAS]
    slots = busy_slots(service)
    order = list(slots)
    whole = duration if duration > 0 else max((replica.busy for replica in shown), default=0.0) or 1.0
    if order:
        yield pictures.legend([*((slots[part], part) for part in order), (palette.PALE, "idle")])
    rows = []
    for replica in shown:
        parts = [
            (
                replica.parts.get(part, 0.0) / whole,
                slots[part],
                f"{part}: {units.format(replica.parts.get(part, 0.0), 'time')}",
            )
            for part in order
        ]
        idle = (max(1 - sum(share for share, _, _ in parts), 0.0), palette.PALE, "idle")
        rows.append(
            (
                replica.name,
                replica.role,
                f"{replica.devices:,} x {replica.device}",
                f"{replica.blocks:,} x {replica.block_size} tokens",
                units.format(replica.weights, "bytes"),
                wording.percent(replica.busy / whole),
                pictures.stacked([*parts, idle], f"{replica.name}: what its time consists of"),
            )
        )
    titles = ("replica name", "role name", "devices name", "cache blocks n", "weights n", "busy n", "of the run bar")
    if rows:
        yield html_parts.table(titles, rows)
    if len(service.replicas) > len(shown):
        yield tag("p", f"The first {len(shown)} of {len(service.replicas):,} replicas.", class_="soft small")


_WAYS = {"host": "host links", "disk": "disks and host links", "network": "network cards"}


def cache_tiers(service: Service) -> Iterable[Markup]:
    """What memories below the devices' held, gave and took."""
    rows = []
    for tier in service.tiers:
        sizes = [units.format(size, "bytes") for size in (tier.capacity, tier.most, tier.read, tier.written)]
        hits = wording.percent(tier_hits(tier, service))
        rows.append((tier.name, _WAYS.get(tier.path, tier.path), f"{tier.memories:,}", *sizes[:2], hits, *sizes[2:]))
    titles = (
        "tier name",
        "over name",
        "memories n",
        "capacity n",
        "most held n",
        "of prompts n",
        "read n",
        "written n",
    )
    if rows:
        yield html_parts.table(titles, rows)


def adapters(service: Service) -> Iterable[Markup]:
    """What became of adapters of low rank."""
    use = service.adapters
    if use is None:
        return
    share = wording.percent(use.hits / use.requests if use.requests else 0.0)
    sizes = [units.format(size, "bytes") for size in (use.largest, use.read)]
    waits = [units.format(time, "time") for time in (use.mean_wait, use.longest_wait)]
    counts = [f"{count:,}" for count in (use.count, use.requests, use.loads, use.fetched, use.evicted, use.most)]
    titles = (
        "asked for n",
        "requests n",
        "found n",
        "loaded n",
        "from storage n",
        "gave way n",
        "most held n",
        "largest n",
        "read n",
        "mean wait n",
        "longest n",
    )
    yield html_parts.table(titles, [(*counts[:2], share, *counts[2:], *sizes, *waits)])


def finetuning(service: Service) -> Iterable[Markup]:
    """What was trained beside serving."""
    use = service.finetuning
    if use is None:
        return
    rate = use.tokens / use.duration if use.duration else 0.0
    counts = [f"{count:,}" for count in (use.tokens, use.sequences, use.updates, use.iterations_alone)]
    times = [units.format(time, "time") for time in (use.working, use.duration)]
    titles = ("tokens/s n", "tokens n", "sequences n", "updates n", "iterations alone n", "time n", "of n")
    yield html_parts.table(titles, [(f"{rate:,.0f}", *counts, *times)])


def figures(result: Result) -> Iterable[Markup]:
    """Every metric, folded away."""
    known = ordered_metrics(result.metrics)
    labels = {name: METRICS[name].label.replace("of a step", "of the run") for name in known if name in METRICS}
    rows = [(name, labels.get(name, ""), wording.figure(name, value)) for name, value in known.items()]
    if rows:
        table = html_parts.table(("metric path", "meaning name", "value n"), rows)
        yield tag("details", tag("summary", wording.plural(len(rows), "figure")), table)
