"""Replicas with prices made by hand, for tests of serving: what an iteration takes is known exactly.

Every replica watches over itself: memory is never overdrawn, no batch has more sequences than it may.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator import fabric, units
from simulator.engine.agenda import Agenda
from simulator.fabric.sharing import max_min
from simulator.random import stream
from simulator.results.serving.service import FINISHED, REJECTED
from simulator.serving.fleet.fleet import Fleet
from simulator.serving.fleet.kv_transfer import KvTransfer
from simulator.serving.fleet.router import ROUTERS, Choice
from simulator.serving.policies import POLICIES, Rules
from simulator.serving.policies.base import Chunks
from simulator.serving.replica.batch import Batch
from simulator.serving.replica.caches.blocks import Blocks, Memory
from simulator.serving.replica.caches.prefix import PrefixCache
from simulator.serving.replica.intake import FrontEnd
from simulator.serving.replica.ledger import Ledger, open_ledger
from simulator.serving.replica.lockstep import Lockstep
from simulator.serving.replica.record import COLUMNS
from simulator.serving.replica.replica import Replica
from simulator.serving.replica.speculation import Yields
from simulator.serving.workload.generate import NEVER, Workload
from simulator.specs.speculation import Speculation
from tests.machines import cluster, profile

ENDLESS = 1 << 62


@dataclass(frozen=True, slots=True)
class Price:
    """Ticks of an iteration of a stage; what `StageCost` promises."""

    row: int = 10
    """Of each row of the pass."""
    sample: int = 3
    """Of each row that gives a token."""
    read: int = 1
    """Of each cached token that decodes read; twice as much beyond `edge`."""
    edge: int = 500
    base: int = 7
    """Of attention of decodes."""
    pair: int = 0
    """Of each (token of a piece of a prompt, cached token before it)."""
    overhead: int = 100
    """Of the host."""
    each: int = 2
    """Of the host for each sequence."""
    hop: int = 0
    """Of each row on its way to the next stage."""
    expert: int = 0
    """Of each row of all replicas in step."""
    launch: int = 0
    """Of the host for each iteration with prompts."""
    beside: tuple[int, int] = (0, 0)
    """Of the host beside the device, and of that for each sequence."""
    launched: int = 0
    """Of the host beside the device for kernels of an iteration with prompts."""
    overlap: None = None
    """Nothing runs beside anything else."""
    speculation: Speculation | None = None
    drafting: None = None
    queue: None = None
    """The host is always ahead."""

    @property
    def plain(self) -> bool:
        return not (any(self.beside) or self.launched or self.launch or self.expert) and self.speculation is None

    def rows(self, tokens: int, sampled: int) -> int:
        return self.row * tokens + self.sample * sampled

    def verified(self, sequences: int) -> int:
        return sequences if self.speculation is None else sequences * self.speculation.rows(sequences)

    def decodes(self, sequences: int) -> tuple[int, int, int, int]:
        rows = self.verified(sequences)
        drafts = 0 if self.drafting is None else self.drafting.ticks(rows, sequences, sequences)
        return rows, self.rows(rows, rows) + self.host(sequences) + drafts, drafts, self.least(sequences, rows)

    def saved(self, tokens: int, attention: int, shared: int | None = None, reading: int = 0) -> int:
        return 0

    def together(self, tokens: int, sampled: int) -> int:
        return self.expert * tokens

    def exchanged(self, most: int, tokens: int) -> int:
        return 0

    def parts(self, tokens: int, sampled: int) -> dict[str, int]:
        return {"linear": self.row * tokens, "head": self.sample * sampled}

    def decode(self, sequences: int) -> tuple[tuple[int, int, int], ...]:
        near = (self.edge, self.base, self.read)
        return (near,) if self.edge == ENDLESS else (near, (ENDLESS, self.base + sequences, 2 * self.read))

    def shared(self, members: int) -> tuple[int, int]:
        return 5, self.read

    def prompt(self, chunk: int, before: int) -> int:
        return self.pair * chunk * (before + chunk)

    def prompts(self, pieces: Sequence[tuple[int, int]]) -> int:
        return sum(self.prompt(chunk, before) for chunk, before in pieces)

    def host(self, sequences: int) -> int:
        return self.overhead + self.each * sequences

    def least(self, sequences: int, rows: int, prompts: bool = False) -> int:
        return self.beside[0] + self.beside[1] * sequences + (self.launched if prompts else 0)

    @property
    def launching(self) -> object:
        return self.launch or None

    def launches(self, tokens: int) -> int:
        return self.launch

    def send(self, tokens: int) -> int:
        return self.hop * tokens


TOKENS = Price(row=10, sample=0, read=0, edge=ENDLESS, base=0, overhead=0, each=0)
"""10 ticks a row of the pass and nothing else."""


class WatchedBlocks(Blocks):
    """Stop at the moment at which more is taken or given back than there is."""

    __slots__ = ()

    def take(self, blocks: int) -> None:
        super().take(blocks)
        assert 0 <= self.free <= self.memory.blocks

    def give_back(self, blocks: int) -> None:
        super().give_back(blocks)
        assert 0 <= self.free <= self.memory.blocks


class Watched(Replica):
    """Stops at the moment at which it would break its own limits, and remembers what it admitted."""

    admitted: list[tuple[int, Chunks, int]]
    """(tick, prompts, sequences that decode) of each iteration with prompts."""

    def admit_transferred(self, batch: Batch) -> None:
        super().admit_transferred(batch)
        assert batch.running <= self.policy.rules.max_sequences

    def make_room(self, batch: Batch, need: int, now: int) -> tuple[int, int]:
        made = super().make_room(batch, need, now)
        assert batch.running <= self.policy.rules.max_sequences
        return made

    def admit(self, batch: Batch, chunks: Chunks, now: int) -> None:
        self.admitted.append((now, list(chunks), batch.decodes.n))
        super().admit(batch, chunks, now)
        assert batch.running <= self.policy.rules.max_sequences


def asked(
    rows: Iterable[tuple[int, int, int]], prefix: Sequence[Sequence[int]] | None = None, **columns: Any
) -> Workload:
    """Requests (arrival, prompt, output) in ticks and tokens."""
    arrival, prompt, output = np.array(list(rows), np.int64).reshape(-1, 3).T
    none = np.zeros(len(arrival), np.int64)
    given = {"priority": none, "follows": np.full(len(arrival), NEVER), "delay": none} | {
        name: np.array(values, np.int64) for name, values in columns.items() if name != "prefix_block"
    }
    block = {"prefix_block": columns["prefix_block"]} if "prefix_block" in columns else {}
    shared = None if prefix is None else tuple(tuple(chain) for chain in prefix)
    return Workload(arrival=arrival, prompt=prompt, output=output, prefix=shared, **given, **block)


@dataclass(frozen=True)
class Setting:
    """A system of equal replicas, or of prefill replicas and decode replicas."""

    policy: str = "vllm-v1"
    budget: int = 64
    most: int = 4
    tile: int = 16
    ageing: int | None = None
    blocks: int = 1000
    block_size: int = 4
    watermark: int = 0
    context: int = ENDLESS
    swap: int = 0
    """Tokens of host memory."""
    state: int = 0
    """Blocks that a sequence takes beside those of its tokens."""
    replicas: int = 1
    stages: int = 1
    serial: bool = False
    """One batch in flight over all stages."""
    instances: int = 1
    """Batches that take turns on each stage."""
    reads_once: bool = False
    """Whether decodes read cached blocks that they share once."""
    decoders: int = 0
    """Replicas that only decode; the others then only work on prompts."""
    decode_blocks: int | None = None
    by_layer: bool = False
    router: str = "round-robin"
    cached: bool = False
    price: Price = field(default_factory=Price)
    ttft_slo: int = 0
    streams: bool = False
    """Whether pieces of a prompt follow each other from stage to stage."""
    sharers: int = 1
    """Replicas that share experts and run in step; a divisor of `replicas`."""
    poll: int = 1
    """Decode iterations between two looks for new requests."""
    ahead: bool = False
    """Whether an iteration is fixed when the one before it begins."""
    handling: int = 0
    """Ticks of the front end for each request."""
    wait: int = 0
    """Iterations that prompts wait for others, up to `wait_share` of the budget."""
    wait_share: float = 0.5
    balance: tuple[int, int] = (0, 0)
    """Iterations of which one lets prompts join of ranks in step, and that they wait for more."""


@dataclass(frozen=True, slots=True)
class System:
    """A system that has run."""

    workload: Workload
    ledger: Ledger
    replicas: tuple[Watched, ...]
    fleet: Fleet
    agenda: Agenda

    def log(self, replica: int = 0) -> NDArray[np.int64]:
        """Rows of a replica's log."""
        return np.frombuffer(self.replicas[replica].record.log, np.int64).reshape(-1, COLUMNS)

    def times(self, name: str) -> NDArray[np.int64]:
        """A column of the ledger."""
        return np.array(getattr(self.ledger, name), np.int64)


