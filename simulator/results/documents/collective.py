"""One collective on a machine as it is written and drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan

from simulator.results.documents.form import LEFT_OUT


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


@dataclass(frozen=True, slots=True)
class SizedCollective:
    """One size of a collective, with the figures that nccl-tests print."""

    size_bytes: float
    count: int
    """Elements of the type."""
    time_s: float
    algbw_bytes_per_s: float
    """Size over time."""
    busbw_bytes_per_s: float
    """That times what each link carries of the size, so that a ring at full speed shows the speed of a link."""
    algorithm: str
    protocol: str
    bound: str
    """What takes most of the time: `launch`, hops, or a kind of link."""
    launch_s: float
    """Of the time, before the first step."""
    hops_s: float
    """Of the time, latency of sequential steps."""
    moving_s: float
    """Of the time, how long bytes move."""
    measured_s: float = field(default=nan, metadata=LEFT_OUT)
    error: float = field(default=nan, metadata=LEFT_OUT)
    """Simulated over measured time, less 1."""


@dataclass(frozen=True, slots=True)
class CollectiveCurve:
    """Sizes of one algorithm, or of what the library takes."""

    name: str
    """`algorithm/protocol`, or `library` for its own choice."""
    sizes: tuple[SizedCollective, ...]


@dataclass(frozen=True, slots=True)
class CollectiveSweepDocument:
    """A collective over sizes, with nothing else on the fabric."""

    operation: str
    cluster: str
    library: str
    """Name of the profile whose figures hold."""
    ranks: int
    """Of a group."""
    groups: int
    """That run it at the same time."""
    nodes: int
    """That a group touches."""
    dtype: str
    curves: tuple[CollectiveCurve, ...]
    """The library's choice first."""
    log: str = ""
    """File of the measured times; empty where there is none."""
    refused: tuple[str, ...] = ()
    """Lines of it that are no rows, with what is wrong."""
