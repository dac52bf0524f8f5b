"""A regression check as it is written and drawn; nothing in it depends on the machine."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.results.spread import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedFigure:
    """A figure that is not what it was."""

    metric: str
    before: float | None
    """SI (vLLM's keys in milliseconds); None where the baseline does not have it."""
    after: float | None
    """None where the run does not have it any more."""
    change: float | None
    """after / before - 1; None where that is no number."""
    interval: Interval | None = None
    """Between which values a measured run is expected, as it is simulated now; None where no published run says so."""
    inside: bool | None = None
    """Whether the figure before lies in it, so that measured runs could not tell the two apart; None as `interval`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedPart:
    """A part of the time or of the memory that is not what it was."""

    table: str
    """Where it is a part."""
    name: str
    """Operation, or part of a request, or kind of memory."""
    axis: str | None
    """Mesh axis of a communication."""
    link: str | None
    """Kind of link that a communication waits for, None where unknown."""
    before: float
    """Seconds; bytes of memory."""
    after: float
    share: float
    """Of the difference in the whole before."""
    hidden: bool
    """Whether it runs beside other work and nothing waits for it."""
    change: float | None


@dataclass(frozen=True, slots=True)
class FitBeforeAfter:
    """Whether a run could be carried out, by its baseline and now."""

    before: bool
    after: bool


@dataclass(frozen=True, slots=True)
class VersionBeforeAfter:
    """Version of the program that wrote the baseline, and of this one."""

    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedProblem:
    """What is wrong with a scenario or a baseline."""

    message: str
    file: str | None
    line: int | None
    column: int | None
    path: str
    hint: str
    text: str
    """All of it on one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedScenario:
    """One scenario against its baseline."""

    file: str
    name: str | None
    kind: str | None
    """`training`, `serving`, `jobs` or `workflow`; None where neither could be read."""
    baseline: str
    """File."""
    state: str
    metrics: Mapping[str, float]
    moved: tuple[MovedFigure, ...]
    through: tuple[MovedPart, ...]
    feasible: FitBeforeAfter | None
    edited: tuple[str, ...]
    """What the scenario says otherwise."""
    version: VersionBeforeAfter
    problems: tuple[StatedProblem, ...]
    accept: str
    """The command that takes what is now for the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDocument:
    """All scenarios of a check."""

    schema: int = 1
    kind: str = "check"
    passed: bool
    baseline: str
    """Folder."""
    tolerance: Mapping[str, float]
    """`default`, and by metric."""
    scenarios: tuple[CheckedScenario, ...]
    notes: tuple[str, ...]
