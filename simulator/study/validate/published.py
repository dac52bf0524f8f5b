"""The kinds of published rows behind one door: which one a file holds, how its rows are simulated and reported."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem
from simulator.interop.rows.exchanges import OPERATIONS
from simulator.interop.rows.jsonl import Line, Refused, parse_line
from simulator.interop.rows.kernels import COPIES, FAMILIES, HOST_STREAM
from simulator.interop.rows.network import OPERATIONS as COLLECTIVES
from simulator.interop.rows.serving import kind_of as serving_or_training
from simulator.interop.rows.single.copies import is_copy
from simulator.interop.rows.words import operation
from simulator.results.documents.validation import ValidationDocument, ValidationSummary
from simulator.specs.catalog import data_root
from simulator.study.executors import each
from simulator.study.validate import accuracy
from simulator.study.validate.causes import Cause, known_causes
from simulator.study.validate.exchanges import validate_exchange_line
from simulator.study.validate.kernels import validate_kernel_line
from simulator.study.validate.network import validate_network_line
from simulator.study.validate.serving import set_aside, validate_serving_line
from simulator.study.validate.shares import shares
from simulator.study.validate.training import validate_line


def _all(simulate: Callable[[Line], Any], lines: Sequence[Line]) -> list[Any]:
    """Outcomes of the rows of a share."""
    return list(map(simulate, lines))


@dataclass(frozen=True, slots=True)
class Kind:
    """What validation does with rows of one kind."""

    name: str
    """`training`, `serving`, `exchanges`, `network` or `kernel`."""
    what: str
    """The stack whose errors these are."""
    scope: str
    """Which rows are in scope, in words."""
    groups: accuracy.Groups
    """What errors can be listed by."""
    simulate: Callable[[Line], Any]
    """A line to its outcome."""
    file_of_causes: str
    """What is suspected, beside the shipped rows."""
    rows: str
    """File of the shipped rows."""
    by: tuple[str, ...] = ("source", "device")
    """What errors are listed by where nothing else is asked for."""
    aside: Callable[[Sequence[Line]], Mapping[int, Any]] = lambda lines: {}
    """Outcomes of rows that others of the same lines contradict, by place."""

    @property
    def shipped(self) -> Path:
        """The rows that come with the project."""
        return data_root() / "workloads" / "measurements" / self.rows

    def validate(self, lines: Sequence[Line], jobs: int = 1) -> list[Any]:
        """Simulate the rows of some lines on `jobs` processes; outcomes come back in the order of the lines."""
        aside = self.aside(lines)
        kept = [place for place in range(len(lines)) if place not in aside]
        found = dict(zip(kept, self._simulated([lines[place] for place in kept], jobs), strict=True))
        return [aside[place] if place in aside else found[place] for place in range(len(lines))]

    def _simulated(self, lines: Sequence[Line], jobs: int) -> list[Any]:
        if jobs < 2 or len(lines) < 2:
            return list(map(self.simulate, lines))
        places = shares(lines)
        done = each(partial(_all, self.simulate), [[lines[place] for place in share] for share in places], jobs)
        outcomes: dict[int, Any] = {}
        for share, some in zip(places, done, strict=True):
            outcomes.update(zip(share, some, strict=True))
        return [outcomes[place] for place in range(len(lines))]

    def summary(self, outcomes: Sequence[Any], by: Sequence[str] = ("source", "device")) -> ValidationSummary:
        """Everything that validation reports about a set of rows, errors listed by some keys."""
        return accuracy.summary(outcomes, self.groups, by, self.what, self.scope)

    def document(self, figures: ValidationSummary, outcomes: Sequence[Any]) -> ValidationDocument:
        """Figures and rows as they are written and drawn, with the suspected causes of errors."""
        return accuracy.document(figures, outcomes, self.causes())

    def causes(self) -> tuple[Cause, ...]:
        """Suspected causes of errors on rows of this kind."""
        return known_causes(data_root() / "workloads" / "measurements" / self.file_of_causes)

    def check(self, by: Sequence[str]) -> None:
        """InputError for a key that these rows are not listed by."""
        for key in by:
            if key not in self.groups:
                raise InputError(Problem(f"{self.name} rows are not listed by `{key}`", hint=", ".join(self.groups)))


_DENSE = "dense models in 16 bits on A100 and H100, tier 1, no context parallelism, schedules that exist"
_ENGINES = "dense models on A100, H100 and H200 SXM, neither disaggregated nor comparisons of schedulers"
_ALL = "dispatch and combine of mixtures of experts"
_COLLECTIVES = "collectives of NCCL, RCCL and their kin, dispatch and combine of experts, copies"
_KERNELS = "matrix products, attention, mixtures of experts, passes over memory, copies"
KINDS = {
    "training": Kind(
        "training", "the step time", _DENSE, accuracy.TRAINING, validate_line, "causes.yaml", "training.jsonl"
    ),
    "serving": Kind(
        "serving",
        "time",
        _ENGINES,
        accuracy.SERVING,
        validate_serving_line,
        "serving-causes.yaml",
        "serving.jsonl",
        aside=set_aside,
    ),
    "exchanges": Kind(
        "exchanges",
        "the time",
        _ALL,
        accuracy.EXCHANGES,
        validate_exchange_line,
        "exchange-causes.yaml",
        "exchanges.jsonl",
    ),
    "network": Kind(
        "network",
        "the time",
        _COLLECTIVES,
        accuracy.NETWORK,
        validate_network_line,
        "network-causes.yaml",
        "network.jsonl",
        ("half", "library", "device", "nodes", "size"),
    ),
    "kernel": Kind(
        "kernel",
        "the time",
        _KERNELS,
        accuracy.KERNELS,
        validate_kernel_line,
        "kernel-causes.yaml",
        "kernels.jsonl",
        ("family", "device", "source"),
    ),
}
"""Kinds of rows by name."""
KEYS = tuple(dict.fromkeys(key for kind in KINDS.values() for key in kind.groups))
"""What errors of any kind of rows can be listed by."""


def chosen(lines: Sequence[Line], name: str | None = None) -> tuple[Kind, list[Line]]:
    """(kind of the rows, the lines to simulate): with `name` the rows of that kind and those of neither.

    InputError where there is no row at all, none of that kind, or rows of several kinds and no `name`.
    """
    _check_readable(lines)
    kinds = [kind_of(line) for line in lines]
    if name == "network" or (name is None and "network" in kinds):  # their files hold the exchanges of experts too
        kinds = ["network" if kind == "exchanges" else kind for kind in kinds]
    counts = {kind: kinds.count(kind) for kind in KINDS if kind in kinds}
    if name is None and len(counts) > 1:
        both = " and ".join(f"{number:,} of {kind}" for kind, number in counts.items())
        words = " or ".join(f"`--kind {kind}`" for kind in counts)
        hint = f"take those of one with {words}, or put them into files of their own"
        several = "two" if len(counts) == 2 else "several"
        raise InputError(Problem(f"rows of {several} kinds are mixed, {both}", hint=hint))
    kind = name or next(iter(counts), "training")
    taken = [line for line, own in zip(lines, kinds, strict=True) if own in (kind, None)]
    if not taken:
        raise InputError(Problem(f"there are no {kind} rows, only those of the other kind", hint="leave out `--kind`"))
    return KINDS[kind], taken


def kind_of(line: Line) -> str | None:
    """The kind of a row as far as its keys tell; None where they do not."""
    try:
        data = parse_line(line)
    except Refused:
        return None
    if "op" not in data:
        return serving_or_training(line)
    if not isinstance(data["op"], str):
        return None
    if data["op"] in OPERATIONS:
        return "exchanges"
    linked = "num_ranks" in data or "interconnect" in data
    named = operation(data["op"])
    if "shape" in data or (named in FAMILIES and not (named in COPIES and linked)) or HOST_STREAM.fullmatch(named):
        return "kernel"
    return "network" if named in COLLECTIVES or is_copy(named) or linked else None


def _check_readable(lines: Sequence[Line]) -> None:
    """InputError where no line at all is a JSON object, with what the first one is."""
    hint = "write one JSON object a line; docs/reference/measurements.md has the keys"
    reason = None
    for line in lines:
        try:
            parse_line(line)
        except Refused as refused:
            reason = reason or Problem(f"there are no rows: {refused}", line.file, line.number, hint=hint)
        else:
            return
    raise InputError(reason or Problem("there are no rows", hint=hint))
