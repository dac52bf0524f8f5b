"""A sweep as it is written and drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.results.ground import StatedGround
from simulator.results.spread import Interval


@dataclass(frozen=True, slots=True)
class MissedCondition:
    """A condition on a metric, and what that metric was."""

    condition: str
    """As it was written."""
    metric: str
    least: float
    """Of all points that fit, before any was left out; in the metric's own unit."""
    most: float
    met: int
    """Points that meet it."""


@dataclass(frozen=True, slots=True)
class RankedPoints:
    """The points that have a figure, the best first."""

    metric: str
    points: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ParetoFront:
    """The points that none beats in one of two metrics without losing in the other."""

    metrics: tuple[str, str]
    points: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A figure over two axes."""

    x: str
    """Key of the axis across."""
    y: str
    """Key of the axis upward."""
    metric: str
    x_values: tuple[Any, ...]
    y_values: tuple[Any, ...]
    cells: tuple[tuple[float | None, ...], ...]
    """The best figure of the points there, a row for each value of y; None where no point has one."""
    most_points: int
    """How many points the fullest cell stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptPoint:
    """One point."""

    point: int
    """Its number among all combinations, from 0."""
    name: str
    overrides: tuple[str, ...]
    values: Mapping[str, Any]
    """What was varied: the value by the key of its axis."""
    status: str
    """`ok`, or what became of it."""
    reason: str
    """Why it is not `ok`."""
    metrics: Mapping[str, float | None]
    """SI units (vLLM's keys in milliseconds)."""
    warnings: tuple[str, ...]
    memory_too_close: bool
    """Whether its memory is too near to the capacity to call."""
    scenario: str
    """Hash of the resolved scenario; empty where the scenario itself is refused."""
    ground: StatedGround
    intervals: Mapping[str, Interval]
    """Between which values measured figures are expected, by metric; of points that are `ok`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepDocument:
    """All points of a sweep with what was asked of them."""

    schema: int = 1
    kind: str = "sweep"
    of: str
    """`training`, `serving`, `jobs` or `workflow`."""
    name: str
    """Name of the scenario."""
    subject: Mapping[str, str]
    """What all points share, in words, by name."""
    changes: tuple[str, ...]
    """Overrides of all points."""
    axes: Mapping[str, tuple[Any, ...]]
    """What was varied: the values by key."""
    where: tuple[str, ...]
    """The conditions."""
    random: int | None
    """How many points were drawn at most; None where all combinations were taken."""
    dropped: int
    """Points that conditions on metrics left out."""
    conditions: tuple[MissedCondition, ...]
    best: RankedPoints | None
    """None where no point has the figure."""
    ranked_by: str
    unpriced: tuple[str, ...]
    """Devices whose price is not known."""
    pareto: ParetoFront | None
    heat: HeatMap | None
    rows: tuple[SweptPoint, ...]
    provenance: Mapping[str, Any]
