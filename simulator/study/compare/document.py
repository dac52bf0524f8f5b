"""A comparison in words and as the document that is written and drawn."""

from collections.abc import Mapping

from simulator.results.documents.comparison import (
    ComparedMetric,
    ComparedRun,
    ComparisonDocument,
    StatedDifference,
)
from simulator.results.ground import stated
from simulator.study.compare.comparison import Comparison, Difference, Run
from simulator.study.compare.notes import NOTABLE

_MANY_TIMES = 2.0  # from here on a multiple says more than a percentage

WORDS = {
    "compute": "computing",
    "recompute": "recomputing",
    "optimizer": "optimizer",
    "host": "waiting for the host",
    "offload": "waiting for offloaded activations",
    "stall": "slowing down beside collectives (stall)",
    "straggler": "waiting for slower peers",
    "slowest": "waiting for the slowest device",
    "bubble": "bubble",
    "idle": "idling",
    "queue": "waiting in the queue",
    "prefill": "prefill of the prompt",
    "handover": "moving the cache",
    "preempted": "preemption",
    "stalled": "stalling on other prompts",
    "decode": "decoding",
    "before": "waiting until the last job begins",
    "alone": "work that the last job has alone too",
    "shared": "delay of the last job by others",
}
"""Parts in words."""


def sentence(difference: Difference, *, against: bool = False) -> str:
    """The difference in words: `B takes 11.0 % less time: 9.0 points less bubble, 2.0 points more ...`.

    Points are hundredths of the first one's time. `against` names that first one too.
    """
    ratio, first = difference.ratio, difference.against
    verb = "takes" if difference.feasible else "does not fit into memory; if it did, it would take"
    each = _EACH.get(difference.metric, "")
    if abs(ratio) < NOTABLE:
        speed = f"as long{each} as {first if against else 'the first'}, within {100 * NOTABLE:.1f} %"
    elif ratio >= _MANY_TIMES - 1:
        speed = f"{1 + ratio:.3g} times as long{each}{f' as {first}' if against else ''}"
    else:
        more = "more" if ratio > 0 else "less"
        speed = f"{100 * abs(ratio):.1f} % {more} time{each}{f' than {first}' if against else ''}"
    return f"{difference.name} {verb} {speed}{_sure(difference)}{_why(difference.parts)}"


def _sure(difference: Difference) -> str:
    """How sure it is which of the two is faster."""
    if difference.confidence is None or abs(difference.ratio) < NOTABLE:
        return ""
    return f" (which is {'faster' if difference.ratio < 0 else 'slower'}: {100 * difference.confidence:.0f} % sure)"


_EACH = {"mean_e2el_ms": " a request", "makespan_s": " until all jobs are done", "iteration_s": " an iteration"}


def _why(parts: Mapping[str, float]) -> str:
    named = [_points(part, share) for part, share in parts.items() if abs(share) >= NOTABLE]
    return f": {', '.join(named)}" if named else ""


def _points(part: str, share: float) -> str:
    word = WORDS.get(part) or (f"exposed {part.removeprefix('exposed_')} communication" if "exposed_" in part else part)
    return f"{abs(100 * share):.1f} points {'more' if share > 0 else 'less'} {word}"


def document(comparison: Comparison) -> ComparisonDocument:
    """The comparison as it is written and drawn."""
    several = len({difference.against for difference in comparison.differences}) > 1
    return ComparisonDocument(
        shared=dict(comparison.shared),
        differing={key: tuple(values) for key, values in comparison.differing.items()},
        changes=tuple(comparison.changes),
        names=tuple(comparison.names),
        runs=tuple(_run(run) for run in comparison.runs),
        metrics={
            row.metric: ComparedMetric(
                values=tuple(row.values), best=tuple(comparison.names[i] for i in row.best), headline=row.headline
            )
            for row in comparison.rows
        },
        differences=tuple(_difference(difference, several) for difference in comparison.differences),
        notes=tuple(comparison.notes),
    )


def _difference(difference: Difference, several: bool) -> StatedDifference:
    return StatedDifference(
        name=difference.name,
        against=difference.against,
        metric=difference.metric,
        ratio=difference.ratio,
        parts=difference.parts,
        feasible=difference.feasible,
        confidence=difference.confidence,
        sentence=sentence(difference, against=several),
    )


def _run(run: Run) -> ComparedRun:
    return ComparedRun(
        name=run.name,
        kind=run.kind,
        feasible=run.feasible,
        memory_too_close=run.close,
        ground=stated(run.ground),
        intervals=dict(run.intervals),
        parts_s=dict(run.seconds),
        parts=dict(run.shares),
        assumptions=tuple(run.assumptions),
        provenance={key: run.provenance.get(key) for key in ("version", "seed", "scenario")},
    )