def system(workload: Workload, setting: Setting = Setting(), fast_forward: bool = True, seed: int = 0) -> System:
    """Replicas, a router and requests, before anything has happened."""
    network = _network()
    agenda = Agenda(network.capacity / units.TICKS_PER_SECOND, max_min)
    ledger = open_ledger(workload, setting.ttft_slo)
    fleet = Fleet(agenda, ledger, workload, ROUTERS.get(setting.router), Choice(stream(seed, "router")))
    roles = ["both"] * setting.replicas
    if setting.decoders:
        roles = ["prefill"] * setting.replicas + ["decode"] * setting.decoders
    replicas = tuple(replica(setting, number, role, fleet, fast_forward) for number, role in enumerate(roles))
    if setting.decoders:
        places = {number: (number,) for number in range(len(replicas))}
        fleet.kv_transfer = KvTransfer(agenda, ledger, network, profile(), places, 1000.0, 4, setting.by_layer)
        fleet.kv_transfer.decoders = replicas[setting.replicas :]
    for first in range(0, setting.replicas if setting.sharers > 1 else 0, setting.sharers):
        Lockstep(agenda, list(replicas[first : first + setting.sharers]))
    fleet.open([replica for replica in replicas if replica.role != "decode"])
    return System(workload, ledger, replicas, fleet, agenda)


