"""The sections of the HTML report but its Gantt chart; each yields nothing where the Result has nothing to say."""

import math
from collections.abc import Iterable, Sequence

from simulator import units
from simulator.metrics import METRICS
from simulator.report.html.markup import Markup, joined, tag
from simulator.report.html.parts import heading, leveled, notes, stands, table, ticks, timeline
from simulator.report.step import ledger, reasons, sections
from simulator.report.step.breakdown import visible
from simulator.report.step.profile_figures import figures
from simulator.report.svg import fabric, pictures
from simulator.report.svg.gantt import sample, whole
from simulator.report.text import palette, scales, wording
from simulator.report.text.plain import clean
from simulator.results.infeasibility import filled, host_full, reason
from simulator.results.metrics import mean
from simulator.results.result import MemoryUse, Result
from simulator.results.summary import class_names, ordered_metrics

_MOST_STRETCHES = 8


def title(result: Result) -> Markup:
    """Name, subject, the switch between light and dark, headline figures."""
    subject = tag("p", " · ".join(map(clean, sections.header_lines(result.scenario))), class_="soft")
    return joined(
        heading(result.name, *changed(result), subject, *stands(result)),
        *alarm(result),
        tiles(result, ordered_metrics(result.metrics)),
        *remarks_on_figures(result),
    )


def changed(result: Result) -> Iterable[Markup]:
    """The overrides of a run, as far as the head of a page names them."""
    if changes := sections.changed(result):
        yield tag("p", clean(changes), class_="soft")


def remarks_on_figures(result: Result) -> Iterable[Markup]:
    """What holds the step back or MFU counts where it matters, and why there is no cost or energy."""
    yield from (tag("p", f"{remark}.", class_="soft small") for remark in sections.remarks_on_figures(result))
    yield from (tag("p", gap, class_="soft small") for gap in sections.not_known(result))


def tiles(result: Result, names: Iterable[str]) -> Markup:
    """Cards of figures; of what does not fit into memory each says that it is not real."""
    caveat = "" if result.feasible else ", if it fitted"
    cards = []
    for name in names:
        label = METRICS[name].label if name in METRICS else name
        label += "" if name == "peak_memory_bytes" else caveat
        cards.append(tag("div", tag("dt", label), tag("dd", wording.figure(name, result.metrics[name]))))
    return tag("dl", *cards, class_="tiles" if result.feasible else "tiles unreal")


def alarm(result: Result) -> Iterable[Markup]:
    """What makes the run impossible and what would help."""
    if result.feasible:
        return
    over = sorted((use for use in result.memory if use.peak > use.capacity), key=filled)
    host = not over and host_full(result) is not None
    said = [tag("strong", "Out of memory: " if over or host else "Infeasible: ")]
    said += [] if over else [joined(f"{reason(result)}.")]
    hints = ledger.for_host(result.scenario) if host else ledger.for_rejected(result)
    helps: Iterable[Markup] = () if over else notes(hints)
    if over:
        worst = over[-1]
        size = f"{units.format(worst.peak, 'bytes')} of {units.format(worst.capacity, 'bytes')}"
        said += [joined(f"{ledger.place_of(result, worst)} needs {size}. The figures say what would be if it fitted.")]
        helps = notes(ledger.hints(worst, result.scenario))
    yield tag("div", tag("p", *said), *([tag("p", "What would help:"), *helps] if helps else []), class_="alarm")


def left_open(result: Result) -> Iterable[tuple[str, Iterable[Markup]]]:
    """The assumptions with their heading."""
    name, lines = sections.left_open(result)
    yield clean(name), notes(lines)


def published(result: Result) -> Iterable[Markup]:
    """Published figures beside ours."""
    if not result.comparisons:
        return
    yield table(
        ("figure name", "published n", "simulated n", "error n", "source source"),
        map(sections.compared, result.comparisons),
    )
    yield tag("p", "The error is of time: + is too slow, - too fast.", class_="soft small")


