"""Error figures over outcomes of validation: mean, median, P90, signed bias, coverage, worst rows, ranking of
layouts."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from simulator.study.causes import Cause, suspected
from simulator.study.rows import Row
from simulator.study.validate import Outcome

GROUPS: dict[str, Callable[[Row], str]] = {
    "source": lambda row: row.source,
    "device": lambda row: row.device,
    "precision": lambda row: row.precision,
    "framework": lambda row: row.framework or "not stated",
    "metric": lambda row: row.primary_metric,
}
"""What errors can be listed by."""


def statistics(errors: Sequence[float]) -> dict[str, float]:
    """Mean, median and 90th percentile of |error| and the mean of the signed error; all fractions."""
    values = np.asarray(errors, float)
    if not len(values):
        return {"rows": 0}
    size = np.abs(values)
    return {
        "rows": len(values),
        "mean": float(size.mean()),
        "median": float(np.median(size)),
        "p90": float(np.percentile(size, 90)),
        "signed": float(values.mean()),
    }


def summary(outcomes: Sequence[Outcome], by: Iterable[str] = ("source", "device")) -> dict[str, Any]:
    """Everything that validation reports about a set of rows."""
    done = [o for o in outcomes if o.error is not None]
    return {
        "rows": len(outcomes),
        "simulated": len(done),
        "coverage": len(done) / max(len(outcomes), 1),
        "refused": dict(Counter(o.refused for o in outcomes if o.refused).most_common()),
        "error": statistics([o.error for o in done if o.error is not None]),
        "in_scope": statistics([o.error for o in done if o.error is not None and in_scope(o)]),
        "error_over_sources": over_sources(done),
        "complete": statistics([o.error for o in done if o.error is not None and not o.assumed]),
        "with_assumptions": statistics([o.error for o in done if o.error is not None and o.assumed]),
        "memory": statistics([o.memory_error for o in done if o.memory_error is not None]),
        "called_out_of_memory": sum(not o.feasible for o in done),
        "layout_rank_correlation": {source: ranking(rows) for source, rows in grouped(done, "source").items()},
        **{
            f"by_{key}": {
                name: statistics([o.error for o in rows if o.error is not None])
                for name, rows in grouped(done, key).items()
            }
            for key in by
        },
    }


SIXTEEN = ("fp16", "bf16", "amp_bf16")


def in_scope(outcome: Outcome) -> bool:
    """Tier 1, dense, 16 bits, A100 or H100, no context parallelism, a schedule that exists."""
    row = outcome.row
    return (
        row is not None and row.tier == 1 and row.precision in SIXTEEN and row.device.startswith(("A100", "H100"))
        and (row.experts or 0) <= 1 and (row.cp or 1) == 1 and not outcome.refused.startswith("schedule")
    )  # fmt: skip


def grouped(outcomes: Iterable[Outcome], key: str) -> dict[str, list[Outcome]]:
    """Outcomes by one of `GROUPS`, in the order of names."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.row is not None:
            found[GROUPS[key](outcome.row)].append(outcome)
    return dict(sorted(found.items()))


def over_sources(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Mean over sources of each source's mean |error| and signed error."""
    each = [statistics([o.error for o in rows if o.error is not None]) for rows in grouped(outcomes, "source").values()]
    if not each:
        return {}
    return {key: float(np.mean([figures[key] for figures in each])) for key in ("mean", "signed")}


def ranking(outcomes: Iterable[Outcome]) -> float | None:
    """Spearman's coefficient of measured and simulated step times within groups of equal model, devices and batch.

    Groups weigh by their size less 1; None where no group has two rows.
    """
    groups: dict[tuple[Any, ...], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if row := outcome.row:
            groups[row.model, row.hidden, row.layers, row.devices, row.global_batch, row.seq_len].append(outcome)
    found = [(_spearman(rows), len(rows) - 1) for rows in groups.values() if len(rows) > 1]
    weight = sum(w for _, w in found)
    return sum(value * w for value, w in found) / weight if weight else None


def _spearman(rows: list[Outcome]) -> float:
    measured, predicted = (_ranks([getattr(o, name) for o in rows]) for name in ("measured_s", "predicted_s"))
    spread = float(np.std(measured) * np.std(predicted))
    return float(np.mean((measured - measured.mean()) * (predicted - predicted.mean())) / spread) if spread else 0.0


def _ranks(values: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Ranks from 0, equal values sharing their mean rank."""
    array = np.asarray(values, float)
    return np.array([(array < v).sum() + ((array == v).sum() - 1) / 2 for v in array])


def document(figures: dict[str, Any], outcomes: Sequence[Outcome], causes: Sequence[Cause] = ()) -> dict[str, Any]:
    """`{"summary": ..., "rows": [...]}`; `error` is of the step time, positive is too slow."""
    return {"summary": figures, "rows": [_row(outcome, causes) for outcome in outcomes]}


def _row(outcome: Outcome, causes: Sequence[Cause]) -> dict[str, Any]:
    row = outcome.row
    return {
        "id": outcome.id,
        "line": outcome.line or None,
        "source": row.source if row else None,
        "device": row.device if row else None,
        "devices": row.devices if row else None,
        "model": row.model if row else None,
        "in_scope": in_scope(outcome),
        "metric": row.primary_metric if row else None,
        "measured": outcome.measured,
        "predicted": outcome.predicted,
        "error": outcome.error,
        "step_s": {"measured": outcome.measured_s, "predicted": outcome.predicted_s},
        "memory_error": outcome.memory_error,
        "feasible": outcome.feasible,
        "assumed": list(outcome.assumed),
        "cause": suspected(causes, outcome.id, outcome.error) or None,
        "refused": outcome.refused or None,
    }
