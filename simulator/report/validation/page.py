"""Validation as a page for a terminal; reads the document that `study.validate.accuracy.document` makes."""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import NamedTuple

from simulator.report.text.plain import clean
from simulator.results.documents.validation import ErrorStatistics, ValidatedRow, ValidationDocument, ValidationSummary

_NAME = 38  # letters of a name in a table
_NAMED = 3  # rows that a reason names
_REASONS = 15


def page(document: ValidationDocument, by: Sequence[str], worst: int, width: int = 100) -> str:
    """The figures as text: overall, by each key, refusals, worst rows."""
    figures = document.summary
    lines = [counted(figures), ""]
    lines += _table(f"error of {figures.what}", _overall(figures))
    for key in by:
        lines += _table(f"by {key}", figures.by[key])
    ranks = {name: value for name, value in figures.layout_rank_correlation.items() if value is not None}
    if ranks:
        lines += [
            "layout rank correlation",
            *(f"  {clean(name):<36} {value:6.2f}" for name, value in ranks.items()),
            "",
        ]
    if figures.memory.rows:
        lines += [*_table("error of the peak memory", {"rows with memory": figures.memory})]
        lines += [f"  called out of memory although it ran: {figures.called_out_of_memory}", ""]
    lines += _refused(document.rows, width)
    return "\n".join([*lines, *_worst(document.rows, worst, width)]) + "\n"


def _refused(rows: Sequence[ValidatedRow], width: int) -> list[str]:
    """Why rows are refused, the most frequent reasons first, and which rows these are."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.refused:
            place = row.line or ""
            named = row.id if not place or row.id == place else f"{row.id} (line {place.rpartition(':')[2]})"
            reasons.setdefault(row.refused, []).append(named)
    frequent = sorted(reasons.items(), key=lambda item: -len(item[1]))
    lines = []
    for reason, names in frequent[:_REASONS]:
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        lines += _folded(f"{len(names):5d}  {reason}: {', '.join(names[:_NAMED])}{more}", width)
    if len(frequent) > _REASONS:
        lines.append(f"       and {len(frequent) - _REASONS:,} more reasons (--json lists every row)")
    return ["refused", *lines, ""] if lines else []


def _folded(text: str, width: int) -> list[str]:
    return wrap(clean(text), width, initial_indent="  ", subsequent_indent=" " * 9, break_long_words=True)


class Scored(NamedTuple):
    """A row that was simulated."""

    row: ValidatedRow
    error: float
    times: tuple[float, float]
    """Measured and simulated, in seconds."""


def scored(rows: Iterable[ValidatedRow]) -> list[Scored]:
    """The rows that have an error, and with it both times."""
    each = [(row, row.error, row.step_s.measured, row.step_s.predicted) for row in rows]
    return [
        Scored(row, error, (a, b)) for row, error, a, b in each if error is not None and a is not None and b is not None
    ]


def counted(figures: ValidationSummary) -> str:
    """How many rows were simulated, and whether they are all that there are."""
    said = f"{figures.simulated:,} of {figures.rows:,} rows simulated ({100 * figures.coverage:.1f} %)"
    whole = figures.sampled_from
    return f"{said}; they are a sample of {figures.rows:,} of {whole:,} rows" if whole else said


def _overall(figures: ValidationSummary) -> Mapping[str, ErrorStatistics]:
    return {
        "all": figures.error,
        "complete rows": figures.complete,
        "rows with assumptions": figures.with_assumptions,
    }


def _table(title: str, groups: Mapping[str, ErrorStatistics]) -> list[str]:
    head = f"{title:<40} rows    mean  median     P90  signed"
    lines = [head]
    for name, s in groups.items():
        if s.rows:
            label, figures = (
                clean(name),
                " ".join(f"{100 * getattr(s, key):6.1f}%" for key in ("mean", "median", "p90")),
            )
            if len(label) > _NAME:  # on a line of its own, so that no column moves
                lines.append(f"  {label}")
                label = ""
            lines.append(f"  {label:<{_NAME}} {s.rows:4d} {figures} {100 * s.signed:+6.1f}%")
    return [*lines, ""]


def _worst(rows: Sequence[ValidatedRow], count: int, width: int) -> list[str]:
    """The rows with the largest errors, each with what was assumed below it."""
    done = sorted(scored(rows), key=lambda one: -abs(one.error))[:count]
    lines = []
    for row, error, _ in done:
        lines += wrap(f"{100 * error:+7.1f}%  {clean(row.id)}", width, initial_indent="  ", subsequent_indent=" " * 12)
        assumed = clean("; ".join(row.assumed))
        if assumed:
            lines += wrap(f"assumed: {assumed}", width, initial_indent=" " * 12, subsequent_indent=" " * 14)
    return ["worst rows", *lines, ""] if lines else []
