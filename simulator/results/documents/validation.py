"""Validation against published measurements as it is written and drawn; errors are of time, positive is too slow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Any

from simulator.results.documents.form import LEFT_OUT

_BY = "by_"


@dataclass(frozen=True, slots=True)
class ErrorStatistics:
    """Errors of some rows in a few figures, fractions but for the number of rows; NaN of no rows."""

    rows: int = 0
    mean: float = field(default=nan, metadata=LEFT_OUT)
    """Of the sizes."""
    median: float = field(default=nan, metadata=LEFT_OUT)
    """Of the sizes."""
    p90: float = field(default=nan, metadata=LEFT_OUT)
    """90th percentile of the sizes."""
    signed: float = field(default=nan, metadata=LEFT_OUT)
    """Mean of the signed errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationSummary:
    """Everything that validation reports about a set of rows."""

    what: str
    """The stack whose errors these are."""
    scope: str
    """Which rows are in scope, in words."""
    rows: int
    simulated: int
    coverage: float
    """Share of the rows that were simulated."""
    coverage_in_scope: float
    refused: Mapping[str, int]
    """Rows by why they are refused, the most frequent reason first."""
    error: ErrorStatistics
    """Of all rows that were simulated."""
    in_scope: ErrorStatistics
    error_over_sources: Mapping[str, float]
    """Mean over sources of the `mean` and the `signed` error of each; empty where there are none."""
    complete: ErrorStatistics
    """Of rows that leave nothing open."""
    with_assumptions: ErrorStatistics
    memory: ErrorStatistics
    """Of the peak memory."""
    called_out_of_memory: int
    """Rows that ran."""
    layout_rank_correlation: Mapping[str, float | None]
    """By source."""
    by: Mapping[str, Mapping[str, ErrorStatistics]] = field(metadata={"spread": _BY})
    """What rows have in common to its values to their errors."""
    sampled_from: int | None = field(default=None, metadata=LEFT_OUT)
    """Of how many rows these are a sample."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that the metric of a row stands for."""

    measured: float | None
    predicted: float | None


@dataclass(frozen=True, slots=True)
class ScoredFigure:
    """One of the figures by which a row is scored."""

    metric: str
    measured: float
    predicted: float
    error: float
    interval: tuple[float, float] | None = None
    """Between which values it is expected from rows of other sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedRow:
    """A published row and what became of it."""

    id: str
    line: str | None
    """`file:number`."""
    source: str | None
    device: str | None
    devices: int | None
    model: str | None
    in_scope: bool
    metric: str | None
    measured: float | None
    predicted: float | None
    error: float | None
    step_s: Times
    interval: tuple[float, float] | None = None
    """Between which values `measured` is expected from rows of other sources."""
    memory_error: float | None
    feasible: bool
    assumed: tuple[str, ...]
    cause: str | None
    """Suspected of its error."""
    refused: str | None
    conditions: Mapping[str, Any] | None
    """What its scenario stands on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedServingRow(ValidatedRow):
    """A row of serving, with all figures that it is scored by."""

    kind: str | None
    stack: str | None
    parts: tuple[ScoredFigure, ...]
    errors: Mapping[str, float] | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class ValidationDocument:
    """Published rows and how wrong the simulation of them is."""

    summary: ValidationSummary
    rows: tuple[ValidatedServingRow | ValidatedRow, ...]
