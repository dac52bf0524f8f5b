"""Error figures over outcomes of validation, of training steps or of serving: mean, median, P90, signed bias,
coverage, ranking of layouts."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from simulator.axes import CP, EP, PP, TP
from simulator.interop.rows import serving_names as names
from simulator.results.documents.validation import (
    ErrorStatistics,
    ScoredFigure,
    Times,
    ValidatedRow,
    ValidatedServingRow,
    ValidationDocument,
    ValidationSummary,
)
from simulator.study.validate.causes import Cause, suspected
from simulator.study.validate.serving import ServingOutcome
from simulator.study.validate.timed import TimedOutcome
from simulator.study.validate.training import Outcome

Scored = TypeVar("Scored", bound=Outcome | ServingOutcome | TimedOutcome)
Groups = Mapping[str, Callable[[Any], str]]


def _architecture(outcome: Outcome) -> str:
    """What the model of a row is made of."""
    row = outcome.row
    assert row is not None
    words = ["mixture of experts" if (row.experts or 0) > 1 else "dense"]
    if "mla" in (row.attention or "").lower():
        words.append("latent attention")
    if "lora" in f"{row.task} {row.flags}".lower():
        words.append("adapters")
    return ", ".join(words)


def _parallelism(outcome: Outcome) -> str:
    """The axes along which the model or the sequences of a row are cut."""
    axes = [axis for axis in (TP.name, CP.name, EP.name, PP.name) if (getattr(outcome.row, axis) or 1) > 1]
    return " ".join(axes) or "data only"


TRAINING: Groups = {
    "source": attrgetter("row.source"),
    "device": attrgetter("row.device"),
    "precision": attrgetter("row.precision"),
    "architecture": _architecture,
    "parallelism": _parallelism,
    "framework": lambda outcome: outcome.row.framework or "not stated",
    "metric": attrgetter("metric"),
}
"""What errors of training rows can be listed by."""


def _served(outcome: ServingOutcome) -> str:
    """What the model of a serving row is made of."""
    assert outcome.row is not None
    model = names.model(outcome.row.model)
    if model.attention == "mla":
        return "latent attention"
    return "dense" if model.experts is None else "mixture of experts"


def _speculates(outcome: ServingOutcome) -> str:
    word = (outcome.row.spec_decoding if outcome.row is not None else None) or "none"
    return "without" if word == "none" else word


SERVING: Groups = {
    "source": attrgetter("row.source"),
    "architecture": _served,
    "speculation": _speculates,
    "family": attrgetter("row.engine"),
    "device": attrgetter("row.device"),
    "kind": attrgetter("row.kind"),
    "stack": attrgetter("stack"),
    "engine": lambda outcome: " ".join(filter(None, (outcome.row.engine, outcome.row.engine_version))),
    "model": attrgetter("row.model"),
    "precision": attrgetter("row.number_format"),
}
"""What errors of serving rows can be listed by."""
EXCHANGES: Groups = {
    "source": attrgetter("row.source"),
    "device": attrgetter("row.device"),
    "library": attrgetter("library"),
    "ranks": lambda outcome: f"{outcome.row.num_ranks:4d}",
    "operation": attrgetter("row.op"),
    "metric": attrgetter("metric"),
}
"""What errors of dispatches and combines can be listed by."""


def _nodes(outcome: TimedOutcome) -> str:
    """Nodes of a collective."""
    nodes = getattr(outcome.row, "nodes", None) or outcome.row.num_nodes or 1
    return f"{nodes:3d} node{'s' * (nodes > 1)}"


NETWORK: Groups = {
    "library": attrgetter("library"),
    "device": attrgetter("row.device"),
    "nodes": _nodes,
    "size": lambda outcome: getattr(outcome.row, "band", "exchange of experts"),
    "half": lambda outcome: getattr(outcome.row, "half", "exchange of experts"),
    "source": attrgetter("row.source"),
    "operation": attrgetter("row.op"),
    "metric": attrgetter("metric"),
}
"""What errors of collectives can be listed by."""
KERNELS: Groups = {
    "family": attrgetter("row.family"),
    "device": attrgetter("row.device"),
    "library": lambda outcome: outcome.row.library or "not stated",
    "source": attrgetter("row.source"),
    "operation": attrgetter("row.op"),
    "precision": lambda outcome: outcome.row.dtype or "not stated",
    "profile": attrgetter("library"),
    "metric": attrgetter("metric"),
}
"""What errors of kernels can be listed by."""


def statistics(errors: Sequence[float]) -> ErrorStatistics:
    """Mean, median and 90th percentile of |error| and the mean of the signed error; all fractions."""
    values = np.asarray(errors, float)
    if not len(values):
        return ErrorStatistics()
    size = np.abs(values)
    return ErrorStatistics(
        rows=len(values),
        mean=float(size.mean()),
        median=float(np.median(size)),
        p90=float(np.percentile(size, 90)),
        signed=float(values.mean()),
    )


def errors(outcomes: Iterable[Scored]) -> list[float]:
    """Errors of the simulated ones."""
    return [outcome.error for outcome in outcomes if outcome.error is not None]


def summary(
    outcomes: Sequence[Scored],
    groups: Groups,
    by: Iterable[str] = ("source", "device"),
    what: str = "",
    scope: str = "",
) -> ValidationSummary:
    """Everything that validation reports about a set of rows; `by` are keys of `groups`, `what` and `scope` words."""
    done = [o for o in outcomes if o.error is not None]
    scoped = [o for o in outcomes if o.in_scope]
    return ValidationSummary(
        what=what,
        scope=scope,
        rows=len(outcomes),
        simulated=len(done),
        coverage=len(done) / max(len(outcomes), 1),
        coverage_in_scope=len(errors(scoped)) / max(len(scoped), 1),
        refused=dict(Counter(o.refused for o in outcomes if o.refused).most_common()),
        error=statistics(errors(done)),
        in_scope=statistics(errors(scoped)),
        error_over_sources=over_sources(done),
        complete=statistics(errors(o for o in done if not o.assumed)),
        with_assumptions=statistics(errors(o for o in done if o.assumed)),
        memory=statistics([o.memory_error for o in done if o.memory_error is not None]),
        called_out_of_memory=sum(not o.feasible for o in outcomes),
        layout_rank_correlation=rankings([o for o in done if isinstance(o, Outcome)]),
        by={key: {name: statistics(errors(rows)) for name, rows in grouped(done, groups[key]).items()} for key in by},
    )


def grouped(outcomes: Iterable[Scored], key: Callable[[Any], str]) -> dict[str, list[Scored]]:
    """Outcomes of lines that could be read by what they have in common, in the order of names."""
    found: dict[str, list[Scored]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.row is not None:
            found[key(outcome)].append(outcome)
    return dict(sorted(found.items()))


def over_sources(outcomes: Iterable[Scored]) -> dict[str, float]:
    """Mean over sources of each source's mean |error| and signed error."""
    each = [statistics(errors(rows)) for rows in grouped(outcomes, TRAINING["source"]).values()]
    return (
        {key: float(np.mean([getattr(figures, key) for figures in each])) for key in ("mean", "signed")} if each else {}
    )


