"""Which block of a full memory gives way: small classes over identities of blocks, by name.

A block is used when a prompt that holds it is looked up, or when it is written again.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from heapq import heappop, heappush

from simulator.registry import Registry


class Eviction(ABC):
    """The blocks of a memory, and the order in which they give way."""

    @abstractmethod
    def __len__(self) -> int:
        """Blocks that it holds."""

    @abstractmethod
    def __contains__(self, identity: object) -> bool:
        """Whether it holds a block."""

    @abstractmethod
    def add(self, identity: int) -> None:
        """Hold a block that it does not hold yet."""

    @abstractmethod
    def use(self, identity: int) -> None:
        """A block that it holds is used."""

    @abstractmethod
    def drop(self) -> int:
        """Hold the block no longer whose turn it is; which one that was."""


EVICTIONS: Registry[type[Eviction]] = Registry("eviction")


@EVICTIONS.add("lru")
class LeastRecentlyUsed(Eviction):
    """The block whose last use is longest ago."""

    def __init__(self) -> None:
        """Empty."""
        self._held: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """Blocks."""
        return len(self._held)

    def __contains__(self, identity: object) -> bool:
        """Whether it is held."""
        return identity in self._held

    def add(self, identity: int) -> None:
        """Hold it, used just now."""
        self._held[identity] = None

    def use(self, identity: int) -> None:
        """Used just now."""
        self._held.move_to_end(identity)

    def drop(self) -> int:
        """The one at the front."""
        return self._held.popitem(last=False)[0]


@EVICTIONS.add("fifo")
class FirstWritten(LeastRecentlyUsed):
    """The block that was written first, however often it is used."""

    def use(self, identity: int) -> None:
        """Nothing changes."""


@EVICTIONS.add("lfu")
class LeastFrequentlyUsed(Eviction):
    """The block with the fewest uses since it was written; of equals the one whose last use is longest ago."""

    def __init__(self) -> None:
        """Empty."""
        self._uses: dict[int, tuple[int, int]] = {}
        """(uses, number of the last one) of each."""
        self._heap: list[tuple[int, int, int]] = []
        """(uses, number, identity); entries that `_uses` does not confirm are void."""
        self._number = 0

    def __len__(self) -> int:
        """Blocks."""
        return len(self._uses)

    def __contains__(self, identity: object) -> bool:
        """Whether it is held."""
        return identity in self._uses

    def add(self, identity: int) -> None:
        """Hold it, with one use."""
        self._note(identity, 1)

    def use(self, identity: int) -> None:
        """One use more."""
        self._note(identity, self._uses[identity][0] + 1)

    def _note(self, identity: int, uses: int) -> None:
        self._number += 1
        self._uses[identity] = uses, self._number
        heappush(self._heap, (uses, self._number, identity))
        if len(self._heap) > 4 * len(self._uses) + 64:
            self._heap = sorted((uses, number, one) for one, (uses, number) in self._uses.items())

    def drop(self) -> int:
        """The least of the heap that is still so."""
        while True:
            uses, number, identity = heappop(self._heap)
            if self._uses.get(identity) == (uses, number):
                del self._uses[identity]
                return identity
