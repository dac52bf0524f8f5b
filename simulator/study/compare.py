"""Results side by side: figures with the best marked, and why one run is faster than another.

The first result is what the others are held against. A difference in time is explained by its parts: of a training
step those of the breakdown, of a request those from its arrival to its last token. Parts are in points, hundredths of
the first one's time, so that they sum to the difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.errors import InputError, Problem
from simulator.results.metrics import METRICS, error_of_time, mean
from simulator.results.request_time import mean_request_time
from simulator.results.result import Result

SPEED = {"training": "tokens_per_s", "serving": "mean_e2el_ms"}
"""The figure that says how fast a run of each kind is: of training the tokens, as steps may be of other sizes."""
NOTABLE = 0.005
"""Share of the first one's time below which a part is not named."""

SKIPPED = frozenset({
    "completed", "failed", "unfinished", "total_input_tokens", "total_output_tokens", "mean_batch", "utilisation",
    "max_concurrent_requests", "prefix_cache_hit_rate",
})  # fmt: skip
"""Figures of which neither more nor less is better."""


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of every run."""

    metric: str
    values: tuple[float | None, ...]
    """SI (vLLM's keys in milliseconds); None where a run does not have it."""
    best: int | None
    """Index of the best one; None where all are equal or none is better than another."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One run held against the first."""

    name: str
    metric: str
    """The figure that is compared."""
    ratio: float
    """Its time over that of the first one, less 1: positive is slower."""
    parts: dict[str, float]
    """What each part adds to that ratio, the largest first; sums to it where both runs are of one kind."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs side by side."""

    names: tuple[str, ...]
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    """What could not be compared, and why."""


def compare(results: Sequence[Result], names: Sequence[str] | None = None) -> Comparison:
    """Hold results against the first; InputError for fewer than two, or for names that are not as many."""
    if len(results) < 2:
        raise InputError(Problem("there is nothing to compare", hint="name two scenarios or more"))
    shown = tuple(names) if names is not None else tuple(result.name for result in results)
    if len(shown) != len(results):
        raise InputError(Problem(f"{len(shown)} names for {len(results)} results"))
    kinds = {result.kind for result in results}
    known = [name for name in METRICS if any(name in result.metrics for result in results)]
    common = [name for name in known if all(name in result.metrics for result in results)] if len(kinds) > 1 else known
    rows = tuple(_row(name, results) for name in common)
    first = results[0]
    differences = tuple(
        _difference(first, other, name) for other, name in zip(results[1:], shown[1:], strict=True)
        if other.kind == first.kind and first.metrics and other.metrics
    )
    return Comparison(shown, rows, differences, tuple(_notes(results, shown, kinds, len(known) - len(common))))


def _notes(results: Sequence[Result], names: Sequence[str], kinds: set[str], left_out: int) -> list[str]:
    pairs = zip(results, names, strict=True)
    notes = [f"{name} does not fit into memory" for result, name in pairs if not result.feasible]
    if len(kinds) > 1:
        notes.append(
            f"training and serving share {'no figure' if not left_out else 'few figures'}: {left_out} that only one"
            " kind has are left out, and times are not explained by parts"
        )
    return notes


def _row(name: str, results: Sequence[Result]) -> Row:
    values = tuple(result.metrics.get(name) for result in results)
    return Row(name, values, None if name in SKIPPED else _best(name, values, [result.feasible for result in results]))


def _best(name: str, values: Sequence[float | None], feasible: Sequence[bool]) -> int | None:
    """The best of those that fit into memory; None where all are alike."""
    known = [(value, i) for i, value in enumerate(values) if value is not None and value == value and feasible[i]]
    if len(known) < 2 or max(known)[0] == min(known)[0]:
        return None
    return (max(known, key=lambda pair: (pair[0], -pair[1])) if METRICS[name].sense == "rate" else min(known))[1]


def _difference(first: Result, other: Result, name: str) -> Difference:
    metric = SPEED[first.kind]
    ratio = error_of_time(metric, first.metrics[metric], other.metrics[metric])
    before, after = parts(first), parts(other)
    whole = sum(before.values())
    scale = (1 + ratio) * whole / max(sum(after.values()), 1e-300)  # of the same work, where steps are of other sizes
    added = {key: (after.get(key, 0.0) * scale - before.get(key, 0.0)) / whole for key in {**before, **after}}
    return Difference(name, metric, ratio, dict(sorted(added.items(), key=lambda item: -abs(item[1]))))


def parts(result: Result) -> dict[str, float]:
    """Seconds of a step, or of a request, by what they consist of, on average over devices or requests."""
    if result.service is not None:
        return mean_request_time(result.service)
    return mean(result.breakdown, [c.ranks for c in result.classes])


def sentence(difference: Difference) -> str:
    """The difference in words: `B is 11 % faster: 9 points less bubble, 2 points more exposed tp communication`."""
    ratio = difference.ratio
    if abs(ratio) < NOTABLE:
        return f"{difference.name} is as fast as the first, within {NOTABLE:.1%}".replace("%", " %")
    named = [_points(part, share) for part, share in difference.parts.items() if abs(share) >= NOTABLE]
    speed = f"{abs(ratio):.1%}".replace("%", " %")
    why = f": {', '.join(named)}" if named else ""
    return f"{difference.name} takes {speed} {'more' if ratio > 0 else 'less'} time{why}"


def _points(part: str, share: float) -> str:
    word = WORDS.get(part) or (f"exposed {part.removeprefix('exposed_')} communication" if "exposed_" in part else part)
    return f"{abs(100 * share):.1f} points {'more' if share > 0 else 'less'} {word}"


WORDS = {
    "compute": "computing", "recompute": "recomputing", "optimizer": "optimizer", "host": "waiting for the host",
    "stall": "stalling on shared links", "bubble": "bubble", "idle": "idling", "queue": "waiting in the queue",
    "prefill": "prefill of the prompt", "handover": "moving the cache", "preempted": "preemption",
    "stalled": "stalling on other prompts", "decode": "decoding",
}  # fmt: skip
"""Parts in words."""


def document(comparison: Comparison) -> dict[str, object]:
    """The comparison as plain data for `--json`."""
    return {
        "schema": 1,
        "names": list(comparison.names),
        "metrics": {
            row.metric: {"values": list(row.values), "best": None if row.best is None else comparison.names[row.best]}
            for row in comparison.rows
        },
        "differences": [
            {
                "name": difference.name, "metric": difference.metric, "ratio": difference.ratio,
                "parts": difference.parts, "sentence": sentence(difference),
            }
            for difference in comparison.differences
        ],
        "notes": list(comparison.notes),
    }  # fmt: skip
