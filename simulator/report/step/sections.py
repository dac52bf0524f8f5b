"""The parts of the terminal page of a step: headline figures, links, published figures, notes."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simulator import units
from simulator.axes import CP, DP, EP, PP, TP
from simulator.errors import shortened
from simulator.metrics import METRICS
from simulator.report.text import wording
from simulator.report.text.blocks import grid, headed, heading, notes
from simulator.report.text.plain import clean
from simulator.results.infeasibility import remarks
from simulator.results.metrics import exposed, mean
from simulator.results.prices import missing_power, missing_price, unpowered, unpriced
from simulator.results.result import Comparison, LinkLoad, Result
from simulator.results.summary import CHAINS
from simulator.scenario_fields import at, devices, replicas, whole, word

ATTENTION = 0.1
"""Share of attention in the model's FLOPs from which on it matters that its full square is counted."""
OFFLOADED = 0.01
"""Share of the step that devices wait for offloaded activations from which on the headline says so."""
MOST_ROWS = 8
"""Kinds of link shown."""
HOT, MOST_HOT = 0.1, 2
"""Share of the time that the busiest link of a kind is in use from which it is named, and how many are."""
MOST_CHANGES = 4
"""Overrides that the head of a page names."""

_RATES = (
    ("step_time_s", "step time"),
    ("tokens_per_s", "tokens/s"),
    ("tokens_per_s_per_device", "tokens/s per device"),
    ("samples_per_s", "sequences/s"),
)


def changed(result: Result) -> str:
    """The overrides of a run, the first of them and how many more; empty where it is the scenario as it is written."""
    given = [shortened(str(text)) for text in result.provenance.get("overrides", ())]
    more = [f"{len(given) - MOST_CHANGES} more"] if len(given) > MOST_CHANGES else []
    return f"with {', '.join([*given[:MOST_CHANGES], *more])}" if given else ""


def header_lines(scenario: dict[str, Any]) -> Iterable[str]:
    """What was simulated, as far as the scenario says."""
    if number := devices(scenario):
        yield f"{number:,} x {word(scenario, 'cluster.node.accelerator.name', 'device')}"
    if name := word(scenario, "model.name"):
        yield name.partition(" (")[0]
    sizes = {
        axis: whole(scenario, f"training.parallel.{axis}", 1) for axis in (TP.name, PP.name, "vpp", CP.name, EP.name)
    }
    sizes[DP.name] = replicas(scenario) or 1
    yield from (
        [", ".join(f"{axis} {size}" for axis, size in sizes.items() if size > 1)] if max(sizes.values()) > 1 else ()
    )
    if batch := whole(scenario, "training.global_batch", 0):
        yield f"batch {batch:,} of {whole(scenario, 'training.sequence_length', 0):,} tokens"
    if name := word(scenario, "stack.name"):
        yield name.partition(" (")[0]


def chains(result: Result) -> str:
    """What the names of device classes by chains mean, where there are such."""
    name = next((clean(one.name) for one in result.classes if CHAINS in one.name), "")
    number = name.rpartition(" ")[2]
    return name and (
        f"A chain is one pipeline: a device of each stage. `{CHAINS} {number}` are chain {number} and those that "
        "stragglers, noise and uneven batches leave as fast."
    )


def headline(result: Result) -> RenderableType:
    """The figures for which most people run the simulator, in two columns."""
    right = [
        _utilisation(result, "mfu", "model", "MFU"),
        _utilisation(result, "hfu", "hardware", "HFU"),
        _plain(result, "bubble_fraction", "bubble"),
        _communication(result),
    ]
    table = Table.grid(padding=(0, 2))
    for style in ("dim", "bold", "dim", "bold", ""):
        table.add_column(style=style, justify="left", no_wrap=style != "")
    for (name, label), (other, value, remark) in zip(_RATES, right, strict=True):
        shown = wording.figure(name, result.metrics[name]) if name in result.metrics else "-"
        table.add_row(label, shown + "  ", other, value, remark)
    return table


