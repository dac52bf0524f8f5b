"""The HTML report of several jobs: a table of them, the links on which they met over time, then each job in full."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from simulator.report.html import parts as html_parts
from simulator.report.html.markup import Markup, joined, tag
from simulator.report.jobs import contents
from simulator.report.step import html_sections
from simulator.report.svg import pictures
from simulator.report.svg.layers import Layer, layers
from simulator.report.svg.pictures import Readout
from simulator.report.text import scales, wording
from simulator.report.text.plain import clean
from simulator.results.infeasibility import reason
from simulator.results.result import JobRecord, Meeting, Result

Named = Iterable[tuple[str, Iterable[Markup]]]
"""Names and contents of sections in their order."""
MOST_CHARTS = 6
"""Links whose load over time is drawn; those with the same load stand together."""
_ROOM = 1.08  # of the capacity, so that its line does not touch the edge
_FIGURES = ("makespan_s", "worst_slowdown", "mean_slowdown", "shared_link_s")


def title(result: Result) -> Markup:
    """Name, machine, the switch between light and dark, figures of all jobs."""
    about = (tag("p", clean(line), class_="soft") for line in contents.header_lines(result))
    stands = html_parts.ground(*contents.ground(result))
    head = html_parts.heading(result.name, *html_sections.changed(result), *about, *stands)
    shown = [name for name in _FIGURES if name in result.metrics]
    return joined(head, *_alarm(result), html_sections.tiles(result, shown))


def _alarm(result: Result) -> Iterable[Markup]:
    for job in result.jobs:
        if not job.result.feasible:
            yield tag("p", f"{job.name} cannot run: {reason(job.result)}", class_="alarm")


def sections(result: Result, of_job: Callable[[Result], Named]) -> Named:
    """The sections of the whole, then those of each job as `of_job` gives them for its kind."""
    yield "Jobs", jobs(result)
    yield "Where they met", meetings(result)
    yield "Published and simulated", html_sections.published(result)
    yield "Warnings", html_parts.notes(contents.warnings(result))
    name, lines = contents.left_open(result)
    yield name, html_parts.notes(lines)
    yield "Provenance", html_sections.provenance(result)
    for number, job in enumerate(result.jobs):
        yield job.name, _job(result, job)
        for section, pieces in of_job(job.result):
            yield f"{job.name}: {section}", (html_parts.scoped(piece, f"job{number}-") for piece in pieces)


def _job(result: Result, job: JobRecord) -> Iterable[Markup]:
    """What a job is, where it lies, and its figures beside those that it has alone."""
    yield tag("p", contents.what(result, job), class_="soft")
    yield from html_parts.ground(job.result.ground.sentence)
    rows = []
    for name in contents.compared(job):
        alone, beside = job.alone.get(name), job.result.metrics.get(name)
        shown = wording.figures(name, [alone, beside])
        rows.append((contents.label(name), *shown, contents.difference(alone, beside)))
    if rows:
        yield html_parts.table(("figure name", "alone n", "together n", "difference n"), rows)


def jobs(result: Result) -> Iterable[Markup]:
    """A row for each job."""
    rows = [
        (
            tag("span", row.name),
            row.does,
            row.devices,
            contents.nodes(result, job),
            f"{row.alone} a {row.of}",
            f"{row.beside} a {row.of}",
            row.slowdown,
            row.rate,
            row.memory if row.fits else f"{row.memory}, does not fit",
            row.runs,
        )
        for row, job in zip(contents.rows(result), result.jobs, strict=True)
    ]
    times = ("alone n", "together n", "slowdown n", "tokens/s n")
    yield html_parts.table(("job name", "does name", "devices n", "nodes name", *times, "memory n", "runs n"), rows)
    said = "Of a job that serves: a request from arrival to last token, and tokens that come out."
    yield tag("p", " ".join(filter(None, (said, _sentence(contents.going_on(result))))), class_="soft small")


def _sentence(text: str) -> str:
    return f"{text}." if text else ""


def meetings(result: Result) -> Iterable[Markup]:
    """The links on which jobs met: a table, and their load over time by job."""
    if len(result.jobs) < 2:
        return
    if not result.meetings:
        yield tag("p", contents.NOWHERE, class_="soft")
        return
    slots = contents.slots(result)
    yield pictures.legend((slots[job.name], job.name) for job in result.jobs)
    rows = [_row(meet, slots) for meet in contents.meetings(result)]
    titles = ("link name", "has n", "several sent n", "of it full n", "each meanwhile name", "share bar")
    yield html_parts.table(titles, rows)
    begin, end = contents.window(result)
    charts = contents.charts(result)
    drawn = [_chart(names, meeting, slots, (begin, end)) for names, meeting in charts[:MOST_CHARTS]]
    if drawn:
        yield tag("h3", "What they carried over time")
        yield html_parts.timeline("clock", begin, end, *drawn)
        left = f" The first {MOST_CHARTS} of {len(charts)}." if len(charts) > MOST_CHARTS else ""
        text = "Jobs on each other, dashed what the link has; of very many intervals means over equal stretches."
        yield tag("p", text + left, class_="soft small")


def _row(meet: contents.Meet, slots: dict[str, int]) -> Sequence[str]:
    had = ", ".join(f"{clean(share.job)} {share.rate}" for share in meet.shares)
    parts = [(s.share, slots[s.job], f"{s.job}: {s.rate}, {wording.percent(s.share)}") for s in meet.shares]
    bar = pictures.stacked(parts, f"{meet.link}: shares while several sent", limit=1.0)
    return meet.link, meet.capacity, meet.together, meet.full, had, bar


def _chart(names: str, meeting: Meeting, slots: dict[str, int], window: tuple[float, float]) -> Markup:
    """The load of a link by job, on each other."""
    top = meeting.capacity * _ROOM
    begin, end = window
    moments = np.array([moment / 1e12 for moment, _ in meeting.rates])
    across = np.clip((moments - begin) / max(end - begin, 1e-12), 0.0, 1.0)
    stack = [
        Layer(name, slot, np.array([by.get(name, 0.0) for _, by in meeting.rates]) / top)
        for name, slot in slots.items()
        if name in meeting.bytes
    ]
    drawn = layers(across, stack, meeting.capacity / top, f"load of {names}", Readout(top, "B/s"))
    upward = scales.marks(0.0, top, "bandwidth")
    return tag("div", tag("h3", names), html_parts.leveled(upward, drawn, html_parts.ticks(begin, end)))
