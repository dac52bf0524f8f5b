"""Where the time of a request goes, from its arrival to its last token.

The parts of a finished request sum to its end-to-end latency, to the tick:

* `queue`: from arrival to the begin of the first iteration that worked on it;
* `earlier`: of several models, answers that were thrown away, and judging; `queue` begins after them;
* `prefill`: from there to its first token: its own prompt, and whatever else these iterations worked on;
* `handover`: from the first token to the begin of the first decoding iteration, where another replica decodes it;
* `preempted`: pauses, from the last token before it lost its memory to the next token;
* `stalled`: what iterations between its tokens took longer because they worked on prompts of others;
* `peers`: what its replica waited, in the iterations of its prompt and of its tokens, for replicas that share experts
  with it; of the prompt only where the same replica decodes;
* `decode`: the rest.

`stalled` compares an iteration that works on prompts with the last one of the same replica before it that worked on
none (the first one after it where there is none before); an iteration that only works on prompts is a stall from begin
to end. Where a replica never decodes without prompts beside it, the two cannot be separated and all is `decode`. Where
batches overlap in the stages of a pipeline, stalls are averaged over the batches in flight.
"""

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import Iterations, Replica, Service
from simulator.results.serving import iterations as of
from simulator.results.serving.service import FINISHED, SECOND

