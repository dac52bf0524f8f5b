"""Cache blocks of a replica: those that nothing uses, those of requests, and those of cached prefixes.

Idle prefixes give way where blocks are needed. A request takes its blocks as its prompt is worked on, or all of them
when it is admitted, as the policy says. Layers with a state take blocks of the same memory for every sequence that has
begun, as vLLM's pages of equal size do; they come with the first blocks of its tokens and leave with the last.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.serving.replica.caches.prefix import PrefixCache
from simulator.serving.replica.ledger import Ledger

if TYPE_CHECKING:
    from simulator.serving.replica.adapters import AdapterSlots
    from simulator.serving.replica.caches.chunks import ChunkCache


@dataclass(frozen=True, slots=True)
class Memory:
    """The cache of a replica."""

    blocks: int
    block_size: int
    watermark: int
    """Blocks that stay free when a request is admitted."""
    token_bytes: float
    """Bytes of a token in the cache of one replica, all its devices together."""
    context: int = 1 << 62
    """Longest sequence in tokens, prompt and answer."""
    swap_tokens: int = 0
    """Tokens that host memory holds; 0: preempted sequences are computed again."""
    swap_rate: float = 0.0
    """Bytes per second between devices and host, all devices of the replica together."""
    state_blocks: int = 0
    """Blocks that the states of a sequence take, whatever its length."""
    state_bytes: float = 0.0
    """Bytes of these states, all devices together."""
    lookahead: int = 0
    """Slots that the drafted tokens of a sequence take beside its own."""


class Blocks:
    """Which of the blocks each request holds."""

    __slots__ = (
        "cache",
        "chunks",
        "computed",
        "free",
        "held",
        "hits",
        "ledger",
        "memory",
        "reserve",
        "shared",
        "size",
        "spare",
        "state",
        "watermark",
    )

    def __init__(self, memory: Memory, ledger: Ledger, cache: PrefixCache | None, reserve: str) -> None:
        """All are free. `reserve` is what an admission takes, as `Policy.reserve`."""
        self.memory, self.ledger, self.cache, self.reserve = memory, ledger, cache, reserve
        self.size, self.watermark = memory.block_size, memory.watermark
        self.state = memory.state_blocks
        """Blocks that every sequence takes beside those of its tokens."""
        self.free = memory.blocks
        """Blocks that nothing uses."""
        self.held: dict[int, int] = {}
        """Blocks of requests that do not decode yet, shared ones apart; of all where memory is taken whole."""
        self.shared: dict[int, tuple[Sequence[int], int]] = {}
        """Identities that a request uses, and the cache blocks of its tokens that they hold."""
        self.hits: dict[int, tuple[int, int]] = {}
        """Version of the cache, and identities that the prompt of a waiting request would find."""
        self.computed: Callable[[Sequence[int]], None] | None = None
        """Called with the blocks of prefixes that are full now; None where they are not asked for."""
        self.chunks: ChunkCache | None = None
        """Chunks that are used again at any place, in place of prefixes; None where there are none."""
        self.spare: AdapterSlots | None = None
        """Adapters in blocks, of which those that no request holds give way too; None where none are."""

    @property
    def plain(self) -> bool:
        """Whether nothing that could give way lies in blocks."""
        return self.cache is None and self.spare is None

    def available(self) -> int:
        """Blocks that can be had without taking them from a running request."""
        free = self.free if self.cache is None else self.free + self.cache.idle_blocks
        return free if self.spare is None else free + self.spare.idle_blocks

    def take(self, blocks: int) -> None:
        """Use free blocks, dropping idle prefixes, then idle adapters, where there are too few."""
        if blocks > self.free:
            self._evict(blocks)
        self.free -= blocks

    def _evict(self, blocks: int) -> None:
        """Drop idle prefixes, then idle adapters, until so many blocks are free, or none is left."""
        if self.cache is not None:
            self.free += self.cache.evict(blocks - self.free)
        if blocks > self.free and self.spare is not None:
            self.free += self.spare.evict(blocks - self.free)

    def give_back(self, blocks: int) -> None:
        """Blocks are free again."""
        self.free += blocks

    def release(self, request: int, tokens: int) -> None:
        """Give back the memory of a request with that many tokens in the cache."""
        held = self.held.pop(request, None)
        identities, shared = self.shared.pop(request, ((), 0))
        blocks = self.state - (-tokens // self.size) - shared if held is None else held
        self.free += blocks
        if identities and self.cache is not None:
            self.cache.unpin(identities)

    # What a prompt takes --------------------------------------------------------------------------------------------

    def before(self, request: int) -> int:
        """Tokens of a request that are in the cache before the next piece of its prompt."""
        ledger = self.ledger
        return ledger.prompt[request] + ledger.done[request] - ledger.remaining_tokens[request]

    def uncached(self, request: int) -> int:
        """Tokens of a waiting request's prompt that no cached prefix saves."""
        if self.cache is None and self.chunks is None:
            return self.ledger.remaining_tokens[request]
        return self.ledger.remaining_tokens[request] - self.hit(request)[1]

    def blocks_for(self, request: int, chunk: int) -> int:
        """Blocks that working on the next `chunk` tokens of a prompt takes, those that it has apart."""
        ledger, size = self.ledger, self.size
        total = ledger.prompt[request]
        if self.reserve == "chunk":
            total += ledger.done[request] + chunk - ledger.remaining_tokens[request]
        else:
            total += self._answer(request) if self.reserve == "whole" else ledger.done[request]
        if request in self.held:
            shared = self.shared[request][1] if request in self.shared else 0
            return self.state - (-total // size) - self.held[request] - shared
        if self.cache is None and self.chunks is None:
            return self.state - (-total // size)
        hit = self.hit(request)[1]
        shared = hit // size if self.chunks is None else 0  # chunks are copied
        return self.state - (-(total + (hit if self.reserve == "chunk" else 0)) // size) - shared

    def whole(self, request: int) -> int:
        """Blocks of a whole prompt, and of its answer where that is admitted with it."""
        ledger = self.ledger
        tokens = ledger.prompt[request] + ledger.done[request]
        if self.reserve == "whole":
            tokens += ledger.output[request] - ledger.done[request] + self.memory.lookahead
        return self.state - (-tokens // self.size)

    def _answer(self, request: int) -> int:
        """Slots that a whole answer takes."""
        return self.ledger.output[request] + self.memory.lookahead

    def demand(self, request: int, chunk: int) -> int:
        """Blocks out of the available ones that admitting a request takes: new ones, and idle ones that it pins."""
        if self.cache is None:
            return self.blocks_for(request, chunk)
        count = self.hit(request)[0]
        idle = self.cache.idle_among(self.identities(request)[:count])
        return self.blocks_for(request, chunk) + idle * self.cache.blocks

    def slack(self, request: int) -> int:
        """Tokens that the blocks of a prompt under way have room for."""
        shared = self.shared[request][1] if request in self.shared else 0
        return (self.held[request] - self.state + shared) * self.size - self.before(request)

    # Cached prefixes ------------------------------------------------------------------------------------------------

    def hit(self, request: int) -> tuple[int, int]:
        """(identities, tokens) that a waiting request finds in the prefix cache; one token is always worked on."""
        cache = self.cache
        if self.chunks is not None:
            return 0, self.chunks.saved(request)
        if cache is None or self.ledger.prefix is None:
            return 0, 0
        version, count = self.hits.get(request, (-1, 0))
        if version != cache.version:
            count = cache.matched(self.identities(request))
            self.hits[request] = cache.version, count
        size = cache.blocks * self.size
        count = min(count, (self.ledger.remaining_tokens[request] - 1) // size)
        return count, count * size

    def identities(self, request: int) -> Sequence[int]:
        """Identities of the full blocks of what is to be computed."""
        ledger, cache = self.ledger, self.cache
        assert ledger.prefix is not None and cache is not None
        tokens = ledger.prompt[request] + ledger.done[request]
        return ledger.prefix[request][: tokens // (cache.blocks * self.size)]

    def reuse(self, request: int) -> None:
        """Pin what the prefix cache holds of a prompt."""
        count, tokens = self.hit(request)
        if self.chunks is not None:
            self.chunks.use(request)
            self._skip(request, tokens)
            return
        assert self.cache is not None
        self.hits.pop(request, None)
        if count:
            identities = self.identities(request)[:count]
            self.cache.pin(identities)
            self.shared[request] = identities, tokens // self.size
            self._skip(request, tokens)

    def _skip(self, request: int, tokens: int) -> None:
        """So many tokens of a prompt need not be computed."""
        self.ledger.remaining_tokens[request] -= tokens
        if not self.ledger.done[request]:
            self.ledger.cached[request] = tokens

    def share(self, request: int, tokens: int) -> None:
        """Make the full blocks of `tokens` computed tokens of a request findable."""
        cache, prefix = self.cache, self.ledger.prefix
        if cache is None or prefix is None or not prefix[request]:
            return
        identities, blocks = self.shared.get(request, ((), 0))
        known = prefix[request][: tokens // (cache.blocks * self.size)]
        made = cache.insert(known[len(identities) :])
        if made:
            self.shared[request] = known[: len(identities) + made], blocks + made * cache.blocks
            if self.computed is not None:
                self.computed(known[len(identities) : len(identities) + made])
            if request in self.held:
                self.held[request] -= made * cache.blocks
