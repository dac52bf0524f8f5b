"""What became of the adapters of low rank in a serving run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdapterUse:
    """The adapters of all replicas together."""

    count: int
    """Different ones that requests asked for."""
    requests: int
    """Requests that asked for one."""
    hits: int
    """Those that found it on the devices of their replica."""
    loads: int
    """Adapters that were loaded onto devices."""
    fetched: int
    """Those of them that came from storage."""
    evicted: int
    """Adapters that gave way on devices."""
    most: int
    """Adapters that devices held at most, each replica at its own moment."""
    largest: float
    """Bytes of the largest one, all devices of a replica together."""
    read: float
    """Bytes that were loaded."""
    mean_wait: float
    """Seconds for which a request that did not find its adapter waited for it, on average."""
    longest_wait: float
    """Seconds of the longest such wait."""
