"""What pages, plots and traces of a serving run share: objectives, words, series over time."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import Result, Service
from simulator.results.serving import iterations as of
from simulator.results.serving.service import FINISHED, REJECTED, SECOND, asked_before, latencies, span, tokens_per_bin
from simulator.scenario_fields import at, word

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LATENCIES = (
    ("ttft", "TTFT", "time to first token"),
    ("tpot", "TPOT", "time per output token"),
    ("itl", "ITL", "time between tokens"),
    ("e2el", "E2E", "arrival to last token"),
)
"""(key in names of metrics, short name, words) of the four latencies."""

WORDS = {
    "earlier": "answers of other models, judging",
    "queue": "waiting in the queue",
    "prefill": "prefill of its prompt",
    "handover": "handover to its decoder",
    "preempted": "preempted",
    "stalled": "stalled by other prompts",
    "peers": "waiting for peers that share experts",
    "decode": "decoding",
}
"""What the parts of a request's time are called."""


@dataclass(frozen=True, slots=True)
class Goals:
    """Objectives in seconds, None where nothing is promised; read from the scenario of a Result."""

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None

    def of(self, name: str) -> float | None:
        """The objective of a latency by its key in the names of metrics."""
        return {"ttft": self.ttft, "tpot": self.tpot, "e2el": self.e2e}.get(name)


class Cdf(NamedTuple):
    """Shares of a sample: `share[i]` of it is at most `value[i]` milliseconds."""

    value: Floats
    share: Floats


class Series(NamedTuple):
    """What happened in stretches of equal length; all columns have one row a stretch."""

    edge: Floats
    """Seconds from the first arrival at which each begins, and the end of the last: one more than the others have."""
    queue: Floats
    """Requests that wait, on average."""
    running: Floats
    """Requests that are worked on, on average."""
    usage: Floats
    """Share of all cache blocks in use, on average."""
    rate: Floats
    """Output tokens per second."""


def goals(result: Result) -> Goals:
    """The objectives of a scenario, as far as they are numbers."""
    return Goals(*(_positive(at(result.scenario, f"slo.{name}")) for name in ("ttft", "tpot", "e2e")))


