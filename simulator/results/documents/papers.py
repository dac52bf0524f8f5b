"""The document of `clustersim papers`: published figures, ours, and what each system comes to."""

from collections.abc import Mapping
from dataclasses import dataclass

REPRODUCED = "reproduced"
HOLDS = "holds"
DIRECTION = "direction"
MISSED = "missed"
GIVEN = "by construction"
NO_SCENARIO = "no scenario"
VERDICTS = (REPRODUCED, HOLDS, DIRECTION, MISSED)
"""What a figure that counts can come to, best first."""
OF_SYSTEMS = (*VERDICTS, GIVEN, NO_SCENARIO)
"""What a system can come to, best first: `by construction` where it has only figures that could not be others."""


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A figure of a paper and ours."""

    paper: str
    """Folder of its scenarios."""
    claim: str
    """What is claimed."""
    source: str
    """Where it was published."""
    published: float
    bound: str | None
    """`least` or `most` where the authors give a bound."""
    unit: str
    """None for ratios: an empty text."""
    ours: float | None
    """None where a run does not fit its devices or has no such figure."""
    error: float | None
    """Ours over published, less 1; None where a bound holds or ours is not known."""
    verdict: str
    """One of `VERDICTS`, or `by construction`, which is not counted."""
    reason: str
    """Why ours differs, or why it could not differ."""
    checks: Mapping[str, float | None]
    """What was changed to look into it, in words, and what ours is then."""


@dataclass(frozen=True, slots=True)
class FittedIterations:
    """Errors of our iterations against a latency model that authors fitted, by phase."""

    model: str
    engine: str
    tp: int
    errors: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class FittedTable:
    """Iterations against the fits of one source."""

    source: str
    prompts: tuple[int, ...]
    decodes: tuple[int, ...]
    contexts: tuple[int, ...]
    models: tuple[FittedIterations, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A published figure that is not reproduced."""

    claim: str
    why: str


@dataclass(frozen=True, slots=True)
class PaperEntry:
    """One paper."""

    name: str
    title: str
    half: str
    """`training` or `serving`."""
    figures: tuple[PublishedFigure, ...]
    left_out: tuple[LeftOut, ...]
    fits: tuple[FittedTable, ...]


@dataclass(frozen=True, slots=True)
class SystemEntry:
    """A published system: its best figure, or why it has none."""

    name: str
    title: str
    half: str
    mechanism: str
    verdict: str
    """The best verdict of its figures; `by construction` where none of them counts, `no scenario` where it has none."""
    papers: tuple[str, ...]
    """Papers whose figures are its own."""
    same_as: str | None
    """Another system of the same source, under which it is counted."""
    why: str
    """Why it has no scenario, or no figure that counts."""


@dataclass(frozen=True, slots=True)
class PapersTotals:
    """Systems by their best verdict, each source once; figures by verdict."""

    systems: Mapping[str, int]
    figures: Mapping[str, int]
    within_25_percent: int
    """Figures that are reproduced, hold, or are off by at most a quarter."""
    by_mechanism: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class PapersDocument:
    """Published systems beside ours."""

    version: str
    totals: PapersTotals
    systems: tuple[SystemEntry, ...]
    papers: tuple[PaperEntry, ...]
