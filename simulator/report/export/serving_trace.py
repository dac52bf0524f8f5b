"""A serving run as events of a trace: what replicas and requests did when.

A process per replica with its iterations, several alike as one slice, and a counter of queue, running sequences and
cache blocks; a process with a track for each request: waiting, prefill, decoding, pauses; and one for the moves of
caches. Of long runs only the beginning is there: the first `MOST_ROWS` slices of iterations, the first `MOST_REQUESTS`
requests; the names of the processes say so.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from simulator.report.export.trace_text import as_json, metadata, microseconds, nanoseconds
from simulator.results.result import Iterations, Replica, Service, Transfers
from simulator.results.serving import iterations as of

MOST_ROWS = 100_000
"""Slices of iterations of all replicas that are drawn at most; each comes with one event of its counter."""
MOST_REQUESTS = 5_000
"""Requests and transfers that are drawn at most."""

Ints = NDArray[np.int64]


def events(service: Service) -> Iterator[str]:
    """Every event of the trace as one JSON object."""
    until = _until(service)
    threads = len(service.replicas) + 3  # a thread numbered like a process would pass for its main thread
    for number, replica in enumerate(service.replicas):
        rows = np.flatnonzero(replica.iterations.start <= until)
        lanes = _lanes(replica.iterations, rows)
        count = int(lanes.max(initial=0)) + 1
        yield from _names(replica, number, threads, count, len(rows))
        yield from _iterations(replica, rows, [f'"pid":{number + 1},"tid":{threads + i}' for i in range(count)], lanes)
        yield from _counters(replica.iterations, rows, number + 1)
        threads += count
    yield from _requests(service, len(service.replicas) + 1)
    if service.transfers is not None:
        yield from _transfers(service.transfers, len(service.replicas) + 2)


def _until(service: Service) -> int:
    """The moment after which no iteration is drawn."""
    starts = [replica.iterations.start for replica in service.replicas]
    every = np.sort(np.concatenate(starts)) if starts else np.zeros(0, np.int64)
    return int(every[MOST_ROWS - 1]) if len(every) > MOST_ROWS else np.iinfo(np.int64).max


def _names(replica: Replica, number: int, threads: int, lanes: int, drawn: int) -> Iterator[str]:
    place, rows = f'"pid":{number + 1}', len(replica.iterations.start)
    cut = f" · the first {drawn:,} of {rows:,} slices" if drawn < rows else ""
    name = f"{replica.name} · {replica.role} · {replica.devices:,} x {replica.device}{cut}"
    yield metadata("process_name", place, {"name": name})
    yield metadata("process_sort_index", place, {"sort_index": number})
    for lane in range(lanes):
        word = "iterations" if lanes == 1 else f"iterations, batch {lane}"
        yield metadata("thread_name", f'{place},"tid":{threads + lane}', {"name": word})


def _lanes(iterations: Iterations, rows: Ints) -> Ints:
    """A lane for each row, so that rows of one lane do not overlap."""
    lanes = np.zeros(len(rows), np.int64)
    if not of.overlap(iterations):
        return lanes
    free: list[int] = []
    moments = zip(iterations.start[rows].tolist(), of.ends(iterations)[rows].tolist(), strict=True)
    for i, (start, end) in enumerate(moments):
        lane = next((number for number, moment in enumerate(free) if moment <= start), len(free))
        free[lane : lane + 1] = [end]
        lanes[i] = lane
    return lanes


def _iterations(replica: Replica, rows: Ints, places: list[str], lanes: Ints) -> Iterator[str]:
    """One complete event for each row, named by what it works on."""
    it = replica.iterations
    start, end = nanoseconds(it.start[rows]), nanoseconds(of.ends(it)[rows])
    columns = (it.count, it.decodes, it.prompt_tokens, it.prompts, it.context, it.blocks, it.waiting)
    events = zip(
        microseconds(start),
        microseconds(end - start),
        lanes.tolist(),
        *(c[rows].tolist() for c in columns),
        strict=True,
    )
    for begin, length, lane, count, decodes, tokens, prompts, context, blocks, waiting in events:
        kind = "decode" if not tokens else "decode and prefill" if decodes else "prefill"
        name = f"{kind} x {count}" if count > 1 else kind
        yield (
            f'{{"ph":"X","cat":"{kind}","name":"{name}",{places[lane]},"ts":{begin},"dur":{length},"args":{{'
            f'"iterations":{count},"decodes":{decodes},"prompt tokens":{tokens},"prompts":{prompts},'
            f'"context tokens":{context},"blocks":{blocks},"waiting":{waiting}}}}}'
        )


def _counters(iterations: Iterations, rows: Ints, process: int) -> Iterator[str]:
    """Queue, running sequences and blocks whenever one of them changes, and nothing where the replica idles."""
    levels = np.stack([iterations.waiting, iterations.decodes + iterations.prompts, iterations.blocks])[:, rows]
    changed = np.append(True, (levels[:, 1:] != levels[:, :-1]).any(axis=0))[: len(rows)]
    start, end = iterations.start[rows], of.ends(iterations)[rows]
    idle = np.flatnonzero(start[1:] > end[:-1]) if len(rows) else np.zeros(0, np.int64)
    head = f'{{"ph":"C","name":"load","pid":{process},"ts":'
    shown = zip(microseconds(nanoseconds(start[changed])), *levels[:, changed].tolist(), strict=True)
    for moment, waiting, running, blocks in shown:
        yield f'{head}{moment},"args":{{"waiting":{waiting},"running":{running},"blocks":{blocks}}}}}'
    last = [] if not len(rows) else [len(rows) - 1]
    for moment in microseconds(nanoseconds(end[np.append(idle, last).astype(np.int64)])):
        yield f'{head}{moment},"args":{{"waiting":0,"running":0}}}}'


def _requests(service: Service, process: int) -> Iterator[str]:
    """The lives of the first requests, each on its own track."""
    requests = service.requests
    known = np.flatnonzero((requests.status != 1) & (requests.arrival >= 0))
    shown = known[:MOST_REQUESTS]
    cut = f" · the first {len(shown):,} of {len(known):,}" if len(shown) < len(known) else ""
    yield metadata("process_name", f'"pid":{process}', {"name": f"requests{cut}"})
    yield metadata("process_sort_index", f'"pid":{process}', {"sort_index": process})
    drawn = set(shown.tolist())
    paused: dict[int, list[tuple[int, int]]] = {}
    for request, begin, end in service.pauses.tolist():
        if request in drawn:
            paused.setdefault(request, []).append((begin, end))
    moments = (requests.arrival, requests.scheduled, requests.first_token, requests.finish)
    rows = zip(shown.tolist(), *(column[shown].tolist() for column in moments), strict=True)
    for request, arrival, scheduled, first, finish in rows:
        head = f'"cat":"request","id":{request},"pid":{process},"tid":{process}'
        said = {
            "prompt": int(requests.prompt[request]),
            "output": int(requests.generated[request]),
            "cached": int(requests.cached[request]),
            "replica": int(requests.replica[request]),
        }
        last = max(arrival, scheduled, first, finish)
        stretches = [("queue", arrival, scheduled), ("prefill", scheduled, first), ("decode", first, finish)]
        yield _edge("b", f"request {request}", arrival, head, said)
        for name, begin, end in stretches:
            if begin >= 0 and end > begin:
                yield _edge("b", name, begin, head)
                for stop, again in paused.get(request, ()) if name == "decode" else ():
                    yield _edge("b", "preempted", stop, head)
                    yield _edge("e", "preempted", again, head)
                yield _edge("e", name, end, head)
        yield _edge("e", f"request {request}", last, head)


def _transfers(moves: Transfers, process: int) -> Iterator[str]:
    """The first moves of caches from prefill to decode replicas."""
    cut = f" · the first {MOST_REQUESTS:,} of {len(moves.request):,}" if len(moves.request) > MOST_REQUESTS else ""
    yield metadata("process_name", f'"pid":{process}', {"name": f"moves of caches{cut}"})
    yield metadata("process_sort_index", f'"pid":{process}', {"sort_index": process})
    columns = (moves.request, moves.start, moves.end, moves.bytes)
    rows = zip(*(column[:MOST_REQUESTS].tolist() for column in columns), strict=True)
    for number, (request, start, end, size) in enumerate(rows):
        head = f'"cat":"transfer","id":{number},"pid":{process},"tid":{process}'
        yield _edge("b", f"cache of request {request}", start, head, {"bytes": size})
        yield _edge("e", f"cache of request {request}", end, head)


def _edge(kind: str, name: str, moment: int, head: str, args: Mapping[str, float] | None = None) -> str:
    """Begin (`b`) or end (`e`) of a slice on a track of its own."""
    said = f',"args":{as_json(args)}' if args else ""
    when = (moment + 500) // 1000
    return f'{{"ph":"{kind}","name":"{name}",{head},"ts":{when // 1000}.{when % 1000:03d}{said}}}'
