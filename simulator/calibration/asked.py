"""What a calibration is asked for, and how it reads and writes files."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simulator.errors import InputError, Problem, nearest
from simulator.interop.rows.benchmarks import is_header
from simulator.interop.rows.jsonl import Refused, parse_line, read_lines
from simulator.results.writing import write
from simulator.specs import data_root

if TYPE_CHECKING:
    import pandas as pd

SAID = 8
"""Refused rows that are listed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one calibration is asked for; each kind reads the options that it takes (`kinds.KINDS`)."""

    files: tuple[Path, ...]
    """Measurements, as many as the kind has names for."""
    profiles: tuple[str, ...] = ()
    """Profiles or stacks to fit; empty: all of them."""
    out: Path | None = None
    """Folder for the fitted files; without it they are printed."""
    samples: int | None = None
    """Products drawn from a table, or rows of a source."""
    part: Literal["products", "serving"] | None = None
    """The part of a kernel profile to fit; None: all of it."""
    jobs: int = 1
    """Processes."""
    starts: int = 1
    """Descents of a fit of collectives."""
    as_is: bool = False
    """Whether to report the shipped numbers instead of fitting them."""
    intervals: bool = False
    """Whether to say, beside the shipped numbers, which others do as well."""
    left_out: Path | None = None
    """File for the error of each row under a fit that has not seen its source."""
    held_out: Path | None = None
    """File for the error of each row of a group under a fit that has not seen the group."""
    cluster: str | None = None
    """Where a log of collectives was measured."""
    accelerator: str | None = None
    """On what kernels of one's own were measured, where their file does not say it."""
    scenario: tuple[str, ...] = ()
    """What the runs of logs were: one scenario for all of them, or one for each."""
    report: Path | None = None
    """File for the error table."""
    say: Callable[[str], None] = print
    """Where lines of the report go."""

    def say_refused(self, reasons: Sequence[str]) -> None:
        """Say what of a file is damaged and not used, of many the first `SAID`."""
        for reason in reasons[:SAID]:
            self.say(f"refused: {printable(reason)}")
        if len(reasons) > SAID:
            self.say(f"and {len(reasons) - SAID} rows more")

    def chosen(self, known: Iterable[str], what: str) -> tuple[str, ...]:
        """The profiles asked for, all known ones where none is named; InputError for one that is not known."""
        known = tuple(known)
        for name in self.profiles:
            if name not in known:
                problem = f"there are no measurements for {what} `{name}`"
                raise InputError(Problem(problem, hint=nearest(name, known) or ", ".join(known)))
        return self.profiles or known


def printable(words: str) -> str:
    """Words of a file as they may be shown on a terminal."""
    return "".join(letter for letter in words if letter.isprintable())


def prepare(out: Path) -> tuple[Path, ...]:
    """Make the folder for fitted files; those that were not there before, the innermost first. InputError where that
    cannot be."""
    made = tuple(folder for folder in (out, *out.parents) if not folder.exists())
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        clear(made)
        raise InputError(Problem(f"cannot be made a folder: {error.strerror}", file=str(out))) from None
    return made


def clear(made: Iterable[Path]) -> None:
    """Remove those folders that `prepare` made which are still empty."""
    for folder in made:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def present(out: Path | None, folder: str, name: str) -> str:
    """The text of a profile: the one fitted before into `out`, else the shipped one; empty where there is none."""
    for path in (*([out / f"{name}.yaml"] if out else []), data_root() / folder / f"{name}.yaml"):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return ""


def save(path: Path, text: str) -> None:
    """Write a fitted file, whole or not at all."""
    write(path, text)


def read_table(path: Path, columns: Sequence[str]) -> "pd.DataFrame":
    """A table of measurements (Parquet); InputError where it is missing, unreadable or lacks a column."""
    import pandas as pd

    try:
        table = pd.read_parquet(path)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror or error}", file=str(path), hint=LAYOUT)) from None
    except ValueError as error:  # what pyarrow raises of a file that is no Parquet
        raise InputError(Problem(f"is no Parquet table: {error}", file=str(path))) from None
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise InputError(Problem(f"has no column `{missing[0]}`", file=str(path), hint=LAYOUT))
    return table


LAYOUT = "docs/howto/calibrate.md says where tables come from and how they lie"


def read_objects(path: Path, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The objects of a file of measurements, without the header of one; InputError with the line of one that is none or
    lacks a key."""
    found = []
    for line in read_lines(path):
        try:
            data = parse_line(line)
        except Refused as refused:
            raise InputError(Problem(str(refused), file=line.file, line=line.number)) from None
        if is_header(data):
            continue
        missing = [key for key in keys if key not in data]
        if missing:
            raise InputError(Problem(f"the row has no `{missing[0]}`", file=line.file, line=line.number))
        found.append(data)
    return found


@contextmanager
def explained(path: Path, row: Mapping[str, Any]) -> Iterator[None]:
    """InputError that names the row for what it lacks or says in another form."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"has no {error}" if isinstance(error, KeyError) else f"cannot be read: {error}"
        raise InputError(Problem(f"row `{row.get('id')}` {what}", file=str(path))) from None


def as_rows(errors: dict[str, float]) -> str:
    """Errors by row as JSON."""
    return json.dumps(errors, indent=0, sort_keys=True) + "\n"
