"""What pages and plots of a run of several jobs share: rows of jobs and of meetings, words."""

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from simulator import units
from simulator.metrics import METRICS
from simulator.report.serving import contents as serving_contents
from simulator.report.step import sections
from simulator.report.text import palette, wording
from simulator.report.text.grounds import grounds
from simulator.report.text.plain import clean
from simulator.results.ground import StatedGround, stated
from simulator.results.infeasibility import filled, remarks
from simulator.results.jobs import at_once, of_all, shared_by
from simulator.results.places import listed, place_in_words
from simulator.results.result import JobRecord, Meeting, Result
from simulator.results.summary import ordered_metrics
from simulator.run.kinds import KINDS
from simulator.scenario_fields import at, devices, node_of, number, parts_of, texts, word

MOST_MEETINGS = 8
"""Links on which jobs met that a page lists."""
_OF = {"training": "step", "serving": "request"}
_RATE = {"training": "tokens_per_s", "serving": "output_throughput"}


class Row(NamedTuple):
    """A job in a table."""

    name: str
    does: str
    devices: str
    of: str
    """What its times are of: a step, or a request."""
    alone: str
    beside: str
    slowdown: str
    share: float | None
    """The same as a number, None where it is not known."""
    rate: str
    """Tokens per second; of a job that serves those that come out."""
    memory: str
    fits: bool
    runs: str
    """From when until when."""


def rows(result: Result) -> list[Row]:
    """A row for each job."""
    return [_row(job) for job in result.jobs]


def _row(job: JobRecord) -> Row:
    kind, metrics = KINDS[job.result.kind], job.result.metrics
    alone, beside = wording.figures(kind.whole, [job.alone.get(kind.whole), metrics.get(kind.whole)])
    rate = _RATE[kind.name]
    start, end = units.format_alike([job.start_s, job.end_s], "time")
    return Row(
        job.name,
        kind.does,
        f"{len(job.devices):,}",
        _OF[kind.name],
        alone,
        beside,
        slowdown(job.slowdown),
        job.slowdown if math.isfinite(job.slowdown) else None,
        wording.figure(rate, metrics[rate]) if rate in metrics else "-",
        _memory(job.result),
        job.result.feasible,
        f"{start} to {end}",
    )


def _memory(result: Result) -> str:
    return wording.percent(max(map(filled, result.memory))) if result.memory else "-"


def slowdown(value: float) -> str:
    """In words; `-` where it is not known."""
    return wording.times(value) if math.isfinite(value) else "-"


def header_lines(result: Result) -> Iterator[str]:
    """What was simulated: the machine, the jobs, what disturbs them."""
    count = devices(result.scenario)
    used = len({device for job in result.jobs for device in job.devices})
    machine = f"{count:,} x {word(result.scenario, 'cluster.node.accelerator.name', 'device')}" if count else ""
    words = wording.plural(len(result.jobs), "job")
    free = f"{count - used:,} devices free" if count and count > used else ""
    yield " · ".join(filter(None, (words, machine, free)))
    yield from map(_disturbance, parts_of(result.scenario, "perturbations"))


def _disturbance(said: Mapping[str, Any]) -> str:
    """A perturbation in words: `slow-links from 2.00 s for 1.00 s: NIC 17, 10.0 % of the bandwidth left`; of links that
    flap also how long they are down and up."""
    start, lasts, factor = (number(said, key) for key in ("start", "lasts", "factor"))
    when = f" from {units.format(start or 0.0, 'time')}" + (f" for {units.format(lasts, 'time')}" if lasts else "")
    links = ", ".join(str(link) for link in texts(said, "links"))
    left = f", {wording.percent(factor)} of the bandwidth left" if factor is not None else ""
    up, down = (number(said, key) for key in ("up", "down"))
    if up is not None and down is not None:
        drawn = " on average" if word(said, "times", "regular") == "random" else ""
        left += f", {units.format(down, 'time')} down and {units.format(up, 'time')} up{drawn}"
    return f"{word(said, 'kind', 'perturbation')}{when}: {links}{left}".removesuffix(": ")


def what(result: Result, job: JobRecord) -> str:
    """What a job is and where it lies, in a line."""
    if job.result.kind == "serving":
        said = list(serving_contents.header_lines(job.result))
    else:
        said = list(sections.header_lines(job.result.scenario))
    where = place_in_words(job.devices, node_of(result.scenario)).partition(" of ")[2]
    return clean(" · ".join(filter(None, [*said, where])))


def going_on(result: Result) -> str:
    """Which jobs go on after what counts of them, so that others are not alone; empty where none does."""
    last = max((job.end_s for job in result.jobs), default=0.0)
    said = {word(job, "name"): at(job, "repeat") for job in parts_of(result.scenario, "jobs")}
    names = [
        job.name for job in result.jobs if job.result.kind == "training" and job.end_s < last and said.get(job.name)
    ]
    if not names:
        return ""
    return f"{', '.join(names)}: further steps follow, which are not counted, until all jobs are done"


def quoted(name: str) -> str:
    """A name as a shell takes it."""
    return shlex.quote(clean(name))


