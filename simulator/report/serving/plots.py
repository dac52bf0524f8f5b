"""Plots of a serving run with matplotlib; every function draws on the axes that it is given."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from simulator.report.serving import contents
from simulator.report.serving.contents import LATENCIES, WORDS, goals
from simulator.report.serving.html import BINS, MOST_POINTS, MOST_REQUESTS, SLOTS, busy_slots
from simulator.report.svg.figures import legend_below, thickness
from simulator.report.text import palette
from simulator.report.text.plain import clean
from simulator.results.result import Result, Service
from simulator.results.serving.request_time import request_time
from simulator.results.serving.service import attainment, latencies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"ttft": palette.BLUE, "tpot": palette.ORANGE, "itl": palette.GREEN, "e2el": palette.PURPLE}
_THICK = 1.6  # points of a request's line: 200 of them fill the plot
_GROUPS = 20  # of requests by the order of arrival


def latency(result: Result, service: Service, axes: "Axes") -> "Axes":
    """Distributions of TTFT, TPOT, ITL and E2E latency over milliseconds, with dashed lines at the objectives."""
    for key, cdf in contents.cdfs(service).items():
        thin = contents.thinned(cdf, MOST_POINTS)
        short = next(short for name, short, _ in LATENCIES if name == key)
        colour = palette.LIGHT[_COLOURS[key]]
        axes.step(thin.value, 100 * thin.share, where="post", color=colour, label=short)
        if (goal := goals(result).of(key)) is not None:
            axes.axvline(1e3 * goal, color=colour, linestyle="--", linewidth=1, label=f"objective of {short}")
    axes.set_xscale("log")
    axes.set_ylim(0, 100)
    axes.set_xlabel("latency in ms")
    axes.set_ylabel("% of requests (ITL: of tokens) that take at most that long")
    legend_below(axes)
    return axes


def requests_over_time(result: Result, service: Service, axes: "Axes") -> "Axes":
    """Requests in the queue and running, means over stretches of equal length."""
    drawn = contents.series(service, BINS)
    for level, slot, label in ((drawn.running, palette.BLUE, "running"), (drawn.queue, SLOTS["queue"], "in the queue")):
        axes.stairs(level, drawn.edge, color=palette.LIGHT[slot], label=label, linewidth=1.3)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time in s")
    axes.set_ylabel("requests")
    legend_below(axes)
    return axes


def cache_over_time(result: Result, service: Service, axes: "Axes") -> "Axes":
    """Cache blocks in use over time, in percent of all replicas' blocks."""
    drawn = contents.series(service, BINS)
    axes.stairs(100 * drawn.usage, drawn.edge, color=palette.LIGHT[palette.GREEN], fill=True, alpha=0.8)
    axes.set_ylim(0, 100)
    axes.set_xlabel("time in s")
    axes.set_ylabel("cache blocks in use, %")
    return axes


def tokens_over_time(result: Result, service: Service, axes: "Axes") -> "Axes":
    """Output tokens per second over time, with a dashed line at the throughput of the whole run."""
    drawn = contents.series(service, BINS)
    axes.stairs(drawn.rate, drawn.edge, color=palette.LIGHT[palette.PURPLE], linewidth=1.3)
    if (mean := result.metrics.get("output_throughput", float("nan"))) == mean:
        axes.axhline(mean, color="black", linestyle="--", linewidth=1, label="mean of the whole run")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time in s")
    axes.set_ylabel("output tokens per second")
    legend_below(axes)
    return axes


def lives(result: Result, service: Service, axes: "Axes") -> "Axes":
    """The first requests that finished, a row each: waiting, prefill, first to last token."""
    rows, stretches = contents.bars_of(service, MOST_REQUESTS)
    labels = {**WORDS, "decode": "first to last token"}
    for name, (begin, end) in stretches.items():
        colour = palette.LIGHT[SLOTS[name]]
        axes.hlines(np.arange(len(rows)), begin, end, color=colour, linewidth=_THICK, label=labels[name])
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    axes.set_xlabel("time in s")
    axes.set_ylabel("requests in the order of arrival")
    legend_below(axes)
    return axes


def request_parts(result: Result, service: Service, axes: "Axes") -> "Axes":
    """Mean time of a request by what it does, for groups of requests in the order of arrival."""
    parts = request_time(service)
    number = len(parts["queue"])
    groups = np.array_split(np.arange(number), min(_GROUPS, max(number, 1)))
    bottom = np.zeros(len(groups))
    for name, values in parts.items():
        means = np.array([values[group].mean() / 1e12 if len(group) else 0.0 for group in groups])
        if means.any():
            colour = palette.LIGHT[SLOTS[name]]
            axes.bar(np.arange(len(groups)), means, bottom=bottom, width=0.85, color=colour, label=WORDS[name])
            bottom += means
    axes.set_xticks([])
    axes.set_xlabel(f"requests in the order of arrival, {len(groups)} groups of equal size")
    axes.set_ylabel("mean time in s")
    legend_below(axes)
    return axes


def objectives(result: Result, service: Service, axes: "Axes") -> "Axes":
    """TTFT and TPOT of single requests in milliseconds with the box of the objectives."""
    times, promised = latencies(service.requests), goals(result)
    shown = np.unique(np.linspace(0, max(len(times.ttft) - 1, 0), MOST_POINTS).astype(int))[: len(times.ttft)]
    met = attainment(service, promised).get("slo", np.ones(len(times.ttft), bool))[shown]
    for good, slot, label in ((met, palette.BLUE, "met all objectives"), (~met, palette.VERMILION, "did not")):
        if good.any():
            x, y = times.ttft[shown][good], times.tpot[shown][good]
            axes.scatter(x, y, s=9, color=palette.LIGHT[slot], label=label, alpha=0.6, linewidths=0)
    marks = ((promised.ttft, axes.axvline, "TTFT", "--"), (promised.tpot, axes.axhline, "TPOT", ":"))
    for goal, line, short, dashes in marks:
        if goal is not None:
            line(1e3 * goal, color="black", linestyle=dashes, linewidth=1, label=f"objective of {short}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("TTFT in ms")
    axes.set_ylabel("TPOT in ms")
    if promised != contents.Goals():
        legend_below(axes)
    return axes


def replicas(result: Result, service: Service, axes: "Axes") -> "Axes":
    """What the busy time of each replica consists of, in seconds, up to the whole run."""
    shown = service.replicas[:MOST_REPLICAS]
    left = np.zeros(len(shown))
    for part, slot in busy_slots(service).items():
        seconds = np.array([replica.parts.get(part, 0.0) for replica in shown])
        colour = palette.LIGHT[slot]
        thick = 0.8 * thickness(len(shown))
        axes.barh(np.arange(len(shown)), seconds, left=left, height=thick, color=colour, label=clean(part))
        left += seconds
    axes.set_yticks(range(len(shown)), [clean(replica.name).replace("$", r"\$") for replica in shown], fontsize="small")
    axes.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    axes.set_xlim(0, max(result.metrics.get("duration", 0.0), float(left.max(initial=0.0)), 1e-12))
    axes.set_xlabel("busy time in s, of the whole run")
    legend_below(axes)
    return axes


MOST_REPLICAS = 40
"""Replicas in the plot of busy time."""

PLOTS: dict[str, Callable[[Result, Service, "Axes"], "Axes"]] = {
    "latency": latency,
    "requests-over-time": requests_over_time,
    "cache-over-time": cache_over_time,
    "tokens-over-time": tokens_over_time,
    "requests": lives,
    "request-time": request_parts,
    "objectives": objectives,
    "replicas": replicas,
}
"""The plots of a serving run by the names of their files."""
