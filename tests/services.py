"""Serving runs for tests: a toy engine that batches whole prompts with decodes, every token written down.

It is independent of the package's own: it keeps the moment of each token of each request, from which tests compute
what the figures should be.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from simulator.results.metrics import compare
from simulator.results.result import (
    Iterations,
    Replica,
    RequestRecords,
    Result,
    Service,
    Spans,
    TokenGaps,
    Transfers,
)
from simulator.results.serving.service import serving_metrics

MS = 10**9
GB = 1e9
BASE, PER_DECODE, PER_PROMPT_TOKEN, PER_CONTEXT_TOKEN = 20 * MS, 100_000_000, 40_000_000, 20_000
REJECT_ABOVE = 4000


@dataclass
class Asked:
    """A request in the toy engine."""

    number: int
    arrival: int
    prompt: int
    output: int
    tokens: list[int] = field(default_factory=list)
    scheduled: int = -1
    preemptions: int = 0
    pauses: list[tuple[int, int]] = field(default_factory=list)
    status: int = 2

    @property
    def context(self) -> int:
        """Tokens in the cache."""
        return self.prompt + len(self.tokens)


@dataclass(frozen=True)
class Slo:
    """Objectives in seconds."""

    ttft: float | None = 0.5
    tpot: float | None = 0.05
    e2e: float | None = None


class Engine:
    """One replica: each iteration decodes all that run and takes in at most one prompt."""

    def __init__(self, asked: list[Asked], blocks: int, most: int, leap: bool) -> None:
        self.todo = deque(asked)
        self.queue: deque[Asked] = deque()
        self.running: list[Asked] = []
        self.blocks, self.most, self.leap = blocks, most, leap
        self.rows: list[list[int]] = []
        self.held: list[list[tuple[int, int]]] = []
        """(blocks, ticks) of each iteration of each row."""
        self.now = 0
        while self.todo or self.queue or self.running:
            self.step()

    def used(self, ahead: int = 0) -> int:
        """Blocks of 16 tokens that running sequences hold when each has `ahead` tokens more."""
        return sum(-(-(one.context + ahead) // 16) for one in self.running)

    def step(self) -> None:
        """Wait for work, make room, run an iteration."""
        if not self.queue and not self.running:
            self.now = max(self.now, self.todo[0].arrival)
        while self.todo and self.todo[0].arrival <= self.now:
            one = self.todo.popleft()
            one.status = 1 if one.prompt > REJECT_ABOVE else 2
            self.queue.extend([one] if one.status == 2 else [])
        while self.used(1) > self.blocks:
            victim = self.running.pop()
            victim.preemptions += 1
            victim.pauses.append((victim.tokens[-1], -1))
            self.queue.appendleft(victim)
        if self.queue or self.running:
            self.iterate()

    def iterate(self) -> None:
        """One iteration and its row, joined with the one before it where that is allowed."""
        head = self.queue[0] if self.queue and len(self.running) < self.most else None
        if head is not None and self.running and self.used(1) + head.context // 16 + 1 > self.blocks:
            head = None
        tokens = head.context if head else 0
        context = sum(one.context for one in self.running)
        blocks = min(self.used() + (-(-tokens // 16)), self.blocks)
        last = BASE + PER_DECODE * len(self.running) + PER_PROMPT_TOKEN * tokens + PER_CONTEXT_TOKEN * context
        growth = PER_CONTEXT_TOKEN * len(self.running)
        waiting = len(self.queue) - (head is not None)
        row = [self.now, 1, last, growth, len(self.running), tokens, int(head is not None), context, blocks, waiting]
        if self.leap and self.continues(row):
            self.rows[-1][1] += 1
            self.held[-1].append((blocks, last))
        else:
            self.rows.append(row)
            self.held.append([(blocks, last)])
        if head is not None and head.scheduled < 0:
            head.scheduled = self.now
        self.now += last
        for one in [*self.running, *([self.queue.popleft()] if head else [])]:
            self.emit(one)
        if head is not None and head.status == 2:
            self.running.append(head)
        self.running = [one for one in self.running if one.status == 2]

    def continues(self, row: list[int]) -> bool:
        """Whether an iteration belongs to the row before it."""
        if not self.rows or row[5] or self.rows[-1][5]:
            return False
        start, count, first, growth, decodes = self.rows[-1][:5]
        end = start + count * first + growth * (count * (count - 1) // 2)
        return (end, first + count * growth, growth, decodes) == (row[0], row[2], row[3], row[4])

    def emit(self, one: Asked) -> None:
        """A token of one request comes out now."""
        if one.pauses and one.pauses[-1][1] < 0:
            one.pauses[-1] = (one.pauses[-1][0], self.now)
        one.tokens.append(self.now)
        if len(one.tokens) == one.output:
            one.status = 0


def asked(count: int = 200, rate: float = 4.0, seed: int = 0) -> list[Asked]:
    """Poisson arrivals with lognormal lengths; a few prompts are too long, a few answers have one token."""
    random = np.random.default_rng(seed)
    arrival = np.rint(np.cumsum(random.exponential(1 / rate, count)) * 1e12).astype(np.int64)
    prompt = np.clip(random.lognormal(5.5, 1.0, count), 1, REJECT_ABOVE).astype(np.int64)
    output = np.clip(random.lognormal(4.0, 0.9, count), 1, 600).astype(np.int64)
    prompt[::50], output[::17] = REJECT_ABOVE + 1, 1
    return [Asked(i, *map(int, row)) for i, row in enumerate(zip(arrival, prompt, output, strict=True))]


def serve(
    requests: list[Asked], replicas: int = 2, blocks: int = 300, most: int = 32, leap: bool = True, **other: Any
) -> Service:
    """The requests served round-robin; `requests` then hold the moments of their tokens."""
    engines = [Engine(requests[i::replicas], blocks, most, leap) for i in range(replicas)]
    gaps = [np.diff(one.tokens) for one in requests if len(one.tokens) > 1]
    gap, count = np.unique(np.concatenate(gaps) if gaps else np.zeros(0, np.int64), return_counts=True)
    pauses = [(one.number, *pause) for one in requests for pause in one.pauses]
    return replace(
        Service(
            records(requests, replicas),
            tuple(replica(f"replica {i}", engine) for i, engine in enumerate(engines)),
            TokenGaps(gap.astype(np.int64), count.astype(np.int64)),
            np.array(pauses, np.int64).reshape(-1, 3),
        ),
        **other,
    )


def records(requests: list[Asked], replicas: int) -> RequestRecords:
    """The columns of finished and rejected requests."""

    def column(values: list[int]) -> Any:
        return np.array(values, np.int64)

    return RequestRecords(
        arrival=column([one.arrival for one in requests]),
        scheduled=column([one.scheduled for one in requests]),
        first_token=column([one.tokens[0] if one.tokens else -1 for one in requests]),
        finish=column([one.tokens[-1] if one.status == 0 else -1 for one in requests]),
        prompt=column([one.prompt for one in requests]),
        output=column([one.output for one in requests]),
        generated=column([len(one.tokens) for one in requests]),
        cached=column([one.prompt // 4 for one in requests]),
        preemptions=column([one.preemptions for one in requests]),
        replica=column([one.number % replicas if one.tokens else -1 for one in requests]),
        status=column([one.status for one in requests]),
        priority=column([0] * len(requests)),
    )


def replica(name: str, engine: Engine, **other: Any) -> Replica:
    """What an engine did, as a replica of two devices."""
    held = iterations(*map(tuple, engine.rows))
    means = [sum(used * ticks for used, ticks in row) / sum(ticks for _, ticks in row) for row in engine.held]
    made = replace(
        held,
        mean_blocks=np.array(means),
        last_blocks=np.array([row[-1][0] for row in engine.held], np.int64),
    )
    lengths = (n * first + growth * (n * (n - 1) // 2) for _, n, first, growth, *_ in engine.rows)
    busy = sum(lengths) / 1e12
    parts = {"linear": 0.6 * busy, "attention": 0.2 * busy, "tp communication": 0.15 * busy, "host": 0.05 * busy}
    return replace(Replica(name, "all", "both", 2, "A100", engine.blocks, 16, 7 * GB, made, busy, parts), **other)


def iterations(*rows: tuple[int, ...]) -> Iterations:
    """Rows of (start, count, first, growth, decodes, prompt tokens, prompts, context, blocks, waiting), in which the
    blocks do not change, nobody waits for peers and no batch is static."""
    table = np.array(rows, np.int64).reshape(-1, 10)
    columns = [np.ascontiguousarray(column) for column in table.T]
    none = np.zeros(len(table), np.int64)
    return Iterations(*columns, none, columns[8].astype(np.float64), columns[8], none)


def serving_result(service: Service | None = None, slo: Slo | None = Slo(), **changes: Any) -> Result:
    """A run with everything that a page can show."""
    service = service if service is not None else serve(asked())
    energy = sum(replica.devices * (60.0 * replica.busy + 272.0 * replica.busy) for replica in service.replicas)
    metrics = serving_metrics(service, slo, prices={"A100": 1.1 / 3600}, energy_j=energy, peak_memory=72 * GB)
    none, short = np.zeros(0, np.int64), np.zeros(0, np.int32)
    result = Result(
        kind="serving",
        name="llama-2-7b chat on two A100",
        metrics=metrics,
        classes=(),
        breakdown=(),
        spans=Spans(none, none, short, short, short, short, (), ()),
        memory=(),
        comparisons=(
            compare("mean_ttft_ms", "700 ms", metrics["mean_ttft_ms"], "a paper, Table 2"),
            compare("output_throughput", "250 /s", metrics["output_throughput"], "a paper, Table 2", "at 4 requests/s"),
        ),
        warnings=("the queue grows: 4 requests/s are more than the replicas serve",),
        assumptions=("kv_cache.block_size is not given: 16 (vLLM)",),
        provenance={"version": "0.1.0", "seed": 0, "scenario": "0f3a" * 4, "events": 12345},
        scenario={
            "name": "llama-2-7b chat on two A100",
            "model": {"name": "Llama 2 7B"},
            "stack": {"name": "vLLM (0.6)"},
            "cluster": {"nodes": 1, "node": {"devices": 8, "accelerator": {"name": "A100"}}},
            "slo": {"ttft": slo.ttft, "tpot": slo.tpot, "e2e": slo.e2e, "attainment": 0.9} if slo else None,
            "serving": {"parallel": {"tp": 2, "pp": 1}},
        },
        service=service,
    )
    return replace(result, **changes)


def disaggregated() -> Service:
    """Two requests whose prompts run on one replica and whose answers on another."""
    prefill = iterations((0, 1, 100, 0, 0, 10, 1, 0, 1, 1), (100, 1, 200, 0, 0, 20, 1, 0, 2, 0))
    decode = iterations((150, 3, 20, 0, 1, 0, 0, 11, 1, 0), (350, 4, 30, 2, 1, 0, 0, 21, 2, 0))
    column = np.array
    requests = RequestRecords(
        arrival=column([0, 0]),
        scheduled=column([0, 100]),
        first_token=column([100, 300]),
        finish=column([210, 482]),
        prompt=column([10, 20]),
        output=column([4, 5]),
        generated=column([4, 5]),
        cached=column([0, 0]),
        preemptions=column([0, 0]),
        replica=column([1, 1]),
        status=column([0, 0]),
        priority=column([0, 0]),
    )
    replicas = (
        Replica("prefill 0", "prefill", "prefill", 1, "A100", 10, 16, 1.0, prefill, 300e-12),
        Replica("decode 0", "decode", "decode", 1, "A100", 10, 16, 1.0, decode, 192e-12),
    )
    gaps = TokenGaps(column([20, 30, 32, 34, 36, 70, 80]), column([2, 0, 1, 1, 1, 1, 1]))
    moves = Transfers(column([0, 1]), column([100, 300]), column([140, 345]), column([1e6, 2e6]))
    return Service(requests, replicas, gaps, transfers=moves)
