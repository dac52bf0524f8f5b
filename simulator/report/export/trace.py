"""A Result as a trace that Perfetto (https://ui.perfetto.dev) and chrome://tracing open.

One process per device class, one thread per lane, arrows where a lane waited for another class, counters of device
memory and of what the links carry; of a service and of several jobs what `serving_trace` and `jobs_trace` say. The form
is the JSON of the "Trace Event Format" (Chromium project). Its times are microseconds; we write whole nanoseconds,
rounding the two ends of an operation and not its length, because Perfetto drops an event that overlaps the one before
it on the same thread, be it by a nanosecond of rounding.

Events are put together from strings, for `json.dumps` on each would take several times as long.
"""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from simulator.report.export import jobs_trace, serving_trace
from simulator.report.export.trace_text import as_json, metadata, microseconds, nanoseconds
from simulator.results.link_rates import over_time
from simulator.results.long_run import STATES, LongRun
from simulator.results.result import MemoryUse, Result, Spans
from simulator.results.summary import class_names
from simulator.results.writing import replacing

_PER_WRITE = 20_000  # events joined to one string
_MOST_STEPS = 10_000  # of a link's counter

Ints = NDArray[np.int64]


def write_trace(result: Result, path: str | Path) -> None:
    """Write the trace of a Result, compressed where the name ends with `.gz`; whole or not at all.

    Raises InputError where the file cannot be written.
    """
    with replacing(path) as file, _compressed(file, str(path).endswith(".gz")) as stream:
        stream.write(b'{"displayTimeUnit":"ns","otherData":' + as_json(_about(result)).encode() + b',"traceEvents":[\n')
        batch: list[str] = []
        separator = ""
        for event in events(result):
            batch.append(event)
            if len(batch) == _PER_WRITE:
                stream.write((separator + ",\n".join(batch)).encode())
                batch, separator = [], ",\n"
        stream.write((separator + ",\n".join(batch) + "\n]}\n").encode() if batch else b"\n]}\n")


def events(result: Result) -> Iterator[str]:
    """Every event of the trace as one JSON object: names, operations, arrows, memory, links."""
    if result.jobs:
        yield from jobs_trace.events(result, events)
        return
    if result.service is not None:  # its replicas are the processes
        yield from serving_trace.events(result.service)
        return
    yield from _process_names(result)
    places = _places(result)
    yield from _thread_names(result.spans, places)
    yield from _operations(result.spans, places)
    yield from _arrows(result.spans, places)
    for use in result.memory:
        yield from _memory(use)
    yield from _links(result)
    if result.run is not None:
        yield from _run(result.run, len(result.classes) + len(result.spans.lanes) + 2)


def _run(run: LongRun, process: int) -> Iterator[str]:
    """What the whole run does, in a process of its own: the step of the others is its first picoseconds."""
    place = f'"pid":{process},"tid":{process}'
    yield metadata("process_name", f'"pid":{process}', {"name": "the whole run, of which the step above is one"})
    yield metadata("process_sort_index", f'"pid":{process}', {"sort_index": process})
    yield metadata("thread_name", place, {"name": "run"})
    start = microseconds(run.bands[:, 0])
    lasts = microseconds(run.bands[:, 1] - run.bands[:, 0])
    for begin, wide, state in zip(start, lasts, run.bands[:, 2].tolist(), strict=True):
        yield f'{{"ph":"X","name":"{STATES[state]}",{place},"ts":{begin},"dur":{wide}}}'


@contextmanager
def _compressed(file: IO[bytes], wanted: bool) -> Iterator[IO[bytes]]:
    if not wanted:
        yield file
        return
    # Neither name nor time in the header: the same Result gives the same bytes.
    with gzip.GzipFile("", "wb", compresslevel=4, fileobj=file, mtime=0) as stream:
        yield cast(IO[bytes], stream)


def _about(result: Result) -> dict[str, str]:
    about = {"scenario": result.name, "kind": result.kind}
    return about | {key: str(value) for key, value in result.provenance.items() if not isinstance(value, (dict, list))}


def _process_names(result: Result) -> Iterator[str]:
    for index, (name, place) in enumerate(zip(class_names(result.classes), result.classes, strict=True)):
        ranks = (
            f" · {place.ranks:,} ranks, rank {place.example:,} shown"
            if place.ranks > 1
            else f" · rank {place.example:,}"
        )
        yield metadata("process_name", f'"pid":{index + 1}', {"name": name + ranks})
        yield metadata("process_sort_index", f'"pid":{index + 1}', {"sort_index": index})