def breakdown(result: Result) -> Iterable[Markup]:
    """A stacked bar per device class and the mean, and the same as numbers."""
    if not result.breakdown:
        return
    step_s = max(sum(parts.values()) for parts in result.breakdown) or 1.0
    yield from _parts(_breakdown_rows(result), step_s)


def _parts(rows: Sequence[tuple[str, dict[str, float]]], step_s: float) -> Iterable[Markup]:
    """Seconds by part in shares of the step, as bars and as numbers."""
    keys = visible([parts for _, parts in rows], step_s)
    yield pictures.legend(palette.part(key) for key in keys)
    yield pictures.bars((name, _bar(parts, keys, step_s, name)) for name, parts in rows)
    numbers = [(name, *(f"{100 * parts.get(key, 0.0) / step_s:.1f}" for key in keys)) for name, parts in rows]
    titles = ["device class class", *(f"{palette.part(key)[1]} n" for key in keys)]
    yield tag("details", tag("summary", "in percent of the step"), table(titles, numbers))


def _breakdown_rows(result: Result) -> list[tuple[str, dict[str, float]]]:
    names = class_names(result.classes)
    shown = [(names[index], result.breakdown[index]) for index in sample(len(names))]
    if len(names) < 2:
        return shown
    return [("mean", mean(result.breakdown, [c.ranks for c in result.classes])), *shown]


def _bar(parts: dict[str, float], keys: Sequence[str], step_s: float, name: str) -> Markup:
    drawn = []
    for key in keys:
        slot, words = palette.part(key)
        seconds = parts.get(key, 0.0)
        drawn.append(
            (seconds / step_s, slot, f"{words}: {units.format(seconds, 'time')}, {100 * seconds / step_s:.1f} %")
        )
    return pictures.stacked(drawn, f"{name}: where the step goes")


def critical_path(result: Result) -> Iterable[Markup]:
    """What the step time is made of: the whole path and the device classes on which it spends most."""
    path = result.critical_path
    step_s = sum(path.seconds.values())
    if not 0 < step_s < math.inf:
        return
    named = list(zip(class_names(result.classes), path.by_class, strict=False))
    longest = sorted((row for row in named if row[1]), key=lambda row: -sum(row[1].values()))[:_MOST_STRETCHES]
    operations = wording.plural(len(path.operations), "operation")
    yield tag(
        "p", f"What the step waited for, from its first operation to its last: {operations}.", class_="soft small"
    )
    yield from _parts([("whole path", path.seconds), *(longest if len(longest) > 1 else [])], step_s)
    for made_of in reasons.tables(path):
        yield tag("h3", made_of.title)
        yield table(("what name", "time n", "of the step n", "share bar"), _shares(made_of, step_s))


def _shares(made_of: reasons.Table, step_s: float) -> Iterable[Sequence[str]]:
    for name, seconds in made_of.rows:
        bar = pictures.stacked([(seconds / step_s, palette.BLUE, name)], f"{name}: share of the step")
        yield name, units.format(seconds, "time"), wording.percent(seconds / step_s), bar


def sensitivities(result: Result) -> Iterable[Markup]:
    """What better parts of the machine would give, the most useful first."""
    found = sections.better_parts(result)
    best = found[0][2] if found else 0.0
    rows = [
        (*cells, pictures.stacked([(gain / best if best > 0 else 0.0, palette.GREEN, name)], name))
        for name, cells, gain in found
    ]
    if rows:
        yield table(("a better name", "change path", "step time n", "difference n", "saved bar"), rows)


