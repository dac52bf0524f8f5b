"""The terminal page of a serving run: latencies, objectives, where the time of a request goes, replicas and caches."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from simulator import units
from simulator.report.serving import fleet, models
from simulator.report.serving.contents import LATENCIES, WORDS, goals, header_lines
from simulator.report.step import ledger, sections
from simulator.report.text import blocks, wording
from simulator.report.text.bars import Axis, Stack
from simulator.report.text.plain import clean
from simulator.results.infeasibility import infeasibility
from simulator.results.result import Replica, Result, Service
from simulator.results.serving import iterations as of
from simulator.results.serving.adapters import AdapterUse
from simulator.results.serving.finetuning import FinetuningUse
from simulator.results.serving.request_time import mean_request_time
from simulator.results.serving.service import SECOND, by_priority, held_seconds, tier_hits
from simulator.scenario_fields import at

MOST_REPLICAS = 8
"""Replicas shown; of more, the busiest and the idlest."""
_STATISTICS = (("mean", "mean"), ("median", "median"), ("p90", "P90"), ("p95", "P95"), ("p99", "P99"))
_LOOKS = {
    "earlier": ("bright_black", "▧"),
    "queue": ("red", "░"),
    "prefill": ("yellow", "▒"),
    "handover": ("cyan", "▤"),
    "preempted": ("bright_red", "▞"),
    "stalled": ("magenta", "▓"),
    "peers": ("bright_blue", "▚"),
    "decode": ("green", "█"),
}
_INVISIBLE = 0.0005
_BAR = 20
_NAMED = 4  # parts of busy time named in a row


def page_blocks(result: Result, elapsed_s: float | None) -> Iterable[RenderableType]:
    """The page from top to bottom; of a run that is infeasible, first what it would need."""
    service = result.service
    yield blocks.title(
        result.name,
        sections.changed(result),
        " · ".join(header_lines(result)),
        ground=result.ground.sentence,
        expected=wording.expected(result),
    )
    if not result.feasible:
        yield from ledger.out_of_memory(result)
    if service is not None and (result.feasible or infeasibility(result) == "out of memory"):
        if not result.feasible:
            yield blocks.heading("If it fitted")
        yield headline(result)
        yield from latencies(result)
        yield from classes(service) if service.records == "all" else ()
        yield from fleet.of_tenants(service)
        yield from models.of_models(service)
        yield from objectives(result)
        yield from request_time(service) if service.records == "all" else ()
        yield from caches(result)
        yield from fleet.of_fleet(result, service)
        yield from replicas(service, result.metrics.get("duration", 0.0))
    if result.feasible or infeasibility(result) != "out of memory":
        yield from ledger.memory(result)
    yield from sections.ending(result, [iterations(service)], elapsed_s)


def headline(result: Result) -> RenderableType:
    """Throughput, load, energy and money, in two columns where there is room."""
    left = (
        "output_throughput",
        "output_throughput_per_device",
        "total_token_throughput",
        "request_throughput",
        "request_goodput",
    )
    open_ones = ("unfinished",) if result.metrics.get("unfinished") else ()
    right = ("completed", "failed", *open_ones, "duration", "utilisation", "mean_batch")
    both = Table.grid()
    both.add_row(Roomy(_figures(result, left, right), _figures(result, (*left, *right))))
    money = [
        f"{wording.figure(name, result.metrics[name])} {words}".strip()
        for name, words in (
            ("energy_j", ""),
            ("cost_usd", ""),
            ("energy_j_per_million_tokens", "per million output tokens"),
            ("cost_usd_per_million_tokens", "per million"),
        )
        if name in result.metrics
    ]
    if money:
        both.add_row(Text.assemble(("the run  ", "dim"), ("  ·  ".join(money), "bold")))
    for gap in sections.not_known(result):
        both.add_row(Text(clean(gap), "dim"))
    return both


_HEADLINE = {
    "output_throughput": "output tokens/s",
    "output_throughput_per_device": "output tokens/s per device",
    "total_token_throughput": "all tokens/s",
    "request_throughput": "requests/s",
    "request_goodput": "requests/s within objectives",
    "completed": "requests finished",
    "failed": "requests rejected",
    "unfinished": "requests not finished at the end",
    "duration": "first arrival to last token",
    "utilisation": "time that replicas work",
    "mean_batch": "sequences decoding at once",
}


def _figures(result: Result, *columns: tuple[str, ...]) -> Table:
    """Words and figures of the metrics that there are, in columns side by side."""
    table = Table.grid(padding=(0, 2))
    for _ in columns:
        table.add_column(style="dim", no_wrap=True)
        table.add_column(style="bold", no_wrap=True)
    known = [[name for name in column if name in result.metrics] for column in columns]
    words = _HEADLINE | ({"failed": "requests not served"} if "replica_failures" in result.metrics else {})
    for row in zip_longest(*known):
        cells = ((words[name], _figure(result, name) + "  ") if name else ("", "") for name in row)
        table.add_row(*(cell for pair in cells for cell in pair))
    return table


@dataclass(frozen=True, slots=True)
class Roomy:
    """Something to draw where it fits the width, and what to draw where it does not."""

    wide: Table
    narrow: Table
    least: int = 0
    """Columns from which the wide one is drawn, folded if need be; 0: from its own width on."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The one that fits."""
        least = self.least or Measurement.get(console, options.update(max_width=1000), self.wide).maximum
        fits = least <= options.max_width
        yield self.wide if fits else self.narrow


