"""The document of `clustersim workflow`: what each stage takes, when it ran, and what the time is made of."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkflowStage:
    """A stage, priced on its devices."""

    name: str
    does: str
    """`trains`, `generates`, `hands over` or `takes time`."""
    pools: tuple[str, ...]
    devices: int
    seconds: float
    """Of a run, on average over the iterations."""
    waits_s: float
    """For its pools, on average."""
    critical: float
    """Share of the makespan in which the last run to end hung on it."""
    about: str
    """What it is, in a line."""
    metrics: Mapping[str, float]
    """Figures of a run: of the training step, of the service, of the hand-over."""
    feasible: bool
    why: str
    """What it lacks where it is not feasible."""


@dataclass(frozen=True, slots=True)
class StageRun:
    """A run of a stage; seconds on the clock of the workflow."""

    stage: str
    iteration: int
    ready_s: float
    begin_s: float
    end_s: float
    critical: bool
    """Whether the last run to end hung on it."""


@dataclass(frozen=True, slots=True)
class PoolUse:
    """A pool of devices."""

    name: str
    devices: int
    first: int
    """Its first device."""
    busy: float
    """Share of the makespan in which it worked."""


@dataclass(frozen=True, slots=True)
class WorkflowDocument:
    """A workflow as it ran."""

    version: str
    name: str
    description: str
    device: str
    """Name of the cluster's devices."""
    feasible: bool
    metrics: Mapping[str, float]
    """`makespan_s`, `iteration_s`, `idle_fraction`, and those of stages behind their name and a colon."""
    pools: tuple[PoolUse, ...]
    stages: tuple[WorkflowStage, ...]
    runs: tuple[StageRun, ...]
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]
    ground: tuple[str, ...]
    """What the figures stand on."""
    provenance: Mapping[str, str | int]