def run(workload: Workload, setting: Setting = Setting(), fast_forward: bool = True, seed: int = 0) -> System:
    """The system when all is done."""
    made = system(workload, setting, fast_forward, seed)
    made.agenda.run()
    return made


@cache
def _network() -> fabric.Fabric:
    """A node of eight devices."""
    return fabric.build(cluster())


def replica(setting: Setting, number: int, role: str, fleet: Fleet, fast_forward: bool) -> Watched:
    blocks = setting.blocks if role != "decode" or setting.decode_blocks is None else setting.decode_blocks
    memory = Memory(
        blocks, setting.block_size, setting.watermark, 1000.0, setting.context, setting.swap, 1e15, setting.state
    )
    if setting.price.speculation is not None:
        memory = replace(memory, lookahead=setting.price.speculation.most_rows - 1)
    waits = setting.poll, setting.wait, setting.wait_share, *setting.balance
    rules = Rules(setting.budget, setting.most, setting.tile, setting.ageing, *waits)
    front = FrontEnd([setting.handling] * len(fleet.ledger.prompt)) if setting.handling else None
    shared = fleet.ledger.prefix_block // setting.block_size
    made = Watched(
        f"{role} {number}",
        number,
        role,
        fleet.agenda,
        fleet.ledger,
        POLICIES.get(setting.policy)(rules),
        (setting.price,) * setting.stages,
        memory,
        fleet,
        PrefixCache(shared) if setting.cached else None,
        fast_forward,  # type: ignore[arg-type]
        setting.instances * (1 if setting.serial else setting.stages),
        setting.reads_once and setting.cached,
        None if setting.price.speculation is None else Yields(setting.price.speculation, stream(0, "speculation")),
        setting.ahead,
        front,
    )
    made.stages.streams |= setting.streams and setting.stages > 1
    made.admitted = []
    made.blocks.__class__ = WatchedBlocks
    return made


def gaps(ran: System) -> list[int]:
    """Every time between two tokens of one request, rising: those that replicas noted, and those that rows say."""
    found: list[int] = []
    for number, replica in enumerate(ran.replicas):
        for ticks, count in zip(replica.record.gap_ticks, replica.record.gap_counts, strict=True):
            found += [ticks] * count
        noted = set(replica.record.apart)
        for row, (_, count, first, growth, decodes, *_) in enumerate(ran.log(number).tolist()):
            for step in range(row in noted, count):
                found += [first + step * growth] * decodes
    return sorted(found)


def check(ran: System) -> None:
    """Nothing is lost: requests, tokens, blocks, places."""
    ledger = ran.ledger
    for replica in ran.replicas:
        blocks, cache, queue = replica.blocks, replica.blocks.cache, replica.queue
        resident = 0 if cache is None else len(cache._pins) * cache.blocks
        assert blocks.free + resident == blocks.memory.blocks
        assert cache is None or cache.idle_blocks == resident
        assert (queue.outstanding, queue.pending, queue.coming) == (0, 0, 0)
        assert not (blocks.held or blocks.shared or queue.waiting or queue.swapped or queue.ready)
        for batch in replica.batches:
            own = batch.decodes
            assert not (own.n or own.context or batch.partial or own.rows or any(own.counts))
    for request, status in enumerate(ledger.status):
        if status == FINISHED:
            assert ledger.done[request] == ledger.output[request]
            times = [getattr(ledger, name)[request] for name in ("arrival", "scheduled", "first_token", "finish")]
            assert 0 <= times[0] <= times[1] < times[2] <= times[3]
        else:
            assert status == REJECTED and ledger.done[request] == 0 and ledger.finish[request] == NEVER
