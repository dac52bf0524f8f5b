"""A file of failures: CSV with the columns `time`, `what` and `until`.

Times are seconds from the start of the run, or a number with a unit (`2 h`). `what` names what fails; which names there
are, the reader of the file says.
"""

from pathlib import Path
from typing import NamedTuple

from simulator import units
from simulator.errors import InputError
from simulator.interop.traces.source import Source

MOST = 1_000_000
"""Failures of a file."""


class Failure(NamedTuple):
    """A row."""

    line: int
    start_s: float
    what: str
    until_s: float
    """When it is repaired."""


def read(path: str | Path) -> tuple[Failure, ...]:
    """The failures of a file in the order of time; InputError with the line of what is wrong."""
    source = Source(Path(path), str(path))
    source.head()
    found = []
    for line, (time, what, until) in source.table("time", "what", "until"):
        start, end = _seconds(source, time, line, "time"), _seconds(source, until, line, "until")
        if end <= start:
            raise source.error(f"`until` {until} is not after `time` {time}", line, "until")
        found.append(Failure(line, start, (what or "").strip(), end))
        if len(found) > MOST:
            raise source.error(f"has more than {MOST:,} failures", line)
    return tuple(sorted(found, key=lambda failure: (failure.start_s, failure.line)))


def _seconds(source: Source, text: str | None, line: int, column: str) -> float:
    """A time with a unit, or plain seconds."""
    given = (text or "").strip()
    try:
        value = float(given)
    except ValueError:
        try:
            value = units.parse(given, "time")
        except (ValueError, InputError):
            hint = "write seconds, `90`, or a number with a unit, `2 h`"
            raise source.error(f"`{given[:40]}` is no time", line, column, hint=hint) from None
    if not 0 <= value <= 1e9:
        raise source.error(f"`{given[:40]}` is no time of a run", line, column, hint="write seconds from its start")
    return value