def _figure(result: Result, name: str) -> str:
    return wording.figure(name, result.metrics[name]) if name in result.metrics else ""


def latencies(result: Result) -> Iterable[RenderableType]:
    """Mean, median and percentiles of the four latencies."""
    if "mean_e2el_ms" in result.metrics:
        yield blocks.heading("Latency")
        yield Roomy(_latencies(result, _STATISTICS, True), _latencies(result, _STATISTICS[:3] + _STATISTICS[4:], False))


def _latencies(result: Result, statistics: tuple[tuple[str, str], ...], explained: bool) -> Table:
    """The table, on demand with the latencies in words."""
    table = blocks.headed("", *([""] if explained else []), *(words for _, words in statistics))
    for key, short, meaning in (*LATENCIES, ("queue", "queue", "arrival to first work")):
        shown = [_figure(result, f"{statistic}_{key}_ms") for statistic, _ in statistics]
        if any(shown):
            table.add_row(Text(short, "bold"), *([Text(meaning, "dim")] if explained else []), *shown)
    return table


_OF_CLASS = (("mean_ttft_ms", "p99_ttft_ms"), ("mean_tpot_ms", "p99_tpot_ms"), ("mean_e2el_ms", "p99_e2el_ms"))


def classes(service: Service) -> Iterable[RenderableType]:
    """Mean and 99th percentile of the latencies of each priority class, where there are several."""
    found = by_priority(service)
    if not found:
        return
    table = blocks.headed("class", "finished", "TTFT mean", "P99", "TPOT mean", "P99", "E2E mean", "P99")
    for one, figures in found.items():
        shown = [wording.figure(name, figures[name]) for pair in _OF_CLASS for name in pair]
        table.add_row(Text(f"{one}", "bold"), f"{figures['completed']:,.0f}", *shown)
    yield blocks.heading("Latency by priority class, 0 the most urgent")
    yield table


def objectives(result: Result) -> Iterable[RenderableType]:
    """The share of requests that met each objective, and all of them."""
    if "slo_attainment" not in result.metrics:
        return
    wanted = at(result.scenario, "slo.attainment")
    least = float(wanted) if isinstance(wanted, int | float) else None
    table = blocks.grid("left", "right", "right", "left")
    table.columns[-1].no_wrap = False
    for key, short, _ in LATENCIES:
        if (value := result.metrics.get(f"{key}_attainment")) is not None:
            goal = goals(result).of(key)
            limit = f"at most {units.format(goal, 'time')}" if goal is not None else ""
            table.add_row(short, limit, wording.percent(value), Text(wording.bar(value, _BAR), "cyan"))
    value = result.metrics["slo_attainment"]
    met = least is None or value >= least
    remark = f"  wanted {wording.percent(least)}" if least is not None else ""
    bar = Text(wording.bar(value, _BAR), "green" if met else "red")
    bar.append(remark, "dim" if met else "red")
    table.add_row(Text("all", "bold"), "", Text(wording.percent(value), "bold"), bar)
    yield blocks.heading("Objectives: share of all requests that met them")
    yield table


