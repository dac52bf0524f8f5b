"""A run of several jobs as events of a trace: all of them on the clock that they share.

A process with a track for each job and its steps, or its time from start to end; then each job's own processes under
its name, those of a training with the step that its Result shows, where it was; then a counter for each link on which
jobs met, with what each of them sent.
"""

import re
from collections.abc import Callable, Iterator

import numpy as np

from simulator.report.export.trace_text import as_json, metadata, microseconds, nanoseconds
from simulator.results.result import JobRecord, Meeting, Result
from simulator.units import to_ticks

_NUMBERS = re.compile(r'"(pid|tid|id|sort_index|ts)":(\d+)(?:\.(\d{3}))?')  # quotes inside of text are escaped
_MOST_STEPS = 10_000  # slices of a job


def events(result: Result, of_one: Callable[[Result], Iterator[str]]) -> Iterator[str]:
    """Every event as one JSON object; `of_one` gives those of one job from 0 on."""
    yield from _overview(result)
    placed = _Placed(2 + len(result.jobs))
    for job in result.jobs:
        yield from placed.all(of_one(job.result), job)
    yield from _meetings(result, placed.taken + 1)


class _Placed:
    """Gives the events of one job after the other numbers of their own."""

    def __init__(self, taken: int) -> None:
        """Numbers up to `taken` are of others."""
        self.taken = taken

    def all(self, made: Iterator[str], job: JobRecord) -> Iterator[str]:
        """The events of a job under its name and at its time."""
        first, later = self.taken, (job.shown_from + 500) // 1000
        prefix = f'"args":{{"name":"{as_json(job.name)[1:-1]}: '

        def number(found: re.Match[str]) -> str:
            key, whole, rest = found.groups()
            if key == "ts":
                moment = int(whole) * 1000 + int(rest or 0) + later
                return f'"ts":{moment // 1000}.{moment % 1000:03d}'
            place = first + int(whole)
            self.taken = max(self.taken, place)
            return f'"{key}":{place}'

        for event in made:
            moved = _NUMBERS.sub(number, event)
            if '"name":"process_name"' in moved:
                moved = moved.replace('"args":{"name":"', prefix, 1)
            yield moved


def _overview(result: Result) -> Iterator[str]:
    """A track for each job."""
    yield metadata("process_name", '"pid":1', {"name": "jobs"})
    yield metadata("process_sort_index", '"pid":1', {"sort_index": 0})
    for number, job in enumerate(result.jobs):
        place = f'"pid":1,"tid":{2 + number}'
        yield metadata("thread_name", place, {"name": job.name})
        yield metadata("thread_sort_index", place, {"sort_index": number})
        begin = to_ticks(job.start_s)
        steps = job.result.step_times[:_MOST_STEPS]
        ends = begin + np.cumsum(steps) if len(steps) else np.array([to_ticks(job.end_s)], np.int64)
        edges = nanoseconds(np.append(begin, ends))
        names = [f"step {i}" for i in range(len(ends))] if job.result.kind == "training" else [job.name]
        moments = zip(names, microseconds(edges[:-1]), microseconds(np.diff(edges)), strict=True)
        for name, start, length in moments:
            yield f'{{"ph":"X","cat":"job","name":{as_json(name)},{place},"ts":{start},"dur":{length}}}'


def _meetings(result: Result, process: int) -> Iterator[str]:
    """A counter for each link on which jobs met: bytes per second of each."""
    if not result.meetings:
        return
    yield metadata("process_name", f'"pid":{process}', {"name": "links on which jobs met"})
    yield metadata("process_sort_index", f'"pid":{process}', {"sort_index": process})
    for meeting in result.meetings:
        yield from _counter(meeting, process)


def _counter(meeting: Meeting, process: int) -> Iterator[str]:
    alike = f" and {meeting.links - 1:,} alike" if meeting.links > 1 else ""
    head = f'{{"ph":"C","name":{as_json(meeting.link + alike)},"pid":{process},"ts":'
    moments = microseconds(nanoseconds(np.array([moment for moment, _ in meeting.rates], np.int64)))
    for moment, (_, rates) in zip(moments, meeting.rates, strict=True):
        levels = {name: round(rates.get(name, 0.0)) for name in meeting.bytes}
        yield f'{head}{moment},"args":{as_json(levels)}}}'
