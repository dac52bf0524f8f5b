"""A plan in words: what every page of one says, from the document that `study.plan.document` makes."""

from collections.abc import Iterable
from typing import NamedTuple

from simulator import units
from simulator.report.text import wording
from simulator.report.text.plain import clean
from simulator.results.documents.plan import PlanDocument, PlannedLayout, ProbedRate, ReachedObjective, StatedObjectives
from simulator.results.infeasibility import CLOSE
from simulator.results.prices import missing_price

OBJECTIVES = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "E2E"}
"""Short words of the objectives."""
_PROCESSES = {
    "poisson": "Poisson arrivals",
    "gamma": "gamma-distributed arrivals",
    "constant": "equal gaps",
    "varying": "arrivals at a varying rate",
    "trace": "arrivals of a trace",
}

_MANY_TIMES = 2.0  # from here on a multiple says more than a percentage


class Rated(NamedTuple):
    """A layout that carries some rate."""

    layout: PlannedLayout
    rate: float
    """The largest, per second."""
    best: ProbedRate
    """What was seen there."""

    @property
    def per_device(self) -> float:
        """The rate for each device, per second."""
        return self.layout.rate_per_device or 0.0


def rated(layout: PlannedLayout) -> Rated | None:
    """A layout with its rate; None where it has none."""
    if layout.rate is None or layout.at_best is None:
        return None
    return Rated(layout, layout.rate, layout.at_best)


def rate(value: float | None) -> str:
    """Arrivals per second with three significant digits; the page says of what."""
    return "-" if value is None else f"{wording.rate(value)}/s"


def largest(layout: PlannedLayout) -> str:
    """The largest rate of a layout; more than that where no upper end was found."""
    return _as_found(layout, layout.rate)


def largest_per_device(layout: PlannedLayout) -> str:
    """The largest rate for each device; more than that where no upper end was found."""
    return _as_found(layout, layout.rate_per_device)


def _as_found(layout: PlannedLayout, value: float | None) -> str:
    return ("> " if layout.state == "unbounded" else "") + rate(value)


def wanted(document: PlanDocument) -> str:
    """What was promised in a plan."""
    return promised(document.slo)


