"""What memories below the devices' held and moved in a serving run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheTierUse:
    """A tier of the cache, those of all replicas together."""

    name: str
    path: str
    """What blocks travel over: `host`, `disk` or `network`."""
    memories: int
    """One where it is shared, else one for each replica."""
    capacity: float
    """Bytes of all of them."""
    most: float
    """Bytes that they held at most, each at its own moment."""
    hit_tokens: int
    """Tokens of prompts that were loaded from it."""
    asked_tokens: int
    """Tokens of prompts that it was asked for: those that no memory before it held, up to the first that none has."""
    dropped_tokens: int
    """Tokens that gave way for others."""
    read: float
    """Bytes that were read from it over its path."""
    written: float
    """Bytes that were written into it over its path."""
    prompt_tokens: int = 0
    """Tokens of prompts that were looked up in it before all other tiers, each time that they were: those of one that
    starts again are looked up again."""