def causal(result: Result) -> str:
    """That the MFU counts the full square of attention, where that makes a difference; else empty."""
    full, half = result.metrics.get("mfu"), result.metrics.get("mfu_causal")
    if not full or half is None or 2 * (1 - half / full) < ATTENTION:
        return ""
    share = wording.percent(2 * (1 - half / full), decimals=0)
    return (
        f"MFU counts the full square of attention, {share} of the FLOPs; with its causal half: {wording.percent(half)}"
    )


def offloading(result: Result) -> str:
    """That devices wait for the host's link, how long and how fast it is, where that holds the step back; else
    empty."""
    waited = mean(result.breakdown, [c.ranks for c in result.classes]).get("offload", 0.0) if result.breakdown else 0.0
    step_s = sum(result.breakdown[0].values()) if result.breakdown else 0.0
    if waited <= OFFLOADED * step_s:
        return ""
    rate = at(result.scenario, "cluster.node.accelerator.host_link.value")
    link = f" of {units.format(rate, 'bandwidth')}" if isinstance(rate, int | float) else ""
    long = f"{units.format(waited, 'time')}, {wording.percent(waited / step_s)} of the step,"
    away = at(result.scenario, "training.offload")
    if away is not None:
        return f"Devices wait {long} for what travels to or from the host, whose link has{link.removeprefix(' of')}"
    return f"Devices wait {long} for offloaded activations on the host's link{link}"


def remarks_on_figures(result: Result) -> list[str]:
    """What a reader of the headline has to know beside its figures."""
    return [remark for remark in (local(result), offloading(result), uneven(result), causal(result)) if remark]


def local(result: Result) -> str:
    """How much of the time workers train that take local steps, and what their exchanges take; else empty."""
    share = result.metrics.get("compute_share")
    if share is None:
        return ""
    lasts, size = result.metrics["outer_exchange_s"], result.metrics["outer_bytes"]
    return (
        f"Workers train {wording.percent(share)} of the time; an exchange between them lasts"
        f" {units.format(lasts, 'time')}, and each sends {units.format(size, 'bytes')} a round. The breakdown is that"
        " of a step by itself"
    )


def uneven(result: Result) -> str:
    """What microbatches that differ cost: padding, and waiting for the largest and the busiest; empty where all are
    alike."""
    names = ("padding_fraction", "microbatch_imbalance", "rank_imbalance", "straggler_fraction")
    if not all(name in result.metrics for name in names):
        return ""
    padding, largest, busiest_rank, waits = (result.metrics[name] for name in names)
    return (
        f"Uneven batch: {wording.percent(padding)} of the tokens are padding, the largest microbatch is {largest:.2f} x"
        f" the mean, the busiest data-parallel rank {busiest_rank:.2f} x; devices wait {wording.percent(waits)} of the"
        " step for slower peers"
    )


def _utilisation(result: Result, name: str, kind: str, label: str) -> tuple[str, str, str]:
    rate = result.metrics.get(f"{kind}_flops_per_device")
    if rate is None:
        return _plain(result, name, label)
    remark = " with recompute" if kind == "hardware" else ""
    shown = f"{wording.figure(f'{kind}_flops_per_device', rate)} per device{remark}"
    return label, _plain(result, name, label)[1], shown


def _plain(result: Result, name: str, label: str) -> tuple[str, str, str]:
    value = result.metrics.get(name)
    return label, "-" if value is None else wording.figure(name, value), ""


def _communication(result: Result) -> tuple[str, str, str]:
    """Exposed communication of the mean device and, beside it, by axis."""
    average = exposed(mean(result.breakdown, [c.ranks for c in result.classes])) if result.classes else {}
    axes = [f"{axis} {units.format(value, 'time')}" for axis, value in average.items() if value > 0]
    label, value, _ = _plain(result, "exposed_communication_s", "exposed comm.")
    stall = mean(result.breakdown, [c.ranks for c in result.classes]).get("stall", 0.0) if result.classes else 0.0
    beside = [f"(stall besides: {units.format(stall, 'time')})"] if stall > 0 else []
    return label, value, " ".join([", ".join(axes), *beside]).strip()


