"""A comparison of runs as it is written and drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.results.ground import StatedGround
from simulator.results.spread import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One of the runs."""

    name: str
    kind: str
    """`training` or `serving`."""
    feasible: bool
    memory_too_close: bool
    """Whether its memory is too near to the capacity to call."""
    ground: StatedGround
    intervals: Mapping[str, Interval]
    """Between which values measured figures are expected, by metric; none of a run that does not fit."""
    parts_s: Mapping[str, float]
    """Seconds of a step or request by part."""
    parts: Mapping[str, float]
    """The same as shares of the time of the first run of its kind."""
    assumptions: tuple[str, ...]
    provenance: Mapping[str, Any]
    """Version, seed, hash of the scenario."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMetric:
    """A figure of all runs."""

    values: tuple[float | None, ...]
    """In the order of the runs, SI units (vLLM's keys in milliseconds); None where a run does not have it."""
    best: tuple[str, ...]
    """Names of the runs that are the best at it."""
    headline: bool
    """Whether most people look for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedDifference:
    """Why a run takes another time than the one that it is held against."""

    name: str
    against: str
    metric: str
    ratio: float
    """Its time over that of the other, less 1."""
    parts: Mapping[str, float]
    """Differences by part, as shares of the other's time."""
    feasible: bool
    confidence: float | None = None
    """How sure it is that it is faster, or slower, as simulated; None where no published run says so."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonDocument:
    """Runs side by side."""

    schema: int = 1
    kind: str = "comparison"
    shared: Mapping[str, str]
    """What all runs have in common, in words, by name."""
    differing: Mapping[str, tuple[str, ...]]
    """Settings that differ, with the value of each run."""
    changes: tuple[str, ...]
    """Overrides of all runs."""
    names: tuple[str, ...]
    runs: tuple[ComparedRun, ...]
    metrics: Mapping[str, ComparedMetric]
    differences: tuple[StatedDifference, ...]
    notes: tuple[str, ...]