def request_time(service: Service) -> Iterable[RenderableType]:
    """Where the time of a mean request goes."""
    parts = mean_request_time(service)
    total = sum(parts.values())
    if not total > 0:
        return
    yield blocks.heading("Where the time of a request goes, on average")
    yield Axis(units.format(total, "time"))
    yield Stack(tuple((seconds / total, *_LOOKS[name]) for name, seconds in parts.items()))
    table = blocks.grid("left", "right", "right")
    for name, seconds in parts.items():
        if seconds >= _INVISIBLE * total:
            style, glyph = _LOOKS[name]
            label = Text.assemble((glyph, style), " ", WORDS[name])
            table.add_row(label, units.format(seconds, "time"), wording.percent(seconds / total))
    yield table


def caches(result: Result) -> Iterable[RenderableType]:
    """How full the caches were and what came of it, in a line."""
    names = (
        ("mean_kv_usage", "mean while working"),
        ("max_kv_usage", "at most"),
        ("preemptions", "preemptions"),
        ("prefix_cache_hit_rate", "of prompt tokens from the prefix cache"),
    )
    said = []
    for name, words in names:
        value = result.metrics.get(name)
        if value is not None and (value > 0 or name != "prefix_cache_hit_rate"):
            figure = wording.figure(name, value)
            words = words.removesuffix("s") if name == "preemptions" and value == 1 else words
            said.append(f"{words} {figure}" if name == "max_kv_usage" else f"{figure} {words}")
    if said:
        yield blocks.heading("Key-value caches")
        yield Text("  ·  ".join(said))
    if result.service is not None and result.service.tiers:
        yield tiers(result.service)
        loads = [one for one in ("mean_tier_load_ms", "p99_tier_load_ms") if one in result.metrics]
        waits = [wording.figure(one, result.metrics[one]) for one in loads]
        if len(result.service.load_waits) and len(waits) == 2:
            yield Text("a load keeps its request waiting for {} on average, P99 {}".format(*waits), "dim")

    if result.service is not None and result.service.adapters is not None:
        yield from adapters(result.service.adapters)
    if result.service is not None and result.service.finetuning is not None:
        yield from finetuning(result.service.finetuning)
    if "total_images" in result.metrics:
        yield from images(result)
    if "total_encoder_rows" in result.metrics:
        yield from encoders(result)


def finetuning(use: FinetuningUse) -> Iterable[RenderableType]:
    """What was trained beside serving, in a line or two."""
    yield blocks.heading("Finetuning beside it")
    rate = use.tokens / use.duration if use.duration else 0.0
    said = f"{rate:,.0f} tokens/s trained  ·  {use.tokens:,} tokens in {units.format(use.duration, 'time')}"
    yield Text(said + f"  ·  {use.sequences:,} sequences, {use.updates:,} updates")
    yield Text(f"{use.iterations_alone:,} iterations of training alone, as nothing was to be served", "dim")


def encoders(result: Result) -> Iterable[RenderableType]:
    """What encoders before a decoder were to the replicas, in a line."""
    yield blocks.heading("Encoder")
    rows, spent = (wording.figure(name, result.metrics[name]) for name in ("total_encoder_rows", "encoding_s"))
    yield Text(f"{rows} rows encoded in {spent} of replicas  ·  cross attention reads those of a request at every step")


def images(result: Result) -> Iterable[RenderableType]:
    """What images were to the replicas, in a line."""
    yield blocks.heading("Images")
    names = ("total_images", "total_image_tokens", "image_encoding_s")
    count, tokens, spent = (wording.figure(name, result.metrics[name]) for name in names)
    yield Text(f"{count} images  ·  {tokens} tokens of prompts  ·  encoded in {spent} of replicas")


