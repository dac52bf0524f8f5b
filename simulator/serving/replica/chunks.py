"""Keys and values of retrieved chunks that are used again at any place of a prompt (Cache-Craft, arXiv:2502.15734).

A chunk that is in the cache when its request is admitted is copied into the request's own blocks, moved to its place,
and a share of its tokens is computed anew over all that is before them; the others are not computed. Chunks that are
not there are computed whole, and kept when the prompt is done; the least recently used gives way.

Left out: the copy within device memory and the rotation of keys, variants of a chunk by what was before it, how the
share depends on these, and that tokens computed anew are spread over the prompt: they are priced as its last ones.
"""

from collections import OrderedDict
from collections.abc import Sequence


class ChunkCache:
    """The chunks of a replica."""

    __slots__ = ("_held", "asked", "hits", "of", "recompute", "slots", "tokens")

    def __init__(self, of: Sequence[Sequence[int]], tokens: int, slots: int, recompute: float) -> None:
        """Empty, with room for `slots` chunks of so many tokens; `of` are those of each request."""
        self.of, self.tokens, self.slots, self.recompute = of, tokens, slots, recompute
        self._held: OrderedDict[int, None] = OrderedDict()
        """The least recently used first."""
        self.asked = self.hits = 0
        """Chunks of prompts that were admitted, and those of them that were there."""

    def saved(self, request: int) -> int:
        """Tokens of a prompt that need not be computed now."""
        found = sum(chunk in self._held for chunk in self.of[request])
        return int(found * self.tokens * (1.0 - self.recompute))

    def use(self, request: int) -> None:
        """A request is admitted."""
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
        while len(self._held) > self.slots:
            self._held.popitem(last=False)

    def forget(self) -> None:
        """The memory is lost."""
        self._held.clear()