PARTS = ("earlier", "queue", "prefill", "handover", "preempted", "stalled", "peers", "decode")
"""The parts in the order of a request's life; `earlier` only where there are several models."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def mean_request_time(service: Service) -> dict[str, float]:
    """Mean seconds of each part over the finished requests, 0 without any; sums to their mean end-to-end latency."""
    parts = request_time(service)
    return {name: float(values.mean()) / SECOND if len(values) else 0.0 for name, values in parts.items()}


def request_time(service: Service) -> dict[str, Floats]:
    """Picoseconds of each part of the finished requests, in the order of arrival."""
    requests = service.requests
    done = np.flatnonzero(requests.status == FINISHED)
    arrival, scheduled = requests.arrival[done], requests.scheduled[done]
    first, finish = requests.first_token[done], requests.finish[done]
    decoding = (finish - first).astype(np.float64)
    handover, preempted, stalled = _handover(service)[done], _paused(service)[done], _stalled(service)[done]
    handover = np.minimum(handover, decoding)
    preempted = np.minimum(preempted, decoding - handover)
    stalled = np.clip(stalled, 0.0, decoding - handover - preempted)
    before, between = (waited[done] for waited in _waited(service))
    between = np.clip(between, 0.0, decoding - handover - preempted - stalled)
    earlier = {}
    if service.models is not None:
        asked, judged = (ticks[done] for ticks in service.models.before(len(requests.arrival)))
        arrival, decoding = arrival + asked, decoding - judged
        earlier = {"earlier": (asked + judged).astype(np.float64)}
    return earlier | {
        "queue": (scheduled - arrival).astype(np.float64),
        "prefill": (first - scheduled) - before,
        "handover": handover,
        "preempted": preempted,
        "stalled": stalled,
        "peers": before + between,
        "decode": decoding - handover - preempted - stalled - between,
    }


def stalls(iterations: Iterations) -> Floats:
    """Picoseconds of each row that its decoding sequences lost to prompts."""
    length = of.lengths(iterations) - iterations.waited
    beside = iterations.prompt_tokens > 0
    pure = np.flatnonzero(~beside & (iterations.decodes > 0))
    lost = np.where(beside & (iterations.decodes == 0), length, 0).astype(np.float64)
    mixed = np.flatnonzero(beside & (iterations.decodes > 0))
    if not len(pure):
        return lost
    first = iterations.first - iterations.waited // np.maximum(iterations.count, 1)
    last = first + iterations.growth * np.maximum(iterations.count - 1, 0)
    before = np.searchsorted(pure, mixed) - 1
    usual = np.where(before >= 0, last[pure[before]], first[pure[0]])
    lost[mixed] = np.maximum(length[mixed] - iterations.count[mixed] * usual, 0)
    return lost


def _stalled(service: Service) -> Floats:
    """Picoseconds lost to prompts between the tokens of each request."""
    begin = service.requests.first_token + _handover(service).astype(np.int64)
    total = np.zeros(len(begin))
    for number, replica in enumerate(service.replicas):
        rows = replica.iterations
        total += _within(service, number, stalls(rows) / _depth(rows), begin, service.requests.finish)
    return total


def _waited(service: Service) -> tuple[Floats, Floats]:
    """Picoseconds in which the replica of each request waited for its peers, before its first token and after it."""
    requests = service.requests
    begin = requests.first_token + _handover(service).astype(np.int64)
    before, after = np.zeros(len(begin)), np.zeros(len(begin))
    for number, replica in enumerate(service.replicas):
        waited = replica.iterations.waited.astype(np.float64)
        if not waited.any():
            continue
        after += _within(service, number, waited, begin, requests.finish)
        if replica.role == "both":
            before += _within(service, number, waited, requests.scheduled, requests.first_token)
    return before, after


def _within(service: Service, number: int, lost: Floats, begin: Ints, end: Ints) -> Floats:
    """How much of `lost` in each row of a replica is between `begin` and `end` of each of its finished requests, pauses
    apart."""
    requests, rows = service.requests, service.replicas[number].iterations
    total = np.zeros(len(begin))
    mine = np.flatnonzero((requests.replica == number) & (requests.status == FINISHED))
    some = lost > 0
    lossy = rows.start[some], of.ends(rows)[some], lost[some]
    total[mine] = of.accumulated(*lossy, end[mine]) - of.accumulated(*lossy, begin[mine])
    paused = service.pauses[np.isin(service.pauses[:, 0], mine)]
    since, until = (np.clip(paused[:, i], begin[paused[:, 0]], end[paused[:, 0]]) for i in (1, 2))
    np.subtract.at(total, paused[:, 0], of.accumulated(*lossy, until) - of.accumulated(*lossy, since))
    return total


def _depth(rows: Iterations) -> float:
    """Batches in flight, on average over the time in which there are any."""
    if not len(rows.start):
        return 1.0
    end = of.ends(rows)
    reached = np.maximum.accumulate(end)
    covered = np.maximum(reached - np.maximum(rows.start, np.append(rows.start[0], reached[:-1])), 0).sum()
    return max(float((end - rows.start).sum()) / max(float(covered), 1.0), 1.0)


def _paused(service: Service) -> Floats:
    total = np.zeros(len(service.requests.arrival))
    np.add.at(total, service.pauses[:, 0], service.pauses[:, 2] - service.pauses[:, 1])
    return total


def _handover(service: Service) -> Floats:
    """From the first token to the first decoding iteration of requests whose cache moved."""
    waited = np.zeros(len(service.requests.arrival))
    moves = service.transfers
    if moves is None:
        return waited
    requests = service.requests
    for number, replica in enumerate(service.replicas):
        mine = (requests.replica[moves.request] == number) & (requests.status[moves.request] == FINISHED)
        moved = moves.request[mine & (requests.generated[moves.request] > 1)]
        waited[moved] = np.maximum(_joined(service, replica, moved) - requests.first_token[moved], 0)
    return waited


def _joined(service: Service, replica: Replica, requests: Ints) -> Ints:
    """When the first decoding iteration of requests began: as many iterations before their end as they got tokens."""
    row, start, end = of.written_out(replica.iterations)
    decoding = replica.iterations.decodes[row] > 0
    order = np.argsort(end[decoding], kind="stable")
    start, end = start[decoding][order], end[decoding][order]
    if not len(end):
        return service.requests.first_token[requests]
    missed = np.zeros(len(service.requests.arrival), np.int64)
    pauses = service.pauses
    np.add.at(missed, pauses[:, 0], _between(end, pauses[:, 1], pauses[:, 2]))
    last = np.searchsorted(end, service.requests.finish[requests], side="right")
    first = last - (service.requests.generated[requests] - 1) - missed[requests]
    return np.asarray(start[np.clip(first, 0, len(start) - 1)], np.int64)


def _between(end: Ints, after: Ints, before: Ints) -> Ints:
    """How many iterations ended strictly between two moments."""
    upto, since = np.searchsorted(end, before, side="left"), np.searchsorted(end, after, side="right")
    return np.asarray(upto - since, np.int64)