def adapters(use: AdapterUse) -> Iterable[RenderableType]:
    """What became of adapters, in a line or two."""
    yield blocks.heading("Adapters")
    share = use.hits / use.requests if use.requests else 0.0
    said = f"{use.count:,} asked for by {use.requests:,} requests  ·  {wording.percent(share)} found on the devices"
    said += f"  ·  {use.loads:,} loaded, {units.format(use.read, 'bytes')}  ·  at most {use.most:,} at once"
    yield Text(said)
    if use.loads:
        waits = units.format(use.mean_wait, "time"), units.format(use.longest_wait, "time")
        more = f"; {use.fetched:,} loads came from storage" if use.fetched else ""
        yield Text("a missing one keeps its request waiting for {} on average, {} at most".format(*waits) + more, "dim")


def tiers(service: Service) -> Table:
    """A row for each memory below the devices': what it holds, gives and takes."""
    table = blocks.headed("", "memories", "held", "of", "hits", "read", "written")
    for tier in service.tiers:
        figures = [units.format(size, "bytes") for size in (tier.most, tier.capacity, tier.read, tier.written)]
        hits = wording.percent(tier_hits(tier, service))
        table.add_row(clean(tier.name), f"{tier.memories:,}", *figures[:2], hits, *figures[2:])
    return table


class _Row(NamedTuple):
    """What is shown of a replica."""

    name: str
    busy: float
    iterations: int
    batch: float
    usage: float
    parts: dict[str, float]


def replicas(service: Service, duration: float) -> Iterable[RenderableType]:
    """A row for each replica: how busy, with how much at once, and what the busy time consists of."""
    held = held_seconds(service) if service.fleet is not None else [duration] * len(service.replicas)
    rows = [_row(replica, each) for replica, each in zip(service.replicas, held, strict=True)]
    if not rows:
        return
    remark = ""
    if len(rows) > MOST_REPLICAS:
        ranked = sorted(rows, key=lambda row: -row.busy)
        remark = f", the busiest and the idlest of {len(rows):,}"
        rows = [*ranked[: MOST_REPLICAS // 2], *ranked[-MOST_REPLICAS // 2 :]]
    if service.records != "all":
        remark += "; iterations, batch and cache of what was kept"
    yield blocks.heading(f"Replicas{remark}")
    yield Roomy(_table(rows, parts=True), _table(rows, parts=False), least=74)


def _table(rows: list[_Row], parts: bool) -> Table:
    table = blocks.headed("", "busy", "iterations", "batch", "cache")
    if parts:
        table.add_column("busy time, in percent", overflow="fold")
    for row in rows:
        figures = wording.percent(row.busy), f"{row.iterations:,}", f"{row.batch:.3g}", wording.percent(row.usage)
        table.add_row(clean(row.name), *figures, *([parts_in_words(row.parts)] if parts else []))
    return table


def _row(replica: Replica, duration: float) -> _Row:
    rows = replica.iterations
    length = of.lengths(rows) / SECOND
    total = float(length.sum()) or 1.0
    return _Row(
        replica.name,
        replica.busy / duration if duration > 0 else 0.0,
        int(rows.count.sum()),
        float((rows.decodes * length).sum()) / total,
        float((rows.mean_blocks * length).sum()) / total / max(replica.blocks, 1),
        replica.parts,
    )


def parts_in_words(parts: dict[str, float]) -> str:
    """The largest parts of the busy time: `linear 60.0, attention 20.0`."""
    total = sum(parts.values())
    if not total > 0:
        return "-"
    largest = sorted(parts.items(), key=lambda item: -item[1])
    said = [f"{clean(name)} {100 * seconds / total:.1f}" for name, seconds in largest[:_NAMED] if seconds > 0]
    rest = sum(seconds for _, seconds in largest[_NAMED:])
    return ", ".join([*said, *([f"rest {100 * rest / total:.1f}"] if rest >= _INVISIBLE * total else [])])


def iterations(service: Service | None) -> str:
    """How much was simulated, or how much of it was kept."""
    if service is not None and service.records != "all":
        kept = wording.plural(len(service.requests.arrival), "request") if service.records == "sample" else "no request"
        return f"records: {service.records}, {kept} kept; figures are of all"
    rows = sum(len(r.iterations.count) for r in service.replicas) if service is not None else 0
    every = sum(int(r.iterations.count.sum()) for r in service.replicas) if service is not None else 0
    stretches = f" in {wording.plural(rows, 'stretch')} without a change" if rows < every else ""
    return wording.plural(every, "iteration") + stretches
