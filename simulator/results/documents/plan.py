"""A plan of capacity as it is written and drawn."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.results.ground import StatedGround


@dataclass(frozen=True, slots=True)
class StatedObjectives:
    """What was promised; limits in seconds, None where there is none."""

    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    attainment: float
    """Share of the requests that must meet all of them."""


@dataclass(frozen=True, slots=True)
class ReachedObjective:
    """One objective at one rate."""

    limit_s: float
    attainment: float
    """Share of the requests that meet it."""
    reached_s: float | None
    """What the wanted share of the requests keeps to; None where they never finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedRate:
    """A rate of arrivals that was simulated."""

    rate: float
    """Per second; 0 stands for requests one after the other."""
    meets: bool
    """Whether enough requests meet all objectives."""
    attainment: float
    """Share of the requests that do."""
    goodput: float
    """Requests per second within all objectives; where the rate counts requests, at most the rate times their share."""
    saturated: bool
    """Whether the queue grows as long as requests come."""
    objectives: Mapping[str, ReachedObjective]
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class PlannedSystem:
    """What serves."""

    device: str
    model: str
    stack: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLayout:
    """One layout and the largest rate that it carries."""

    name: str
    overrides: tuple[str, ...]
    state: str
    """`found`, or why there is no rate."""
    reason: str
    system: PlannedSystem
    ground: StatedGround
    requests: int | None
    process: str | None
    """Of the arrivals."""
    unit: str
    """What the rate counts."""
    replicas: int
    devices: int | None
    usd_per_hour: float | None
    unpriced: tuple[str, ...]
    """Devices whose price is not known, where the layout's is not."""
    rate: float | None
    """The largest, per second."""
    rate_per_device: float | None
    missed_at: float | None
    """The next higher rate tried, at which too few requests met the objectives."""
    binding: str | None
    """The objective that most requests miss there."""
    carries_target: bool | None
    carries_longer: bool | None
    """Whether a longer run would carry the target too."""
    settled: bool | None
    """Whether a longer run would carry the rate too."""
    memory_too_close: bool
    best_per_device: bool
    cheapest: bool
    at_best: ProbedRate | None
    curve: tuple[ProbedRate, ...]
    odd_rates: tuple[float, ...]
    """Rates at which it is the other way round than at lower and higher ones."""


@dataclass(frozen=True, slots=True)
class PlanProvenance:
    """Of what the plan was made."""

    version: str
    seed: int
    scenario: str
    """Hash."""
    simulations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    """Layouts of one scenario and the rates that they carry."""

    schema: int = 1
    kind: str = "plan"
    name: str
    feasible: bool
    """Whether any layout meets the objectives, at the target where there is one."""
    slo: StatedObjectives
    target_rate: float | None
    tolerance: float
    """How close to the largest rate the search came."""
    layouts: tuple[PlannedLayout, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    provenance: PlanProvenance