def whole_run(result: Result) -> Iterable[RenderableType]:
    """Time, energy and money: of the whole run where the scenario says how long it is, else of a step."""
    run = [name for name in ("run_time_s", "run_energy_j", "run_cost_usd") if name in result.metrics]
    step = [name for name in ("energy_j", "cost_usd") if name in result.metrics]
    if not run and not step:
        return
    shown = "  ·  ".join(wording.figure(name, result.metrics[name]) for name in run or step)
    length = at(result.scenario, "training.tokens")
    what = "whole run" if run else "per step"
    if run and isinstance(length, int | float) and length > 0:
        what = f"{wording.tokens(length)} tokens"
    yield Text.assemble((f"{what}  ", "dim"), (shown, "bold"))


def not_known(result: Result) -> list[str]:
    """Why there is no cost or no energy among the figures; nothing where both are there, or there are no figures."""
    if not result.metrics:
        return []
    cost = "" if "cost_usd" in result.metrics else missing_price(unpriced(result.scenario))
    energy = "" if "energy_j" in result.metrics else missing_power(unpowered(result.scenario))
    return [text for text in (energy, cost) if text]


def a_day(result: Result) -> Iterable[RenderableType]:
    """Tokens and money of a day, where there are several steps to tell from."""
    if "tokens_per_day" not in result.metrics:
        return
    found = [f"{wording.tokens(result.metrics['tokens_per_day'])} tokens"]
    if "cost_per_day_usd" in result.metrics:
        found.append(wording.figure("cost_per_day_usd", result.metrics["cost_per_day_usd"]))
    yield Text.assemble(("per day   ", "dim"), ("  ·  ".join(found), "bold"))


def links(result: Result) -> Iterable[RenderableType]:
    """The kinds of link, the busiest first."""
    used = busiest(result)
    if not used:
        return
    table = grid("left", "right", "right", "right", "left")
    for name, load in used[:MOST_ROWS]:
        table.add_row(
            clean(name),
            wording.plural(load.links, "link"),
            f"{units.format(load.bytes, 'bytes')} at {units.format(load.capacity, 'bandwidth')}",
            wording.percent(load.utilisation),
            _use(load),
        )
    yield heading("Links: what the busiest of each kind carried")
    yield table
    hot = [load.busiest for _, load in used if load.busiest and load.links > 1 and load.utilisation >= HOT]
    if hot:
        yield Text(f"the busiest: {', '.join(map(clean, hot[:MOST_HOT]))}", "dim")


def _use(load: LinkLoad) -> Text:
    """A bar of the mean use, and the peak where it is more than the link has."""
    if load.peak <= load.capacity:
        return Text(wording.bar(load.utilisation, 30), "blue")
    peak = f" up to {wording.percent(load.peak / load.capacity)}"
    return Text.assemble((wording.bar(load.utilisation, 30 - len(peak)), "blue"), (peak, "red"))


def busiest(result: Result) -> list[tuple[str, LinkLoad]]:
    """Kinds of link that carried something, the busiest first; kinds with equal figures stand together by one name."""
    used = sorted((load for load in result.links if load.bytes > 0), key=lambda load: -load.utilisation)
    alike = [list(group) for _, group in groupby(used, _figures)]
    return [(_together([load.name for load in group]), max(group, key=lambda load: load.peak)) for group in alike]


def _figures(load: LinkLoad) -> tuple[float, ...]:
    return load.utilisation, load.bytes, load.capacity, load.links


def _together(names: list[str]) -> str:
    """`NIC up, down` for `NIC up` and `NIC down`."""
    first = names[0].rpartition(" ")[0]
    rest = [name.removeprefix(first).strip() if first and name.startswith(first) else name for name in names[1:]]
    return ", ".join([names[0], *rest])


