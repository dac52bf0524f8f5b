"""What the critical path is made of beyond its parts: operations, links, roofs; for the terminal page and for HTML."""

from typing import NamedTuple

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
    visible = [(name, seconds) for name, seconds in parts.items() if seconds >= _LEAST * step_s]
    if len(visible) <= most:
        return tuple(visible)
    rest = sum(seconds for _, seconds in visible[most - 1 :])
    return (*visible[: most - 1], (f"{len(visible) - most + 1} others", rest))