def rankings(outcomes: Iterable[Outcome]) -> dict[str, float | None]:
    """How well layouts are ranked, by source."""
    return {source: ranking(rows) for source, rows in grouped(outcomes, TRAINING["source"]).items()}


def ranking(outcomes: Iterable[Outcome]) -> float | None:
    """How well layouts are ranked: Spearman's coefficient of measured and simulated step times within `sweeps`.

    Sweeps weigh by their size less 1; None where there is none.
    """
    found = [(_spearman(rows), len(rows) - 1) for rows in sweeps(outcomes)]
    weight = sum(w for _, w in found)
    return sum(value * w for value, w in found) / weight if weight else None


def sweeps(outcomes: Iterable[Outcome], least: int = 2) -> list[list[Outcome]]:
    """Simulated rows of equal model, devices and batch, which differ in layout; at least so many each."""
    groups: dict[tuple[Any, ...], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if (row := outcome.row) and outcome.error is not None:
            groups[row.source, row.model, row.hidden, row.layers, row.devices, row.global_batch, row.seq_len].append(
                outcome
            )
    return [rows for rows in groups.values() if len(rows) >= least]


def places_of_best(outcomes: Iterable[Outcome], least: int = 5) -> list[int]:
    """In which place of the simulated order the layout comes that was measured to be the fastest, by sweep, from 1."""
    return [
        1 + sum((o.predicted_s or 0.0) < (best.predicted_s or 0.0) for o in rows)
        for rows in sweeps(outcomes, least)
        for best in [min(rows, key=lambda o: o.measured_s or 0.0)]
    ]


def growth(outcomes: Iterable[Outcome]) -> dict[str, tuple[int, float, float]]:
    """How the error grows with the number of devices, by source: (rows, per doubling, standard error of that).

    The slope of log(simulated / measured) over log2(devices), each model and sequence length with a level of its own,
    over the rows of models that were measured on different numbers of devices; sources with too few are left out.
    """
    found = {}
    for source, rows in grouped((o for o in outcomes if o.error is not None), TRAINING["source"]).items():
        x, y, levels = _within(rows)
        free = len(x) - levels - 1
        if free < 2 or not (spread := float(x @ x)):
            continue
        slope = float(x @ y) / spread
        rest = y - slope * x
        found[source] = len(x), slope, float(np.sqrt(rest @ rest / free / spread))
    return found


def _within(rows: Iterable[Outcome]) -> tuple[Any, Any, int]:
    """log2(devices) and log(simulated / measured) less their means over the rows of a model, and how many models."""
    levels: dict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    for o in rows:
        assert o.row is not None and o.error is not None
        levels[o.row.model, o.row.seq_len, o.row.precision].append((np.log2(o.row.devices), np.log1p(o.error)))
    scanned = [np.array(points) for points in levels.values() if len({x for x, _ in points}) > 1]
    if not scanned:
        return np.zeros(0), np.zeros(0), 0
    x, y = np.concatenate([points - points.mean(axis=0) for points in scanned]).T
    return x, y, len(scanned)


def _spearman(rows: list[Outcome]) -> float:
    measured, predicted = (_ranks([getattr(o, name) for o in rows]) for name in ("measured_s", "predicted_s"))
    spread = float(np.std(measured) * np.std(predicted))
    return float(np.mean((measured - measured.mean()) * (predicted - predicted.mean())) / spread) if spread else 0.0


def _ranks(values: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Ranks from 0, equal values sharing their mean rank."""
    array = np.asarray(values, float)
    return np.array([(array < v).sum() + ((array == v).sum() - 1) / 2 for v in array])


def document(
    figures: ValidationSummary, outcomes: Sequence[Scored], causes: Sequence[Cause] = ()
) -> ValidationDocument:
    """Figures and rows as they are written and drawn; `error` is of time, positive is too slow."""
    return ValidationDocument(figures, tuple(_row(outcome, causes) for outcome in outcomes))


def _row(outcome: Outcome | ServingOutcome | TimedOutcome, causes: Sequence[Cause]) -> ValidatedRow:
    row = outcome.row
    known: dict[str, Any] = {
        "id": outcome.id,
        "line": outcome.line or None,
        "source": row.source if row else None,
        "device": row.device if row else None,
        "devices": row.devices if row else None,
        "model": row.model if row else None,
        "in_scope": outcome.in_scope,
        "metric": outcome.metric,
        "measured": outcome.measured,
        "predicted": outcome.predicted,
        "error": outcome.error,
        "step_s": Times(outcome.measured_s, outcome.predicted_s),
        "interval": outcome.interval,
        "memory_error": outcome.memory_error,
        "feasible": outcome.feasible,
        "assumed": tuple(outcome.assumed),
        "cause": suspected(causes, outcome.id, outcome.error) or None,
        "refused": outcome.refused or None,
        "conditions": outcome.conditions._asdict() if outcome.conditions else None,
    }
    if not isinstance(outcome, ServingOutcome):
        return ValidatedRow(**known)
    return ValidatedServingRow(
        **known,
        kind=outcome.row.kind if outcome.row else None,
        stack=outcome.stack or None,
        parts=tuple(
            ScoredFigure(part.metric, part.measured, part.predicted, part.error, outcome.interval_of(part))
            for part in outcome.parts
        ),
        errors=outcome.errors or None,
    )
