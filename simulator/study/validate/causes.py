"""Suspected causes of errors on published rows, kept as data beside the rows: `workloads/measurements/causes.yaml`."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from simulator.specs import data_root, load_file
from simulator.specs.base import Spec


class Cause(Spec):
    """What is off in some rows, and what is suspected."""

    rows: tuple[str, ...]
    """Ids of rows; `*` stands for anything."""
    direction: Literal["too fast", "too slow"]
    """The sign of the errors that it explains: too fast is a simulated step shorter than the measured one."""
    what: str = ""
    """What they have in common, in a few words; how wrong they are is computed."""
    suspected: str
    """The suspicion."""


class Causes(Spec):
    """A file of suspected causes."""

    causes: tuple[Cause, ...]
    """In the order in which they are tried."""


def known_causes(path: str | Path | None = None) -> tuple[Cause, ...]:
    """The causes of a file, by default of the one that is shipped; InputError where it cannot be read."""
    return load_file(Causes, path or data_root() / "workloads" / "measurements" / "causes.yaml").spec.causes


def cause_of(causes: Sequence[Cause], row: str, error: float | None) -> Cause | None:
    """The first cause that names a row and explains the direction of its error."""
    if error is None:
        return None
    for cause in causes:
        if (error < 0) == (cause.direction == "too fast") and any(fnmatchcase(row, known) for known in cause.rows):
            return cause
    return None


def suspected(causes: Sequence[Cause], row: str, error: float | None) -> str:
    """The suspicion about a row that is this wrong, empty where there is none or it explains the other direction."""
    cause = cause_of(causes, row, error)
    return "" if cause is None else cause.suspected
