"""Lines of docs/validation.md about intervals: what they hold of rows whose source they were not made from."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from simulator.run.spread.residuals import Residuals

FEWEST = 50
"""Rows from which on a group has a line of its own."""
WORDS = {
    "step": "step time",
    "memory": "peak memory",
    "ttft": "time to the first token",
    "tpot": "time of later tokens",
    "request": "time of requests",
    "time": "time",
}
HEAD = ["| | rows | sources | held | sources counting alike | median width |", "| --- | --- | --- | --- | --- | --- |"]


class Held(NamedTuple):
    """A row and the interval that all other sources give it."""

    found: bool
    """Whether the row was found after all fits."""
    group: str
    """Device and software."""
    load: str
    """How requests come; empty in training."""
    source: str
    inside: bool
    width: float
    """High over low end, less 1."""


def lines(found: Mapping[str, Residuals]) -> list[str]:
    """A table of coverage and width, by figure and by groups of at least `FEWEST` rows; rows found later apart."""
    rows: list[str] = []
    for about, known in found.items():
        held = list(_left_out(known))
        for later, words in ((False, WORDS[about]), (True, f"{WORDS[about]}, rows found after the fits")):
            rows += _group(f"**{words}**", [one for one in held if one.found == later])
    return [
        "Intervals of 80 %, each row's from all sources but its own (see [Intervals](models/intervals.md)):",
        "",
        *HEAD,
        *rows,
        "",
    ]


def _group(name: str, held: list[Held]) -> Iterator[str]:
    """The lines of some rows together and of each way in which requests come, device and software of which there are
    many."""
    if held:
        yield _line(name, held)
    for key in ("load", "group"):
        for group in sorted({getattr(one, key) for one in held}):
            some = [one for one in held if getattr(one, key) == group]
            if group and len(some) >= FEWEST:
                yield _line(group, some)


def _left_out(known: Residuals) -> Iterator[Held]:
    for entry in known.rows:
        group = f"{entry.like.conditions.device}, {entry.like.conditions.stack}"
        for doubling in np.unique(entry.doublings):
            extent = entry.like.extent._replace(devices=round(2.0**doubling))
            spread = known.spread(entry.like._replace(extent=extent), entry.source)
            if spread is not None:
                for ratio in np.exp(entry.residuals[entry.doublings == doubling]):
                    inside = spread.low <= ratio <= spread.high
                    yield Held(
                        entry.like.unseen,
                        group,
                        entry.like.load,
                        entry.source,
                        bool(inside),
                        spread.high / spread.low - 1,
                    )


def _line(name: str, held: list[Held]) -> str:
    inside = sum(one.inside for one in held) / max(len(held), 1)
    width = float(np.median([one.width for one in held])) if held else 0.0
    each: dict[str, list[bool]] = {}
    for one in held:
        each.setdefault(one.source, []).append(one.inside)
    fair = sum(sum(some) / len(some) for some in each.values()) / max(len(each), 1)
    return f"| {name} | {len(held)} | {len(each)} | {100 * inside:.0f} % | {100 * fair:.0f} % | {100 * width:.0f} % |"
