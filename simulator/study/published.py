"""The kinds of published rows behind one door: which one a file holds, how its rows are simulated and reported."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.errors import InputError, Problem
from simulator.specs.catalog import data_root
from simulator.study import accuracy, serving_accuracy, serving_validate, validate
from simulator.study.causes import Cause, known_causes
from simulator.study.lines import Line, Refused, parse_line
from simulator.study.serving_rows import is_serving


@dataclass(frozen=True, slots=True)
class Kind:
    """What validation does with rows of one kind."""

    name: str
    """`training` or `serving`."""
    groups: Sequence[str]
    """What errors can be listed by."""
    validate: Callable[..., list[Any]]
    """(lines, jobs) to outcomes."""
    summary: Callable[..., dict[str, Any]]
    """(outcomes, keys) to figures."""
    document: Callable[..., dict[str, Any]]
    """(figures, outcomes, causes) to what is written as JSON."""
    file_of_causes: str
    """What is suspected, beside the shipped rows."""

    def causes(self) -> tuple[Cause, ...]:
        """Suspected causes of errors on rows of this kind."""
        return known_causes(data_root() / "workloads" / "measurements" / self.file_of_causes)

    def check(self, by: Sequence[str]) -> None:
        """InputError for a key that these rows are not listed by."""
        for key in by:
            if key not in self.groups:
                raise InputError(Problem(f"{self.name} rows are not listed by `{key}`", hint=", ".join(self.groups)))


KINDS = {
    "training": Kind(
        "training", tuple(accuracy.GROUPS), validate.validate, accuracy.summary, accuracy.document,
        "causes.yaml",
    ),
    "serving": Kind(
        "serving", tuple(serving_accuracy.SERVING_GROUPS), serving_validate.validate_serving,
        serving_accuracy.serving_summary, serving_accuracy.serving_document, "serving-causes.yaml",
    ),
}  # fmt: skip
"""Kinds of rows by name."""
KEYS = tuple(dict.fromkeys(key for kind in KINDS.values() for key in kind.groups))
"""What errors of any kind of rows can be listed by."""


def chosen(lines: Sequence[Line], name: str | None = None) -> tuple[Kind, list[Line]]:
    """(kind of the rows, the lines to simulate): with `name` the rows of that kind and those of neither.

    InputError where there is no row at all, none of that kind, or rows of both kinds and no `name`.
    """
    if not lines:
        raise InputError(Problem("there are no rows", hint="write one JSON object a line"))
    kinds = [_kind_of(line) for line in lines]
    counts = {kind: kinds.count(kind) for kind in KINDS}
    if name is None and all(counts.values()):
        both = " and ".join(f"{number:,} of {kind}" for kind, number in counts.items())
        hint = "take those of one with `--kind training` or `--kind serving`, or put them into files of their own"
        raise InputError(Problem(f"rows of two kinds are mixed, {both}", hint=hint))
    kind = name or max(counts, key=lambda kind: counts[kind])
    taken = [line for line, own in zip(lines, kinds, strict=True) if own in (kind, None)]
    if not taken:
        raise InputError(Problem(f"there are no {kind} rows, only those of the other kind", hint="leave out `--kind`"))
    return KINDS[kind], taken


def _kind_of(line: Line) -> str | None:
    """The kind of a row as far as its keys tell; None where they do not."""
    try:
        data = parse_line(line)
    except Refused:
        return None
    return "serving" if is_serving(data) else "training" if "primary_metric" in data else None
