"""Sentences of a frontier that all its pages share."""

from collections.abc import Sequence

from simulator import units
from simulator.report.plan.phrases import OBJECTIVES
from simulator.report.text import wording
from simulator.report.text.plain import clean
from simulator.results.documents.frontier import FrontierDocument, FrontierPoint

ACROSS = "tokens/s/user"
UP = "tokens/s/GPU"
STATES = {"meets": "within the objectives", "misses": "misses", "grows": "queue grows"}
TITLES = ("system", "tokens/s/user", "tokens/s/device", "requests/s", "P99 TTFT", "within", "")


def front(document: FrontierDocument) -> list[FrontierPoint]:
    """Points of the front, the most tokens for a device first."""
    points = [one for one in document.points if one.on_front]
    return sorted(points, key=lambda one: -one.tokens_per_s_per_device)


def front_of(document: FrontierDocument, mode: str) -> list[FrontierPoint]:
    """Points of the front of one kind of systems, by rising tokens per user."""
    kept: list[FrontierPoint] = []
    able = [one for one in document.points if one.mode == mode and one.state == "meets"]
    for one in sorted(able, key=lambda point: (-point.tokens_per_s_per_user, -point.tokens_per_s_per_device)):
        if not kept or one.tokens_per_s_per_device > kept[-1].tokens_per_s_per_device:
            kept.append(one)
    return kept[::-1]


def drawable(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """Points that have a place."""
    return [one for one in points if one.tokens_per_s_per_user > 0]


def headline(document: FrontierDocument) -> str:
    """The answer in a sentence."""
    if document.winner is not None:
        best = document.points[document.winner]
        far = f"{best.tokens_per_s_per_device:,.0f} tokens/s on each of {document.devices} devices"
        return f"{clean(best.name)}: {far}, {best.tokens_per_s_per_user:.1f} tokens/s for a user, {rate(best)}."
    if document.nearest is None:
        return "No layout meets the objectives, and none could be simulated."
    near = document.points[document.nearest]
    name, goal = min(near.objectives.items(), key=lambda item: item[1].attainment)
    far = "never" if goal.reached_s is None else units.format(goal.reached_s, "time")
    limit = f"{OBJECTIVES[name]} {units.format(goal.limit_s, 'time')}"
    met = f"{100 * goal.attainment:.1f} % of requests are within it, the wanted share within {far}"
    return f"No layout meets the objectives. Nearest: {clean(near.name)} at {rate(near)}: {limit}: {met}."


def rate(point: FrontierPoint) -> str:
    """Arrivals of the whole cluster."""
    return f"{units.plain(point.rate, 4)} requests/s"


def counted(document: FrontierDocument) -> list[str]:
    """Where the candidates went."""
    counts = document.counts
    said = [
        (counts.shape, "refused: the model or the cluster has no such layout"),
        (counts.memory, "ruled out by memory: weights or the longest request do not fit"),
        (counts.objectives, "ruled out by the objectives: even a request alone takes longer"),
        (counts.rate, "ruled out by their rate: they carry less than the lowest one tried"),
        (counts.bound, "ruled out by bounds: at no rate can they be above what was simulated"),
        (counts.unlikely, "left as unlikely: a guess has them behind, no bound rules them out"),
        (counts.simulated, "simulated"),
    ]
    return [f"{number:,} {what}" for number, what in said if number]


def doubt(document: FrontierDocument) -> str:
    """What bounds leave open."""
    if document.could is None or document.winner is None:
        return ""
    best = document.points[document.winner].tokens_per_s_per_device
    if document.could <= best:
        return ""
    return f"By bounds alone, those left as unlikely could reach up to {document.could:,.0f} tokens/s on a device."


def cells(document: FrontierDocument, point: FrontierPoint) -> tuple[str, ...]:
    """A row of the table."""
    p99 = point.metrics.get("p99_ttft_ms")
    return (
        clean(point.name),
        f"{point.tokens_per_s_per_user:.1f}",
        f"{point.tokens_per_s_per_device:,.0f}",
        units.plain(point.rate, 4),
        "-" if p99 is None else units.format(p99 / 1e3, "time"),
        wording.percent(point.attainment),
        ", ".join(filter(None, (mark(document, point), "run too short" if point.short else ""))),
    )


def mark(document: FrontierDocument, point: FrontierPoint) -> str:
    """Whether it is the winner or the runner-up."""
    for place, word in ((document.winner, "winner"), (document.runner_up, "runner-up"), (document.nearest, "nearest")):
        if place is not None and document.points[place] is point:
            return word
    return ""


def listed(document: FrontierDocument) -> list[FrontierPoint]:
    """The front, and the runner-up or the nearest where they are not on it."""
    own = front(document)
    extra = [document.points[place] for place in (document.runner_up, document.nearest) if place is not None]
    return own + [one for one in extra if not one.on_front]
