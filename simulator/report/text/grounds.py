"""What the runs of a comparison, the points of a sweep or the layouts of a plan stand on, in few lines."""

from collections.abc import Iterable
from typing import Protocol

from simulator.results.ground import StatedGround

MOST = 3
"""Names that a line lists."""


class Grounded(Protocol):
    """A run, point or layout."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def ground(self) -> StatedGround:
        """What it stands on."""


def grounds(entries: Iterable[Grounded]) -> list[str]:
    """The sentences of the field `ground` of named entries: one for all that stand on the same, or with their names."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        if entry.ground.sentence:
            found.setdefault(entry.ground.sentence, []).append(entry.name)
    if len(found) == 1:
        return list(found)
    return [f"{_listed(names)}: {words}" for words, names in found.items()]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST:,} more" if len(names) > MOST else ""
    return f"{'; '.join(names[:MOST])}{more}"
