"""Keys and values of retrieved chunks that are used again at any place of a prompt (Cache-Craft, arXiv:2502.15734).

A chunk that is in the cache when its request is admitted is copied into the request's own blocks, moved to its place,
and a share of its tokens is computed anew over all that is before them; the others are not computed. Chunks that are
not there are computed whole, and kept when the prompt is done; the least recently used gives way. They may come
from tiers of the cache too (`chunk_loads`).

Left out: the copy within device memory and the rotation of keys, variants of a chunk by what was before it, how the
share depends on these, and that tokens computed anew are spread over the prompt: they are priced as its last ones.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence


class ChunkCache:
    """The chunks of a replica."""

    __slots__ = ("_held", "arrived", "asked", "computed", "dropped", "hits", "of", "recompute", "slots", "tokens")

    def __init__(self, of: Sequence[Sequence[int]], tokens: int, slots: int, recompute: float) -> None:
        """Empty, with room for `slots` chunks of so many tokens; `of` are those of each request."""
        self.of, self.tokens, self.slots, self.recompute = of, tokens, slots, recompute
        self._held: OrderedDict[int, None] = OrderedDict()
        """The least recently used first."""
        self.asked = self.hits = 0
        """Chunks of prompts that were admitted, and those of them that were there."""
        self.arrived: dict[int, frozenset[int]] = {}
        """Chunks that came from tiers for waiting requests."""
        self.computed: Callable[[Sequence[int]], None] | None = None
        """Called with the chunks of a prompt that is done; None where tiers take none."""
        self.dropped: Callable[[Sequence[int]], None] | None = None
        """Called with the chunks that gave way."""

    def holds(self, chunk: int) -> bool:
        """Whether the memory that is set aside holds a chunk."""
        return chunk in self._held

    def kept_of(self, chunks: int) -> int:
        """Tokens of so many chunks that are not computed anew."""
        return int(chunks * self.tokens * (1.0 - self.recompute))

    def saved(self, request: int) -> int:
        """Tokens of a prompt that need not be computed now."""
        came = self.arrived.get(request, ())
        return self.kept_of(sum(chunk in self._held or chunk in came for chunk in self.of[request]))

    def use(self, request: int) -> None:
        """A request is admitted."""
        self.arrived.pop(request, None)
        for chunk in self.of[request]:
            self.asked += 1
            if chunk in self._held:
                self.hits += 1
                self._held.move_to_end(chunk)

    def keep(self, request: int) -> None:
        """The prompt of a request is done."""
        for chunk in self.of[request]:
            self._held[chunk] = None
            self._held.move_to_end(chunk)
        if self.computed is not None:
            self.computed(self.of[request])
        gone = []
        while len(self._held) > self.slots:
            gone.append(self._held.popitem(last=False)[0])
        if gone and self.dropped is not None:
            self.dropped(gone)

    def forget(self) -> None:
        """The memory is lost."""
        self._held.clear()