def _thread_names(spans: Spans, places: list[str]) -> Iterator[str]:
    for lane, ((_, name), place) in enumerate(zip(spans.lanes, places, strict=True)):
        yield metadata("thread_name", place, {"name": name})
        yield metadata("thread_sort_index", place, {"sort_index": lane})


def _places(result: Result) -> list[str]:
    """Process and thread of each lane; a thread numbered like a process would pass for its main thread."""
    first = len(result.classes) + 1
    return [f'"pid":{process + 1},"tid":{first + lane}' for lane, (process, _) in enumerate(result.spans.lanes)]


def _operations(spans: Spans, places: list[str]) -> Iterator[str]:
    """One complete event per operation, named by its kind and its microbatch."""
    start, end = nanoseconds(spans.start), nanoseconds(spans.end)
    names = [as_json(name)[1:-1] for name in spans.names]
    kinds = [f'{{"ph":"X","cat":"{name}","name":"{name}' for name in names]
    moments = microseconds(start), microseconds(end - start)
    labels = (column.tolist() for column in (spans.lane, spans.name, spans.stage, spans.microbatch))
    rows, word = zip(*moments, *labels, strict=True), spans.stage_word
    for begin, length, lane, name, stage, micro in rows:
        when = f'{places[lane]},"ts":{begin},"dur":{length}'
        if micro >= 0:
            yield f'{kinds[name]} {micro}",{when},"args":{{"{word}":{stage},"microbatch":{micro}}}}}'
        else:
            args = f'"{word}":{stage}' if stage >= 0 else ""
            yield f'{kinds[name]}",{when},"args":{{{args}}}}}'


def _arrows(spans: Spans, places: list[str]) -> Iterator[str]:
    """Both ends of each arrow, inside the two operations and the second later than the first.

    Perfetto binds an end of an arrow to the operation around it and forgets an arrow that arrives before it left, so
    that two operations that start together need a nanosecond between the ends; without room for it there is no arrow.
    """
    start, end = nanoseconds(spans.start), nanoseconds(spans.end)
    source, target = spans.flows[:, 0], spans.flows[:, 1]
    leaves = start[source]
    arrives = np.maximum(start[target], leaves + 1)
    drawn = np.flatnonzero((leaves < end[source]) & (arrives < end[target]))
    lanes = spans.lane[source[drawn]].tolist(), spans.lane[target[drawn]].tolist()
    rows = zip(*lanes, microseconds(leaves[drawn]), microseconds(arrives[drawn]), strict=True)
    for arrow, (origin, goal, begin, finish) in enumerate(rows):
        yield f'{{"ph":"s","cat":"wait","name":"wait","id":{arrow},{places[origin]},"ts":{begin}}}'
        yield f'{{"ph":"f","bp":"e","cat":"wait","name":"wait","id":{arrow},{places[goal]},"ts":{finish}}}'


def _memory(use: MemoryUse) -> Iterator[str]:
    head = f'{{"ph":"C","name":"device memory","pid":{use.device_class + 1},"ts":'
    for moment, level in zip(microseconds(nanoseconds(use.time)), use.level.tolist(), strict=True):
        yield f'{head}{moment},"args":{{"bytes":{level:.0f}}}}}'


def _links(result: Result) -> Iterator[str]:
    """A process of its own with a counter for each kind of link: the rate of the busiest one over the step."""
    known = [load for load in result.links if load.by_operation]
    if not known or not len(result.spans.start):
        return
    process = len(result.classes) + len(result.spans.lanes) + 1
    yield metadata("process_name", f'"pid":{process}', {"name": "links · the busiest of each kind"})
    yield metadata("process_sort_index", f'"pid":{process}', {"sort_index": len(result.classes)})
    for load in known:
        rates = over_time(result.spans, load).at_most(_MOST_STEPS)
        head = f'{{"ph":"C","name":{as_json(load.name)},"pid":{process},"ts":'
        for moment, rate in zip(microseconds(nanoseconds(rates.time)), rates.rate.tolist(), strict=True):
            yield f'{head}{moment},"args":{{"bytes/s":{rate:.0f}}}}}'
