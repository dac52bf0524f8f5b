"""The one frozen Result that every report, plot, trace, comparison and regression check reads."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """Ranks that behave alike; one of them was simulated."""

    name: str
    """For example `stage 3`."""
    ranks: int
    """How many ranks it stands for."""
    example: int
    """The lowest of them."""


@dataclass(frozen=True, slots=True)
class Spans:
    """What ran when, as columns; row i is one operation. Times count picoseconds from the start of the step."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    lane: NDArray[np.int32]
    """Index into `lanes`."""
    name: NDArray[np.int32]
    """Index into `names`."""
    stage: NDArray[np.int32]
    """Pipeline stage (model chunk) or -1."""
    microbatch: NDArray[np.int32]
    """Microbatch or -1."""
    lanes: tuple[tuple[int, str], ...]
    """(index of the device class, name of the lane: compute, tensor, data, pipeline ...)."""
    names: tuple[str, ...]
    """Kinds of operation: forward, backward, send forward, reduce gradients, optimizer ..."""
    flows: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    """Arrows: rows (from operation, to operation) where one lane waited for another device class; shape (k, 2)."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Device memory of one class of ranks."""

    device_class: int
    """Index into `Result.classes`."""
    capacity: float
    """Bytes of the device."""
    peak: float
    """Bytes at the worst moment, all kinds together."""
    at_peak: dict[str, float]
    """Bytes by kind at that moment; sums to `peak`."""
    time: NDArray[np.int64]
    """Picoseconds at which the level changes; shape (t,)."""
    level: NDArray[np.float64]
    """Bytes from each of those moments on; shape (t,)."""


@dataclass(frozen=True, slots=True)
class LinkLoad:
    """Traffic of one kind of link over the step."""

    name: str
    """For example `NIC up`."""
    links: int
    """How many links of that kind there are."""
    capacity: float
    """Bytes per second of one."""
    bytes: float
    """Bytes that the busiest one carried."""
    utilisation: float
    """Those bytes / (capacity x step time)."""


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """Operations that follow each other without a gap from the start of the step to its end."""

    seconds: dict[str, float] = field(default_factory=dict)
    """The step time by what the path is made of: the parts of the breakdown that are on it; no bubble is."""
    by_class: tuple[dict[str, float], ...] = ()
    """The same for each device class that the path runs through; empty for one that it does not meet."""
    operations: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Rows of `Result.spans` in the order of time; shape (k,)."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What the step would take on a slightly better machine; everything else unchanged, simulated again."""

    name: str
    """What was changed, for example `nic_bandwidth`."""
    change: str
    """By how much, for people: `+10 %`, `4 to 8 per node`."""
    step_time_s: float
    """Seconds of the step after the change."""
    gain: float
    """Share of the step time that the change saves: 1 - changed / unchanged; negative where it costs time."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A published figure beside the simulated one."""

    metric: str
    published: float
    simulated: float
    error: float
    """Of time: positive is too slow. predicted / measured - 1 for times, measured / predicted - 1 for rates."""
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that one simulated run has to say; SI units throughout."""

    kind: str
    """`training` or `serving`."""
    name: str
    """Name of the scenario."""
    metrics: dict[str, float]
    """Headline figures by the names of the command line's JSON form."""
    classes: tuple[DeviceClass, ...]
    """The simulated device classes."""
    breakdown: tuple[dict[str, float], ...]
    """For each class, seconds of the step by what the device did; each sums to the step time."""
    spans: Spans
    memory: tuple[MemoryUse, ...]
    links: tuple[LinkLoad, ...] = ()
    critical_path: CriticalPath = field(default_factory=CriticalPath)
    """What the step time is made of; nothing in it where nobody looked."""
    sensitivities: tuple[Sensitivity, ...] = ()
    """What better parts of the machine would give; empty where nobody asked."""
    comparisons: tuple[Comparison, ...] = ()
    warnings: tuple[str, ...] = ()
    """What was asked for and has no effect, or lies outside the range of a model."""
    assumptions: tuple[str, ...] = ()
    """What the scenario left open and how it was filled in."""
    feasible: bool = True
    """False if a device is out of memory; metrics then hold what would be if it were not."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """Version, seed, hash of the resolved scenario, how ranks were folded, events."""
    scenario: dict[str, Any] = field(default_factory=dict)
    """The resolved scenario as plain data."""
    schema: int = SCHEMA
