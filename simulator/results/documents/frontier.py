"""A frontier of a serving system as it is written and drawn."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.results.documents.plan import PlannedSystem, PlanProvenance, ReachedObjective, StatedObjectives
from simulator.results.ground import StatedGround


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """A structure simulated at a rate of requests."""

    name: str
    mode: str
    """`aggregated` or `disaggregated`."""
    overrides: tuple[str, ...]
    """Changes of the scenario that make it this, on the whole cluster."""
    rate: float
    """Requests per second of the whole cluster."""
    tokens_per_s_per_user: float
    """One over the mean time between two tokens of a request."""
    tokens_per_s_per_device: float
    """Output tokens per second and device of the cluster, idle ones too."""
    decodes_per_device: float
    """Sequences that decode at once on a device in the mean."""
    idle_devices: int
    state: str
    """`meets`, `misses`, `grows` (the queue grows as long as requests come), or why nothing was simulated."""
    reason: str
    on_front: bool
    short: bool
    """Whether the run is too short for a steady state."""
    attainment: float
    """Share of the requests that meet all objectives."""
    objectives: Mapping[str, ReachedObjective]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierCounts:
    """Candidates, each in one of the numbers after the first."""

    candidates: int
    shape: int
    """The model or the cluster has no such layout."""
    memory: int
    """Weights, or the longest request, do not fit."""
    objectives: int
    """Even a request alone is too slow."""
    rate: int
    """Cannot carry the lowest rate tried."""
    bound: int
    """At no rate above what was found, however good."""
    unlikely: int
    """Not ruled out, but far behind by a guess, or beyond the number of simulations."""
    simulated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierDocument:
    """The frontier of one scenario."""

    schema: int = 1
    kind: str = "frontier"
    name: str
    feasible: bool
    """Whether any point meets the objectives."""
    slo: StatedObjectives
    system: PlannedSystem
    ground: StatedGround
    devices: int
    counts: FrontierCounts
    rates: tuple[float, ...]
    """Requests per second that were tried, as they were."""
    points: tuple[FrontierPoint, ...]
    winner: int | None
    """Its place among the points: the most tokens per second and device within the objectives."""
    runner_up: int | None
    """The best one of another layout."""
    nearest: int | None
    """Where none meets the objectives: the one that most requests do at."""
    why: tuple[str, ...]
    """Why the winner wins and what the runner-up lacks."""
    could: float | None
    """Tokens per second and device up to which bounds leave candidates open that were not simulated."""
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    provenance: PlanProvenance
