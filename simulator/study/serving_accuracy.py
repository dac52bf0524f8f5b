"""Error figures over outcomes of serving rows, in the form of `accuracy`: by source, device, kind, stack, precision."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from simulator.study.accuracy import statistics
from simulator.study.causes import Cause, suspected
from simulator.study.serving_validate import ServingOutcome

SERVING_GROUPS: dict[str, Callable[[ServingOutcome], str]] = {
    "source": lambda o: o.row.source if o.row else "",
    "device": lambda o: o.row.device if o.row else "",
    "kind": lambda o: o.row.kind if o.row else "",
    "stack": lambda o: o.stack,
    "engine": lambda o: " ".join(filter(None, (o.row.engine, o.row.engine_version))) if o.row else "",
    "model": lambda o: o.row.model if o.row else "",
    "precision": lambda o: o.row.number_format if o.row else "",
}
"""What errors can be listed by."""
MEASURED = re.compile(r"(A100|H100|H200) SXM")
"""Devices whose kernels are measured."""
SPARSE = re.compile(r"deepseek-?[ -]?(v3|r1(?!.*distill| 14b))|mixtral|gpt-oss|-A\d+B", re.I)
"""Mixtures of experts."""


def in_scope(outcome: ServingOutcome) -> bool:
    """A dense model on A100, H100 or H200 SXM, of a kind that is simulated."""
    row = outcome.row
    if row is None or not MEASURED.search(row.accelerator) or SPARSE.search(row.model):
        return False
    return row.kind not in ("pd_disaggregated", "scheduler_speedup")


def serving_summary(outcomes: Sequence[ServingOutcome], by: Iterable[str] = ("source", "device")) -> dict[str, Any]:
    """Everything that validation reports about a set of rows."""
    done = [o for o in outcomes if o.error is not None]
    scope = [o for o in outcomes if in_scope(o)]
    return {
        "what": "time",
        "rows": len(outcomes),
        "simulated": len(done),
        "coverage": len(done) / max(len(outcomes), 1),
        "coverage_in_scope": sum(o.error is not None for o in scope) / max(len(scope), 1),
        "refused": dict(Counter(o.refused for o in outcomes if o.refused).most_common()),
        "error": errors(done),
        "in_scope": errors([o for o in done if in_scope(o)]),
        "error_over_sources": _over_sources(done),
        "complete": errors([o for o in done if not o.assumed]),
        "with_assumptions": errors([o for o in done if o.assumed]),
        "memory": statistics([]),
        "called_out_of_memory": sum("fit into the memory" in o.refused for o in outcomes),
        "layout_rank_correlation": {},
        **{f"by_{key}": {name: errors(rows) for name, rows in serving_grouped(done, key).items()} for key in by},
    }


def errors(outcomes: Iterable[ServingOutcome]) -> dict[str, float]:
    """Statistics of the simulated ones."""
    return statistics([o.error for o in outcomes if o.error is not None])


def serving_grouped(outcomes: Iterable[ServingOutcome], key: str) -> dict[str, list[ServingOutcome]]:
    """Outcomes by one of `SERVING_GROUPS`, in the order of names."""
    found: dict[str, list[ServingOutcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.row is not None:
            found[SERVING_GROUPS[key](outcome)].append(outcome)
    return dict(sorted(found.items()))


def _over_sources(done: Sequence[ServingOutcome]) -> dict[str, float]:
    each = [errors(rows) for rows in serving_grouped(done, "source").values()]
    return {key: sum(e[key] for e in each) / len(each) for key in ("mean", "signed")} if each else {}


def serving_document(
    figures: dict[str, Any], outcomes: Sequence[ServingOutcome], causes: Sequence[Cause] = ()
) -> dict[str, Any]:
    """`{"summary": ..., "rows": [...]}`; `error` is of time, positive is too slow."""
    return {"summary": figures, "rows": [_row(outcome, causes) for outcome in outcomes]}


def _row(outcome: ServingOutcome, causes: Sequence[Cause]) -> dict[str, Any]:
    row = outcome.row
    return {
        "id": outcome.id,
        "line": outcome.line or None,
        "source": row.source if row else None,
        "kind": row.kind if row else None,
        "device": row.device if row else None,
        "devices": row.num_accelerators if row else None,
        "model": row.model if row else None,
        "stack": outcome.stack or None,
        "in_scope": in_scope(outcome),
        "metric": outcome.metric,
        "measured": outcome.measured,
        "predicted": outcome.predicted,
        "error": outcome.error,
        "parts": [
            {"metric": p.metric, "measured": p.measured, "predicted": p.predicted, "error": p.error}
            for p in outcome.parts
        ],
        "step_s": {"measured": outcome.measured_s, "predicted": outcome.predicted_s},
        "memory_error": None,
        "feasible": "fit into the memory" not in outcome.refused,
        "assumed": list(outcome.assumed),
        "cause": suspected(causes, outcome.id, outcome.error) or None,
        "refused": outcome.refused or None,
    }