def _positive(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value > 0
    return float(value) if known else None


def header_lines(result: Result) -> Iterable[str]:
    """What was simulated, as far as result and scenario say."""
    replicas = result.service.replicas if result.service is not None else ()
    counted: dict[tuple[str, int, str], int] = {}
    for replica in replicas:
        kind = ("" if replica.role == "both" else f"{replica.role} ", replica.devices, replica.device)
        counted[kind] = counted.get(kind, 0) + 1
    for (role, devices, device), number in counted.items():
        yield f"{number:,} {role}{'replica' if number == 1 else 'replicas'} of {devices:,} x {device}"
    if names := _models(result):
        yield " and ".join(name.partition(" (")[0] for name in names)
    if result.service is not None:
        yield f"{len(result.service.requests.arrival):,} requests"
    if name := word(result.scenario, "stack.name"):
        yield name.partition(" (")[0]


def _models(result: Result) -> list[str]:
    """Names of the models that answer."""
    if result.service is not None and result.service.models is not None:
        return list(dict.fromkeys(result.service.models.models))
    name = word(result.scenario, "model.name")
    return [name] if name else []


def cdfs(service: Service) -> dict[str, Cdf]:
    """The distribution of each latency by its key; those of empty samples are left out."""
    times = latencies(service.requests)
    gap = service.gaps.gap
    order = np.argsort(gap)
    found = {
        name: _cdf(np.sort(values))
        for name, values in (("ttft", times.ttft), ("tpot", times.tpot[times.several]), ("e2el", times.e2el))
    }
    counts = np.cumsum(service.gaps.count[order])
    if len(counts) and counts[-1]:
        found["itl"] = Cdf(gap[order] / 1e9, counts / counts[-1])
    return {name: found[name] for name, _, _ in LATENCIES if name in found and len(found[name].value)}


def _cdf(values: Floats) -> Cdf:
    return Cdf(values, np.arange(1, len(values) + 1) / max(len(values), 1))


def thinned(cdf: Cdf, most: int) -> Cdf:
    """A distribution of at most about `most` points, the ends kept, close together in value or share."""
    if len(cdf.value) <= most:
        return cdf
    by_share = np.searchsorted(cdf.share, np.linspace(0, 1, most // 2))
    by_value = np.searchsorted(cdf.value, np.linspace(cdf.value[0], cdf.value[-1], most // 2))
    kept = np.unique(np.clip(np.concatenate([[0], by_share, by_value, [len(cdf.value) - 1]]), 0, len(cdf.value) - 1))
    return Cdf(cdf.value[kept], cdf.share[kept])


def series(service: Service, bins: int) -> Series:
    """A run in `bins` stretches of equal length from its first arrival to its last token."""
    begin, end = span(service)
    width = max((end - begin + bins - 1) // bins, 1)
    edges = begin + width * np.arange(bins + 1)
    usage = np.zeros(bins)
    for number in range(len(service.replicas)):
        usage += _means(*_blocks(service, number, end), edges)
    blocks = sum(replica.blocks for replica in service.replicas)
    queue, running = _lives(service, edges, end)
    rate = tokens_per_bin(service, begin, width, bins) / (width / SECOND)
    return Series((edges - begin) / SECOND, queue, running, usage / max(blocks, 1), rate)


def _blocks(service: Service, number: int, over: int) -> tuple[Ints, Ints, Floats]:
    """(start, end, blocks) of stretches in which a replica has cache blocks in use, of a run that is `over` then.

    Rows of batches that take turns overlap, and each says what all of them use: it counts until the next one starts.
    Between two rows that follow at a distance blocks stay in use where a request runs or prefixes are cached: at most
    what the one before ended with and the next one begins with. After the last row cached prefixes stay.
    """
    rows, requests = service.replicas[number].iterations, service.requests
    order = np.argsort(rows.start, kind="stable")
    start, end = rows.start[order], of.ends(rows)[order]
    own, cached = (requests.replica == number) & (requests.scheduled >= 0), bool(requests.cached.any())
    finish = np.where(requests.status == FINISHED, requests.finish, over)[own]
    running = np.searchsorted(np.sort(requests.scheduled[own]), end, "right")
    running -= np.searchsorted(np.sort(finish), end, "right")
    after = np.append(start[1:], max(over, int(end.max(initial=0))))
    begun = np.append(rows.blocks[order][1:], np.iinfo(np.int64).max)
    held = (after > end) & ((running > 0) | cached)
    between = np.minimum(rows.last_blocks[order], begun)[held].astype(np.float64)
    return (
        np.concatenate([start, end[held]]),
        np.concatenate([np.minimum(end, after), after[held]]),
        np.concatenate([rows.mean_blocks[order], between]),
    )


def _lives(service: Service, edges: Ints, end: int) -> tuple[Floats, Floats]:
    """Requests that wait and requests that run, on average over each stretch; preempted ones wait, those that another
    model has answered before run until then."""
    requests = service.requests
    sent = requests.arrival + asked_before(service)
    known = (requests.status != REJECTED) & (requests.arrival >= 0)
    scheduled = np.where(requests.scheduled >= 0, requests.scheduled, end)[known]
    finish = np.where(requests.status == FINISHED, requests.finish, end)[known]
    ones = np.ones(len(finish))
    begin, over = service.pauses[:, 1], np.minimum(service.pauses[:, 2], end)
    paused = _means(begin, over, np.ones(len(begin)), edges)
    queue = _means(sent[known], np.maximum(scheduled, sent[known]), ones, edges) + paused
    running = _means(scheduled, finish, ones, edges) + _means(requests.arrival[known], sent[known], ones, edges)
    return queue, np.maximum(running - paused, 0.0)


def _means(start: Ints, end: Ints, level: Floats, edges: Ints) -> Floats:
    """Mean over each stretch of levels that last from start to end, added up."""
    area = of.accumulated(start, end, level * (end - start), edges)
    mean: Floats = np.maximum(np.diff(area) / np.diff(edges), 0.0)
    return mean


def bars_of(service: Service, most: int) -> tuple[Ints, dict[str, tuple[Floats, Floats]]]:
    """(rows of the first requests that finished, (begin, end) in seconds of the stretches of their lives by name)."""
    requests = service.requests
    rows = np.flatnonzero(requests.status == FINISHED)[:most]
    origin = span(service)[0]
    moments = [
        (column[rows] - origin) / SECOND
        for column in (
            requests.arrival,
            requests.arrival + asked_before(service),
            requests.scheduled,
            requests.first_token,
            requests.finish,
        )
    ]
    names: tuple[str, ...] = ("earlier", "queue", "prefill", "decode")
    if service.models is None:
        names, moments = names[1:], moments[1:]
    return rows, {name: (moments[i], moments[i + 1]) for i, name in enumerate(names)}