def memory(result: Result) -> Iterable[Markup]:
    """Peaks by kind of every class, and of the fullest the ledger and the level over time."""
    if not result.memory:
        return
    fullest = max(result.memory, key=filled)
    slots = palette.memory(list(dict.fromkeys(kind for use in result.memory for kind in use.at_peak)))
    yield pictures.legend((slot, kind) for kind, slot in slots.items())
    yield pictures.bars(_memory_bars(result, slots))
    yield tag("p", "Dashed: the memory of the device.", class_="soft small")
    yield tag("h3", f"The fullest: {ledger.place_of(result, fullest)}")
    rows = [
        (kind, units.format(size, "bytes"), wording.percent(size / fullest.capacity if fullest.capacity else 0.0))
        for kind, size in sorted(fullest.at_peak.items(), key=lambda item: -item[1])
        if size > 0
    ]
    total = "together", units.format(fullest.peak, "bytes"), wording.percent(filled(fullest))
    yield table(("kind name", "at the peak n", "of the device n"), rows, total)
    yield from _level(result, fullest)
    for host, said in ((result.host, "The fullest host"), (result.nvme, "The NVMe drives of the fullest node")):
        if host is None:
            continue
        yield tag("h3", f"{said}, which the devices of its node share")
        shown = [(kind, units.format(size, "bytes")) for kind, size in host.at_peak.items()]
        size = f"{units.format(host.peak, 'bytes')} of {units.format(host.capacity, 'bytes')}"
        yield table(("kind name", "at the peak n"), shown, ("together", size))


def _memory_bars(result: Result, slots: dict[str, int]) -> Iterable[tuple[str, Markup]]:
    names = class_names(result.classes)
    scale = max(max(use.peak, use.capacity) for use in result.memory) * 1.02 or 1.0
    for index in sample(len(result.memory)):
        use = result.memory[index]
        parts = [
            (size / scale, slots[kind], f"{kind}: {units.format(size, 'bytes')}") for kind, size in use.at_peak.items()
        ]
        yield names[use.device_class], pictures.stacked(parts, "memory at its peak", use.capacity / scale)


def _level(result: Result, use: MemoryUse) -> Iterable[Markup]:
    if len(use.time) < 2:
        return
    end, top = whole(result.spans).end, max(use.peak, use.capacity) * 1.02
    label = f"memory over time, at most {units.format(use.peak, 'bytes')}"
    drawn = pictures.level(use.time, use.level, end, top, use.capacity, label)
    yield tag("h3", "Its memory over the step")
    yield timeline("step", 0.0, end / 1e12, leveled(scales.marks(0.0, top, "bytes"), drawn, ticks(0.0, end / 1e12)))
    if len(result.spans.start):
        yield tag("p", "Its time zooms and moves together with the pipeline's.", class_="soft small scripts")


def links(result: Result) -> Iterable[Markup]:
    """The kinds of link, the busiest first."""
    rows = [
        (
            name,
            f"{load.links:,}",
            units.format(load.bytes, "bytes"),
            units.format(load.capacity, "bandwidth"),
            wording.percent(load.utilisation),
            wording.percent(load.peak / load.capacity) if load.capacity else "",
            load.busiest,
            pictures.stacked(
                [(min(load.utilisation, 1.0), palette.BLUE, name)], f"{name} {wording.percent(load.utilisation)}"
            ),
        )
        for name, load in sections.busiest(result)
    ]
    if rows:
        yield table(
            (
                "kind name",
                "links n",
                "busiest carried n",
                "capacity n",
                "used n",
                "at its peak n",
                "the busiest name",
                "of the step bar",
            ),
            rows,
        )


def network(result: Result) -> Iterable[Markup]:
    """The network, its links the redder the longer they are busy."""
    if result.network is not None:
        yield fabric.svg(result.network)


def provenance(result: Result) -> Iterable[Markup]:
    """What simulated it, how ranks were folded, and the figures of the profiles with their sources."""
    known_values = [
        (key.replace("_", " "), _value(key, value)) for key, value in result.provenance.items() if _is_plain(value)
    ]
    yield table(("what name", "value path"), known_values, sortable=False)
    known = figures(result.scenario)
    if not known:
        return
    counts = {
        status: sum(figure.status == status for figure in known) for status in ("measured", "datasheet", "estimate")
    }
    listed = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    yield tag(
        "details",
        tag("summary", f"{wording.plural(len(known), 'figure')} of the profiles with their sources: {listed}"),
        table(("figure path", "value n", "status name", "source source"), known),
    )


def _value(key: str, value: object) -> str:
    """A fact; a number of something with commas, which what is typed again, such as a seed, has not."""
    return f"{value:,}" if isinstance(value, int) and key == "events" else str(value)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)