def ground(result: Result) -> list[str]:
    """What the jobs stand on: a sentence for all that stand on the same, or with their names."""
    return grounds([_Job(job.name, stated(job.result.ground)) for job in result.jobs])


class _Job(NamedTuple):
    """A job as `grounds` takes it."""

    name: str
    ground: StatedGround


def headline(result: Result) -> list[tuple[str, str]]:
    """(figure, words) of the run."""
    worst = max((job for job in result.jobs if job.slowdown == job.slowdown), key=lambda j: j.slowdown, default=None)
    name = f" ({clean(worst.name)})" if worst is not None and len(result.jobs) > 1 else ""
    words = {
        "makespan_s": "until all jobs are done",
        "worst_slowdown": f"at worst{name}",
        "mean_slowdown": "on average",
        "shared_link_s": "in which the busiest link was full for several",
    }
    found = []
    for figure, said in words.items():
        if figure in result.metrics:
            value = result.metrics[figure]
            text = slowdown(value) if figure.endswith("slowdown") else wording.figure(figure, value)
            found.append((text, said))
    return found


class Share(NamedTuple):
    """What a job had of a link while several sent, on average."""

    job: str
    rate: str
    share: float
    """Of the capacity."""


class Meet(NamedTuple):
    """A link on which jobs met, in a table."""

    link: str
    capacity: str
    together: str
    full: str
    shares: tuple["Share", ...]


def meetings(result: Result) -> list[Meet]:
    """A row for each link on which jobs met, those full for the longest time first."""
    return [_meet(meeting) for meeting in result.meetings]


def _meet(meeting: Meeting) -> Meet:
    had = at_once(meeting)
    texts = units.format_alike(list(had.values()), "bandwidth")
    shares = tuple(Share(name, text, had[name] / meeting.capacity) for name, text in zip(had, texts, strict=True))
    return Meet(
        named(meeting),
        units.format(meeting.capacity, "bandwidth"),
        units.format(meeting.together_s, "time"),
        units.format(meeting.full_s, "time"),
        shares,
    )


def named(meeting: Meeting) -> str:
    """`leaf up 0 and 7 alike`."""
    return clean(meeting.link) + (f" and {meeting.links - 1:,} alike" if meeting.links > 1 else "")


def charts(result: Result) -> list[tuple[str, Meeting]]:
    """Links to draw over time; those with the same load stand together under their names."""
    found: dict[tuple[object, ...], list[Meeting]] = {}
    for meeting in result.meetings:
        if len(meeting.rates) > 1:
            key = meeting.capacity, *((moment, *rates.items()) for moment, rates in meeting.rates)
            found.setdefault(key, []).append(meeting)
    return [(", ".join(map(named, alike)), alike[0]) for alike in found.values()]


def window(result: Result) -> tuple[float, float]:
    """Seconds over which links are drawn: from 0 until all is done and nothing is sent any more."""
    sent = [meeting.rates[-1][0] / units.TICKS_PER_SECOND for meeting in result.meetings if meeting.rates]
    return 0.0, max([*sent, *(job.end_s for job in result.jobs)], default=0.0) or 1.0


def slots(result: Result) -> dict[str, int]:
    """A colour for each job."""
    return {job.name: palette.DISTINCT[i % len(palette.DISTINCT)] for i, job in enumerate(result.jobs)}


def compared(job: JobRecord) -> list[str]:
    """The figures of a job that are held against those that it has alone."""
    return [name for name in ordered_metrics(job.result.metrics) if name in COMPARED and name in job.alone]


COMPARED = (
    "step_time_s",
    "tokens_per_s",
    "mfu",
    "bubble_fraction",
    "exposed_communication_s",
    "duration",
    "output_throughput",
    "request_goodput",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
    "mean_e2el_ms",
    "slo_attainment",
    "energy_j",
    "cost_usd",
)
"""Figures of a job that others may change."""


def difference(alone: float | None, beside: float | None) -> str:
    """How much more one is than the other; empty where that says nothing."""
    return wording.percent(beside / alone - 1, signed=True, decimals=2) if alone and beside is not None else ""


def label(name: str) -> str:
    """Words of a figure."""
    return METRICS[name].label if name in METRICS else name


def nodes(result: Result, job: JobRecord) -> str:
    """`0 to 3, 8`; empty where the scenario does not say how many devices a node has."""
    node = node_of(result.scenario)
    return listed(sorted({node(device) for device in job.devices}))


NOWHERE = "Nowhere: no two jobs sent at one time over a link that could be asked for more than it has."
"""Where there are no meetings."""


def left_open(result: Result) -> tuple[str, list[str]]:
    """A heading and what the scenario left open, of jobs alike once."""
    found = {job.name: sections.left_open(job.result)[1] for job in result.jobs}
    return "Assumptions: what the scenario left open", [*of_all(result, "assumptions"), *_by_jobs(found)]


def warnings(result: Result) -> list[str]:
    """Warnings, of jobs alike once."""
    found = {job.name: remarks(job.result) for job in result.jobs}
    return [*of_all(result, "warnings"), *_by_jobs(found)]


def _by_jobs(lines: Mapping[str, Iterable[str]]) -> list[str]:
    said = shared_by(lines).items()
    return [f"{', '.join(names)}: {line}" for names, found in said for line in found]
