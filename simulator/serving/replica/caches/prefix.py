"""Prefix caching: blocks of prompts that outlive their request, found again by identity, dropped least recently used.

Identities stand for a whole prefix (a chain of hashes), so one look-up per block finds the longest match. Blocks that
a running request uses are pinned; the others are idle and give way when memory is needed, the ends of prefixes first.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence


class PrefixCache:
    """Resident blocks of prefixes; each identity stands for `blocks` cache blocks."""

    __slots__ = ("_idle", "_pins", "blocks", "dropped", "version")

    def __init__(self, blocks: int) -> None:
        """Empty."""
        self.blocks = blocks
        """Cache blocks of one identity."""
        self._pins: dict[int, int] = {}
        """Requests that use each resident identity."""
        self._idle: OrderedDict[int, None] = OrderedDict()
        """Identities that no request uses, the least recently used first (a plain dict walks over all that left it
        before to find its first)."""
        self.version = 0
        """Changes whenever what is resident does."""
        self.dropped: Callable[[Sequence[int]], None] | None = None
        """Called with what gave way; None where it is not asked for."""

    @property
    def idle_blocks(self) -> int:
        """Cache blocks that can be dropped."""
        return len(self._idle) * self.blocks

    def matched(self, identities: Sequence[int]) -> int:
        """How many identities from the start are resident."""
        pins = self._pins
        for count, identity in enumerate(identities):
            if identity not in pins:
                return count
        return len(identities)

    def idle_among(self, identities: Sequence[int]) -> int:
        """How many of resident identities no request uses."""
        return sum(identity in self._idle for identity in identities)

    def pin(self, identities: Sequence[int]) -> None:
        """A request uses resident identities."""
        for identity in identities:
            self._pins[identity] += 1
            self._idle.pop(identity, None)

    def insert(self, identities: Sequence[int]) -> int:
        """Make identities resident, pinned by their maker, up to the first that is already; how many were made."""
        for count, identity in enumerate(identities):
            if identity in self._pins:
                return count
            self._pins[identity] = 1
            self.version += 1
        return len(identities)

    def adopt(self, identities: Sequence[int]) -> int:
        """Make identities resident that come from elsewhere and that no request uses yet, the first ones as the last to
        be dropped; how many were not resident before."""
        made = 0
        for identity in reversed(identities):
            if identity not in self._pins:
                self._pins[identity] = 0
                self._idle[identity] = None
                made += 1
            elif identity in self._idle:
                self._idle.move_to_end(identity)
        self.version += made > 0
        return made

    def unpin(self, identities: Sequence[int]) -> None:
        """A request is done with identities; the end of its prefix will be dropped first."""
        for identity in reversed(identities):
            self._pins[identity] -= 1
            if not self._pins[identity]:
                self._idle[identity] = None

    def evict(self, blocks: int) -> int:
        """Drop idle identities until that many cache blocks are free, or none is left; blocks that came free."""
        gone: list[int] = []
        while len(gone) * self.blocks < blocks and self._idle:
            identity, _ = self._idle.popitem(last=False)
            del self._pins[identity]
            gone.append(identity)
        if gone:
            self.version += 1
            if self.dropped is not None:
                self.dropped(gone)
        return len(gone) * self.blocks