def sensitivities(result: Result) -> Iterable[RenderableType]:
    """What better parts of the machine would give, the most useful first."""
    if not result.sensitivities:
        return
    table = grid("left", "left", "right", "left", "left")
    for _, cells, gain in better_parts(result):
        table.add_row(*map(clean, cells), Text(wording.bar(gain * 10, 30), "green"))
    yield heading("What to change: step time on a better machine (a full bar is 10 % less)")
    yield table


def better_parts(result: Result) -> list[tuple[str, tuple[str, str, str, str], float]]:
    """(key, what is better, by how much, step time and difference in words, gain), the largest gain first."""
    return [
        (
            row.name,
            (
                wording.BETTER.get(row.name, row.name),
                row.change,
                units.format(row.step_time_s, "time"),
                wording.percent(-row.gain, signed=True, decimals=2),
            ),
            row.gain,
        )
        for row in sorted(result.sensitivities, key=lambda row: -row.gain)
    ]


def published(result: Result) -> Iterable[RenderableType]:
    """Published figures beside ours."""
    if not result.comparisons:
        return
    table = headed("", "published", "simulated", "error")
    table.add_column("source", overflow="fold")
    for comparison in result.comparisons:
        figure, theirs, ours, error, source = map(clean, compared(comparison))
        table.add_row(figure, theirs, ours, Text(error, _error_style(comparison.error)), source)
    yield heading("Published and simulated (error of time: + is too slow, - too fast)")
    yield table


def compared(row: Comparison) -> tuple[str, str, str, str, str]:
    """A published figure: what it is, published, simulated, error, source."""
    return (
        METRICS[row.metric].label if row.metric in METRICS else row.metric,
        wording.figure(row.metric, row.published),
        wording.figure(row.metric, row.simulated),
        wording.percent(row.error, signed=True),
        row.source if not row.note else f"{row.source}; {row.note}",
    )


def _error_style(error: float) -> str:
    return "green" if abs(error) <= 0.05 else "yellow" if abs(error) <= 0.15 else "red"


def assumptions(result: Result) -> Iterable[RenderableType]:
    """What the scenario left open, or nothing."""
    name, lines = left_open(result)
    yield from notes(name, lines, "dim")


def left_open(result: Result) -> tuple[str, list[str]]:
    """A heading and what the scenario left open; the stack, of which most defaults come, is named once."""
    stack = f" ({word(result.scenario, 'stack.name')})"
    lines = [line.removesuffix(stack) for line in result.assumptions]
    of_stack = f"; defaults are those of {stack[2:-1].partition(' (')[0]}" if lines != list(result.assumptions) else ""
    return f"Assumptions: what the scenario left open{of_stack}", lines


def ending(result: Result, simulated: Sequence[str], elapsed_s: float | None) -> Iterable[RenderableType]:
    """What stands below all figures of a run: links, published figures, notes, how much was simulated and by what."""
    yield from links(result)
    yield from published(result)
    yield from assumptions(result)
    yield from notes("Warnings", remarks(result), "yellow")
    yield from effort(result, simulated, elapsed_s)


def effort(result: Result, simulated: Sequence[str], elapsed_s: float | None) -> Iterable[RenderableType]:
    """How much was simulated, how long that took, and by what."""
    known = result.provenance
    what = [*simulated]
    what += [wording.plural(int(known["events"]), "event")] if isinstance(known.get("events"), int) else []
    how = [f"simulated in {units.format(elapsed_s, 'time')}"] if elapsed_s is not None else []
    how += [f"clustersim {known['version']}"] if "version" in known else []
    how += [f"scenario {known['scenario']}"] if "scenario" in known else []
    yield Text("")
    yield Text("\n".join(clean(" · ".join(line)) for line in (what, how) if line), "dim")


def operations(result: Result) -> list[str]:
    """How the ranks were folded, and how much was simulated."""
    ranks = sum(c.ranks for c in result.classes)
    what = [f"{wording.plural(ranks, 'rank')} in {wording.plural(len(result.classes), 'class')}"]
    what += [f"fold: {result.provenance['fold']}"] if "fold" in result.provenance else []
    return [*what, wording.plural(len(result.spans.start), "operation")]
