"""One memory of blocks: what it holds, what is on its way into it, and what it was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from simulator.serving.tiers.eviction import EVICTIONS, Eviction


@dataclass(slots=True)
class TierStore:
    """The blocks of a tier, by identity; of one replica, or of all where it is shared."""

    name: str
    capacity: int
    """Identities that it holds at most."""
    back: bool
    """Whether it takes what the memory before it drops; if not, what is computed."""
    held: Eviction
    coming: set[int] = field(default_factory=set)
    """Identities that are being written into it."""
    hits: int = 0
    """Identities that were loaded from it."""
    asked: int = 0
    """Identities that it was asked for: those of prompts that no memory before it held, up to the first that none of
    the tiers holds."""
    looked_up: int = 0
    """Tokens of prompts that were looked up in it before all other tiers, and of what was to be computed with them."""
    dropped: int = 0
    """Identities that gave way."""
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    most: int = 0
    """Identities that it held at most."""

    def lose(self) -> None:
        """All that it holds is gone, by no eviction."""
        while len(self.held):
            self.held.drop()

    def wants(self, identity: int) -> bool:
        """Whether writing a block into it would change anything."""
        return self.capacity > 0 and identity not in self.held and identity not in self.coming

    def use(self, identities: Sequence[int]) -> None:
        """A prompt with these blocks is looked up: those that are held are used, the first ones last, so that ends of
        prefixes give way before their beginnings."""
        held = self.held
        for identity in reversed(identities):
            if identity in held:
                held.use(identity)

    def put(self, identities: Sequence[int]) -> list[int]:
        """Hold these blocks; those that give way for them."""
        gone = []
        for identity in reversed(identities):
            self.coming.discard(identity)
            if identity in self.held:
                self.held.use(identity)
                continue
            if len(self.held) >= self.capacity:
                gone.append(self.held.drop())
            self.held.add(identity)
        self.dropped += len(gone)
        self.most = max(self.most, len(self.held))
        return gone


def empty(name: str, capacity: int, back: bool, eviction: str) -> TierStore:
    """A tier that holds nothing; InputError for an unknown eviction."""
    return TierStore(name, capacity, back, EVICTIONS.get(eviction, "serving.kv_cache.tiers")())
