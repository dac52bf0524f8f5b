"""Layouts of a training, ranked, as they are written and drawn."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.results.documents.plan import PlannedSystem, PlanProvenance
from simulator.results.ground import StatedGround


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutCounts:
    """Candidates, each in one of the numbers from `refused` to `failed`."""

    candidates: int
    refused: int
    """The model, the software or the cluster has no such layout."""
    memory: int
    """Do not fit into memory."""
    days: int
    """Take too long."""
    budget: int
    """Are too dear."""
    compute: int
    """Ruled out by the compute roof alone."""
    communication: int
    """Ruled out by the roof with communication."""
    bubble: int
    """Ruled out with the bubble."""
    unshared: int
    """Ruled out by the step in which nothing is shared."""
    beaten: int
    """Priced, and behind the best."""
    leaders: int
    """Priced, and among the best."""
    failed: int
    priced: int
    """Taken up to be priced: by max-plus or, where it does not hold, by events."""
    ledger: int
    """Of these, found too large by the ledger of memory, so that no step was run."""
    looked_up: int
    """Of these, taken from a cache."""
    simulated: int
    """Leaders confirmed by events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedLayout:
    """One of the best layouts."""

    name: str
    machine: str
    nodes: int
    devices: int
    overrides: tuple[str, ...]
    """Changes of the scenario that make it this."""
    step_time_s: float
    step_time_low_s: float | None
    """From where on the measured time is expected; None where no published run says."""
    step_time_high_s: float | None
    bound_s: float
    """The lower bound of its step."""
    confidence: float | None
    """How sure it is that the best one is faster, or cheaper; None for the best one, and where nothing is known."""
    tokens_per_s: float
    mfu: float
    bubble_fraction: float
    exposed_communication_s: float
    peak_memory_bytes: float
    memory_bytes: float
    """Of a device."""
    memory_too_close: bool
    days: float | None
    """Of the whole training."""
    cost_usd: float | None
    """Of the whole training, else of a step; None where devices have no price."""
    energy_j: float | None
    """As the cost."""
    carbon_kg: float | None
    parts: Mapping[str, float]
    """Seconds of a step by what they consist of, on average over devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastNeeded:
    """What it takes at least where limits allow nothing."""

    what: str
    """`cost_usd`, `days` or `memory_bytes`."""
    value: float
    layout: str
    machine: str
    limits: str
    """Limits that this keeps, in words; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutsDocument:
    """The answer to one question."""

    schema: int = 1
    kind: str = "layouts"
    name: str
    feasible: bool
    by: str
    """What the best layout has least of: `time` or `cost`."""
    tokens: float | None
    days: float | None
    """At most."""
    budget_usd: float | None
    grid: str | None
    grid_kg_per_kwh: float | None
    grid_source: str | None
    system: PlannedSystem
    ground: StatedGround
    global_batch: int
    sequence_length: int
    machines: tuple[str, ...]
    fixed: Mapping[str, tuple[int | str, ...]]
    """Choices that were given values."""
    counts: LayoutCounts
    layouts: tuple[RankedLayout, ...]
    """The best first."""
    why: tuple[str, ...]
    """Why the winner wins and what the runner-up lacks."""
    infeasible: tuple[str, ...]
    """What was ruled out and by how much."""
    least: tuple[LeastNeeded, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    provenance: PlanProvenance
