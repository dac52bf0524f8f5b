"""What the critical path is made of beyond its parts: operations, links, roofs; for the terminal page and for HTML."""

from typing import NamedTuple

from simulator.report.text import wording
from simulator.results.result import CriticalPath

MOST = 8
"""Rows of a table."""
_LEAST = 0.0005  # share of the step that prints as 0.0


class Table(NamedTuple):
    """Seconds by name, the longest first."""

    short: str
    title: str
    rows: tuple[tuple[str, float], ...]


def tables(path: CriticalPath, most: int = MOST) -> list[Table]:
    """The tables that have something to say; what is beyond `most` rows stands together in the last one."""
    found = (
        ("operations", "Operations", path.by_operation),
        ("links", "Communication, by the link that decides its rate", path.by_link),
        ("roofs", "Kernels, by what bounds them", path.by_roof),
    )
    step_s = sum(path.seconds.values())
    made = [Table(short, title, _rows(parts, step_s, most)) for short, title, parts in found]
    return [table for table in made if table.rows]


def _rows(parts: dict[str, float], step_s: float, most: int) -> tuple[tuple[str, float], ...]:
    rows = list(parts.items())
    kept = sum(seconds >= _LEAST * step_s for _, seconds in rows)
    kept = kept if kept == len(rows) <= most else min(kept, most - 1)
    rest = rows[kept:]
    other = sum(seconds for _, seconds in rest)
    return (*rows[:kept], *([(wording.plural(len(rest), "other"), other)] if other >= _LEAST * step_s else []))
