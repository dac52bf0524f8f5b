"""Retrieved chunks that come from tiers below the devices' memory (Cache-Craft, arXiv:2502.15734).

Each chunk of a waiting request that the devices do not hold is taken from the first tier that has it, whatever is
before it in the prompt. Of its keys and values those that are not computed anew travel, over the links and disks of the
way; with `layered` loads the prompt begins when what is left is hidden behind its layers. They go into the blocks of
the request, and into the memory that is set aside for chunks when its prompt is done. Whole chunks are written as they
are computed, or as that memory drops them.

Left out: memory that a load has taken is given back when it is here, so that another request may take it before this
one is admitted.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simulator.serving.replica.caches.chunks import ChunkCache
from simulator.serving.replica.caches.loads import KvLoads, Load, LoadRules, Tier

if TYPE_CHECKING:
    from simulator.serving.replica.replica import Replica


class ChunkLoads(KvLoads):
    """The tiers of a replica that uses chunks again."""

    __slots__ = ("_chunks", "_taken")

    def __init__(self, replica: "Replica", chunks: ChunkCache, tiers: Sequence[Tier], rules: LoadRules) -> None:
        """Nothing is on its way."""
        super().__init__(replica, tiers, rules)
        self._chunks = chunks
        self._taken: dict[int, int] = {}
        """Blocks of requests whose chunks are on their way."""

    def _find(self, request: int, growth: int) -> None:
        own, chunks = self.replica.blocks, self._chunks
        every = chunks.of[request]
        for tier in self.tiers:
            tier.store.use(every)
        parts = self._parts([chunk for chunk in every if not chunks.holds(chunk)])
        found = sum(map(len, parts))
        tokens = chunks.kept_of(found)
        if not tokens or found * chunks.tokens < self.rules.least:
            return
        sizes = [len(part) * self._moved() for part in parts]
        ticks = max(tier.read.ticks(size) for tier, size in zip(self.tiers, sizes, strict=True) if size)
        if self.rules.faster and ticks >= self._computing(tokens):
            self.declined += 1
            return
        blocks = -(-tokens // own.size)
        if blocks + growth > own.available():
            self._looked.discard(request)
            return
        own.take(blocks)
        self._taken[request] = blocks
        self._begin(request, Load((), parts, self.replica.agenda.now, sum(map(bool, parts))), ticks)

    def _parts(self, sought: Sequence[int]) -> list[list[int]]:
        """Chunks by the first tier that holds each."""
        parts: list[list[int]] = [[] for _ in self.tiers]
        for chunk in sought:
            for tier, part in zip(self.tiers, parts, strict=True):
                tier.store.asked += 1
                if chunk in tier.store.held:
                    part.append(chunk)
                    break
        return parts

    def _begin(self, request: int, load: Load, ticks: int) -> None:
        """Let the bytes move, those of all tiers beside each other."""
        replica, chunks = self.replica, self._chunks
        replica.queue.set_aside(request)
        self._loading[request] = load
        self._promised[request] = replica.blocks.whole(request) - self._taken[request]
        there = sum(chunks.holds(chunk) for chunk in chunks.of[request])
        first = self._first(request, chunks.kept_of(there + len(load.identities)), ticks)
        for tier, part in zip(self.tiers, load.parts, strict=True):
            if part:
                tier.store.hits += len(part)
                tier.store.read_bytes += len(part) * self._moved()
                self._move(tier.read, len(part) * self._moved(), first, request)

    def _settle(self, request: int, load: Load) -> None:
        self.replica.blocks.give_back(self._taken.pop(request))
        self._chunks.arrived[request] = frozenset(load.identities)

    def _drop(self, request: int, load: Load) -> None:
        self.replica.blocks.give_back(self._taken.pop(request))

    def forget(self) -> list[int]:
        """As that of blocks; chunks that had arrived for waiting requests are gone too."""
        self._chunks.arrived.clear()
        return super().forget()

    def _moved(self) -> float:
        """Bytes of a chunk that are loaded: those of tokens that are not computed anew."""
        return self._bytes() * (1.0 - self._chunks.recompute)

    def _bytes(self) -> float:
        return self._chunks.tokens * self.replica.blocks.memory.token_bytes
