"""Blocks of prompts that come from tiers below the devices' memory, and those that go there.

When a waiting request could be admitted as far as memory goes, the tiers are looked at once: blocks after those that
the devices hold are taken from the first tier that has each, up to the first that none has. Memory is taken, the bytes
travel as activities on the links and disks of the way while batches run on, and the policy sees the request again when
they are here. The blocks are then in the prefix cache as if they had been computed there; what was dropped again
before the request starts is computed. Blocks are written as they are computed, or as the memory before the tier drops
them, and are found when their bytes have arrived.

Left out: reads and writes of the devices' own memory, copies through staging buffers, and blocks of an answer before
its request is done. See docs/models/cache-tiers.md.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.engine.agenda import Running
from simulator.serving.tiers.path import Path
from simulator.serving.tiers.store import TierStore

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch
    from simulator.serving.replica.replica import Replica


@dataclass(frozen=True, slots=True)
class Tier:
    """A memory and the ways between it and the devices of a replica."""

    store: TierStore
    read: Path
    write: Path
    demote: Path
    """From the tier above it."""
    keeps: bool
    """Whether it keeps what is loaded from tiers below it: bytes pass through it."""
    survives: bool = True
    """Whether it still holds its blocks when the replica has failed."""


@dataclass(frozen=True, slots=True)
class LoadRules:
    """When and how blocks are loaded."""

    faster: bool = False
    """Only where a load takes less time than computing the same tokens."""
    least: int = 1
    """Tokens from which they are loaded."""
    layers: int = 1
    """Layers whose loads are hidden behind the layers before them; 1: a prompt waits for all of its blocks."""


@dataclass(slots=True)
class Load:
    """A request whose blocks are on their way."""

    pinned: Sequence[int]
    """Identities that the devices hold, kept until the others are here."""
    parts: list[list[int]]
    """Identities from each tier."""
    begin: int
    left: int
    """Tiers whose bytes have not arrived."""

    @property
    def identities(self) -> list[int]:
        """All that are loaded."""
        return [identity for part in self.parts for identity in part]


class KvLoads:
    """The tiers of a replica."""

    __slots__ = (
        "_loading",
        "_looked",
        "_promised",
        "_reading",
        "_writing",
        "declined",
        "replica",
        "rules",
        "tiers",
        "waits",
    )

    def __init__(self, replica: "Replica", tiers: Sequence[Tier], rules: LoadRules) -> None:
        """Nothing is on its way; the replica's cache must be one that keeps prefixes."""
        self.replica, self.tiers, self.rules = replica, tuple(tiers), rules
        self._looked: set[int] = set()
        """Waiting requests for which the tiers have been looked at."""
        self._promised: dict[int, int] = {}
        """Blocks, out of the available ones, that requests with loads will take when they are admitted."""
        self._loading: dict[int, Load] = {}
        self._reading: set[Running] = set()
        self._writing: dict[Running, tuple[TierStore, Sequence[int]]] = {}
        """Bytes on their way, and where to and which blocks they are."""
        self.waits = array("q")
        """Ticks for which each load kept its request from the policy."""
        self.declined = 0
        """Loads that would have taken longer than computing."""

    # Reading --------------------------------------------------------------------------------------------------------

    def look(self, batch: "Batch") -> None:
        """Start the loads of waiting requests for which there is memory, in the order of the policy."""
        replica = self.replica
        own = replica.blocks
        growth = batch.decodes.need()
        """Blocks that its sequences take in the next iteration."""
        room = own.available() - growth - own.watermark - sum(self._promised.values())
        wanted: list[int] = []
        for request in replica.policy.order(batch.view):
            if request in self._promised:
                continue
            need = own.whole(request)
            if need > room and (self._promised or wanted or batch.running):
                break
            room -= need
            if request not in self._looked:
                wanted.append(request)
        for request in wanted:
            self._looked.add(request)
            self._find(request, growth)
            if request in self._looked:
                self.tiers[0].store.looked_up += replica.ledger.remaining_tokens[request]

    def _find(self, request: int, growth: int) -> None:
        """Load what the tiers hold of a prompt, if it is worth it; `growth` blocks stay available."""
        own = self.replica.blocks
        cache = own.cache
        assert cache is not None
        size = cache.blocks * own.size
        known = own.identities(request)[: (self.replica.ledger.remaining_tokens[request] - 1) // size]
        resident = cache.matched(known)
        for tier in self.tiers:
            tier.store.use(known)
        parts = self._parts(known[resident:])
        found = sum(map(len, parts))
        if not found or found * size < self.rules.least:
            return
        ticks = max(tier.read.ticks(len(p) * self._bytes()) for tier, p in zip(self.tiers, parts, strict=True) if p)
        if self.rules.faster and ticks >= self._computing(found * size):
            self.declined += 1
            return
        pinned = tuple(known[:resident])
        cache.pin(pinned)
        if found * cache.blocks + growth > own.available():
            cache.unpin(pinned)
            self._looked.discard(request)
            return
        own.take(found * cache.blocks)
        self._start(request, Load(pinned, parts, self.replica.agenda.now, sum(map(bool, parts))), ticks)

    def _parts(self, sought: Sequence[int]) -> list[list[int]]:
        """Identities by the first tier that holds each, up to the first that none holds."""
        parts: list[list[int]] = [[] for _ in self.tiers]
        for identity in sought:
            for tier, part in zip(self.tiers, parts, strict=True):
                tier.store.asked += 1
                if identity in tier.store.held:
                    part.append(identity)
                    break
            else:
                break
        return parts

    def _start(self, request: int, load: Load, ticks: int) -> None:
        """Let the bytes move, those of all tiers beside each other."""
        replica, cache = self.replica, self.replica.blocks.cache
        assert cache is not None
        replica.queue.set_aside(request)
        self._loading[request] = load
        found = len(load.identities)
        self._promised[request] = replica.blocks.whole(request) - (found + len(load.pinned)) * cache.blocks
        first = self._first(request, (found + len(load.pinned)) * cache.blocks * replica.blocks.size, ticks)
        for tier, part in zip(self.tiers, load.parts, strict=True):
            if part:
                size = len(part) * self._bytes()
                tier.store.hits += len(part)
                tier.store.read_bytes += size
                self._move(tier.read, size, first, request)

    def _first(self, request: int, tokens: int, ticks: int) -> float:
        """Share of the bytes that must be here before the prompt begins: what layers on the way hide follows."""
        layers, replica = self.rules.layers, self.replica
        if layers == 1:
            return 1.0
        computing = self._computing(replica.ledger.remaining_tokens[request] - tokens)
        return min(max(1 / layers, 1.0 - (layers - 1) / layers * computing / ticks), 1.0)

    def _computing(self, tokens: int) -> int:
        """Ticks of the iterations that would work on so many tokens of a prompt, and on nothing else."""
        stages, budget = self.replica.stages, self.replica.policy.rules.token_budget
        rest = tokens % budget
        return tokens // budget * stages.alone(budget, budget) + (stages.alone(rest, budget) if rest else 0)

    def _move(self, way: Path, size: float, first: float, request: int) -> None:
        agenda, label, reading = self.replica.agenda, (self.replica.name, "cache tiers"), self._reading

        def arrived() -> None:
            reading.discard(now)
            if first < 1.0:
                rest = agenda.start(
                    way.activity(size * (1.0 - first), latency=False), lambda: reading.discard(rest), label
                )
                reading.add(rest)
            self._arrived(request)

        now = agenda.start(way.activity(size * first), arrived, label)
        reading.add(now)

    def _arrived(self, request: int) -> None:
        """The bytes from a tier are here; with the last ones the request waits as others do."""
        load, replica = self._loading[request], self.replica
        load.left -= 1
        if load.left:
            return
        del self._loading[request]
        self._settle(request, load)
        self._promised[request] = replica.blocks.whole(request)
        self.waits.append(replica.agenda.now - load.begin)
        for place in range(1, len(self.tiers)):
            if load.parts[place]:
                for upper in range(place):
                    if self.tiers[upper].keeps:
                        self._hold(upper, load.parts[place])
        replica.queue.set_back(request)
        replica.wake()

    def _settle(self, request: int, load: Load) -> None:
        """What was loaded is in the memory of the devices."""
        own = self.replica.blocks
        assert own.cache is not None
        identities = load.identities
        own.give_back((len(identities) - own.cache.adopt(identities)) * own.cache.blocks)
        own.cache.unpin(load.pinned)

    def _drop(self, request: int, load: Load) -> None:
        """What is on its way does not come."""
        own = self.replica.blocks
        assert own.cache is not None
        own.cache.unpin(load.pinned)
        own.give_back(len(load.identities) * own.cache.blocks)

    def admitted(self, request: int) -> None:
        """A request starts: it holds the blocks that it takes itself."""
        self._looked.discard(request)
        self._promised.pop(request, None)

    # A failure ------------------------------------------------------------------------------------------------------

    def forget(self) -> list[int]:
        """The memory of the devices is lost, and that of tiers that do not survive: what is on its way stops. Requests
        whose blocks were on their way."""
        agenda = self.replica.agenda
        for running in (*self._reading, *self._writing):
            agenda.stop(running)
        for store, identities in self._writing.values():
            store.coming.difference_update(identities)
        self._reading.clear()
        self._writing.clear()
        lost = list(self._loading)
        for request, load in self._loading.items():
            self._drop(request, load)
        self._loading.clear()
        self._looked.clear()
        self._promised.clear()
        for tier in self.tiers:
            if not tier.survives:
                tier.store.lose()
        return lost

    # Writing --------------------------------------------------------------------------------------------------------

    def computed(self, identities: Sequence[int]) -> None:
        """Blocks are full in the devices' memory."""
        for place, tier in enumerate(self.tiers):
            if not tier.store.back:
                self._write(place, identities, tier.write)

    def dropped(self, identities: Sequence[int]) -> None:
        """The devices' memory has dropped blocks."""
        if self.tiers[0].store.back:
            self._write(0, identities, self.tiers[0].write)

    def _write(self, place: int, identities: Sequence[int], way: Path) -> None:
        store = self.tiers[place].store
        wanted = [identity for identity in identities if store.wants(identity)][: store.capacity]
        if not wanted:
            return
        store.coming.update(wanted)
        size = len(wanted) * self._bytes()
        store.written_bytes += size
        label = (self.replica.name, "cache tiers")

        def arrived() -> None:
            del self._writing[running]
            self._hold(place, wanted)

        running = self.replica.agenda.start(way.activity(size), arrived, label)
        self._writing[running] = store, wanted

    def _hold(self, place: int, identities: Sequence[int]) -> None:
        """A tier holds blocks from now on; what gives way for them goes to the next one, if that takes it."""
        gone = self.tiers[place].store.put(identities)
        if gone and place + 1 < len(self.tiers) and self.tiers[place + 1].store.back:
            self._write(place + 1, gone, self.tiers[place + 1].demote)

    def _bytes(self) -> float:
        """Bytes of a block of an identity."""
        own = self.replica.blocks
        assert own.cache is not None
        return own.cache.blocks * own.size * own.memory.token_bytes