def promised(slo: StatedObjectives) -> str:
    """The promise: `90 % of the requests within TTFT 1.00 s and TPOT 50.0 ms`."""
    limits = [("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s), ("E2E", slo.e2e_s)]
    said = " and ".join(f"{name} {units.format(limit, 'time')}" for name, limit in limits if limit is not None)
    return f"{100 * slo.attainment:g} % of the requests within {said}"


def header_lines(document: PlanDocument) -> str:
    """What was planned."""
    first = document.layouts[0]
    parts = []
    if len(document.layouts) == 1:
        size = f"{wording.plural(first.replicas, 'replica')} on"
        parts.append(f"{size} {first.devices or '?'} x {first.system.device}")
    else:
        parts += [wording.plural(len(document.layouts), "layout"), first.system.device]
    parts.append(first.system.model.partition(" (")[0])
    if first.requests:
        parts.append(f"{first.requests:,} requests")
    if first.process:
        parts.append(_PROCESSES[first.process])
    parts.append(first.system.stack.partition(" (")[0])
    return clean(" · ".join(parts))


def verdict(document: PlanDocument, layout: PlannedLayout) -> str:
    """What was found for a layout, in a sentence."""
    best = layout.at_best
    if layout.state == "out of memory":
        return f"Does not fit into memory: {layout.reason}."
    if layout.state in ("all requests rejected", "no replica starts"):
        return f"Cannot serve: {layout.reason}."
    if layout.state == "refused":
        return f"Cannot be simulated: {layout.reason}."
    if layout.state == "unreachable" and best is not None:
        share = wording.percent(best.attainment)
        return (
            f"The objectives cannot be met: even {where(best)} only {share} of the requests meet them"
            f"{''.join(f'; {text}' for text in shortfalls(document, best))}."
        )
    if layout.state == "unbounded":
        return "The objectives are met at every rate that was tried."
    assert layout.rate is not None and layout.missed_at is not None and layout.binding is not None
    return (
        f"{layout.unit.capitalize()} may come at up to {units.plain(layout.rate, 4)}/s; "
        f"at {units.plain(layout.missed_at, 4)}/s too few meet the objectives, "
        f"most often for {OBJECTIVES[layout.binding]}."
    )


def where(probe: ProbedRate) -> str:
    """At which load something was seen."""
    return f"at {rate(probe.rate)}" if probe.rate else "one at a time"


def shortfalls(document: PlanDocument, probe: ProbedRate) -> Iterable[str]:
    """Objectives that too few requests keep to, and by how much."""
    share = document.slo.attainment
    for name, goal in probe.objectives.items():
        if goal.attainment < share:
            limit = f"{OBJECTIVES[name]} {units.format(goal.limit_s, 'time')}"
            yield f"{wording.percent(goal.attainment)} within {limit}, {100 * share:g} % {reached(goal)}"


def reached(goal: ReachedObjective) -> str:
    """How far from the limit the wanted share of the requests is."""
    if goal.reached_s is None:
        return "never finish"
    ratio = goal.reached_s / goal.limit_s - 1 if goal.limit_s else float("inf")
    many = ratio >= _MANY_TIMES - 1
    far = f"{wording.rate(1 + ratio)} times the limit" if many else wording.percent(ratio, signed=True)
    return f"within {units.format(goal.reached_s, 'time')} ({far})"


def target(document: PlanDocument) -> str:
    """Whether the rate that was asked for is carried, and by what; empty where none was."""
    asked = document.target_rate
    if asked is None:
        return ""
    layouts = document.layouts
    chosen = next((layout for layout in layouts if layout.cheapest), None)
    if chosen is None and any(layout.carries_target for layout in layouts):
        names = "; ".join(filter(None, (layout.name for layout in layouts if layout.carries_target)))
        by = f" by {clean(names)}" if names else ""
        return f"{rate(asked)} is carried{by} in a run too short to tell: ask for more requests (`requests.count`)."
    if chosen is None:
        known = [found for layout in layouts if (found := rated(layout)) is not None]
        most = max(known, key=lambda found: found.rate, default=None)
        best = f" The most is {rate(most.rate)}{_of(most.layout)}." if most is not None else ""
        return f"{units.plain(asked, 6)}/s is not carried{' by any layout' if len(layouts) > 1 else ''}.{best}"
    price = "" if chosen.usd_per_hour is None else f", {chosen.usd_per_hour:.2f} USD/h"
    size = f"{wording.plural(chosen.devices or 0, 'device')}{price}"
    if len(layouts) == 1:
        return f"{units.plain(asked, 6)}/s is carried{_of(chosen)}: {size}."
    return f"Cheapest that carries {units.plain(asked, 6)}/s:{_of(chosen, ' ')} on {size}."


def _of(layout: PlannedLayout, before: str = " by ") -> str:
    return f"{before}{clean(layout.name)}" if layout.name else ""


def figure(probe: ProbedRate | None, name: str) -> str:
    """A metric of a rate; a dash where there is none."""
    value = None if probe is None else probe.metrics.get(name)
    return "-" if value is None else wording.figure(name, value)


def explained(several: bool) -> str:
    """What the columns are, in a sentence or two."""
    said = "Replicas busy: share of the run in which they work on requests. "
    if several:
        return said + "Limited by: the objective that most requests miss at the next higher rate."
    return said + (
        "Goodput: requests within all objectives over the whole run, which lasts until the last one is done, after the "
        "last one has come; so it is at most the rate times their share."
    )


def without_price(document: PlanDocument) -> str:
    """Why costs are not known."""
    return clean(missing_price(dict.fromkeys(name for one in document.layouts for name in one.unpriced)))


def cells(found: Rated) -> tuple[str, str, str, str, str, str]:
    """Name, devices, largest rate, rate for each device, what limits it, how busy the replicas are."""
    layout = found.layout
    return (
        clean(layout.name),
        f"{layout.devices:,}",
        largest(layout),
        largest_per_device(layout),
        OBJECTIVES.get(layout.binding or "", "-"),
        figure(found.best, "utilisation"),
    )


def marks(layout: PlannedLayout) -> str:
    """What a layout is the best at."""
    said = ["cheapest"] if layout.cheapest else []
    return ", ".join([*said, *(["best per device"] if layout.best_per_device else [])])


def remark(document: PlanDocument, layout: PlannedLayout) -> str:
    """What a layout with a rate is the best at, that it misses the target, that its rate is in doubt."""
    missed = "" if layout.carries_target is not False else f"misses at {units.plain(document.target_rate or 0.0, 6)}/s"
    short = "" if layout.settled or layout.cheapest else "run too short"
    close = CLOSE if layout.memory_too_close else ""
    return ", ".join(filter(None, [marks(layout), missed, short, close]))


def ranked(document: PlanDocument) -> list[Rated]:
    """Layouts with a rate, the largest for each device first."""
    known = [found for layout in document.layouts if (found := rated(layout)) is not None]
    return sorted(known, key=lambda found: -found.per_device)


def without(document: PlanDocument) -> list[str]:
    """Layouts without a rate, those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for layout in document.layouts:
        if layout.rate is None:
            reasons.setdefault(_reason(layout), []).append(layout.name)
    return [clean(f"{'; '.join(names)}: {reason}") for reason, names in reasons.items()]


def _reason(layout: PlannedLayout) -> str:
    if layout.state == "cut":
        missed = f"misses at {rate(layout.missed_at)}, 95 % of the best for each device"
        return f"{missed} (`--every` finds its rate)"
    if layout.state != "unreachable" or layout.at_best is None:
        return f"{layout.state}: {layout.reason}"
    name, goal = min(layout.at_best.objectives.items(), key=lambda item: float(item[1].attainment))
    limit = f"{OBJECTIVES[name]} {units.format(goal.limit_s, 'time')}"
    return f"{limit} cannot be met; {where(layout.at_best)} {reached(goal)}"
