"""One collective on a machine as it is written and drawn."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CollectiveDocument:
    """What a collective costs with nothing else on the fabric."""

    operation: str
    cluster: str
    library: str
    """Name of the profile whose figures hold."""
    algorithm: str
    """`algorithm/protocol` that the group runs."""
    ranks: int
    nodes: int
    size_bytes: float
    """As nccl-tests count; of a dispatch or combine one copy of each token for each of its experts."""
    time_s: float
    moving_s: float
    """Of the time, how long bytes move; the rest is launch and latency."""
    bottleneck: str
    """Kind of link that decides; empty where nothing is sent."""
    busiest_bytes: Mapping[str, float]
    """Kinds of links that are used to the bytes on the busiest one of each."""
