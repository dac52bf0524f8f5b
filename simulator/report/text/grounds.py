"""What the runs of a comparison, the points of a sweep or the layouts of a plan stand on, in few lines."""

from collections.abc import Iterable
from typing import Protocol

from simulator.results.ground import StatedGround
from simulator.results.spread import LEVEL, MEMORY

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
    return [f"{listed(names)}: {words}" for words, names in found.items()]


def expected_memory(entries: Iterable[StatedGround]) -> str:
    """Between which multiples of simulated peak memory measured ones are expected, over all of some runs; or that no
    published run says so. Empty where their grounds are not known."""
    known = [one for one in entries if one.circumstances is not None]
    spread = [one.spreads[MEMORY] for one in known if MEMORY in one.spreads]
    if not spread:
        return "peak memory never validated" if known else ""
    low, high = min(one["low"] for one in spread), max(one["high"] for one in spread)
    near = {one["basis"] for one in spread}
    basis = near.pop() if len(near) == 1 else f"{100 * LEVEL:.0f} %, the widest of these"
    rest = "" if len(spread) == len(known) else "; of some never validated"
    return f"peak memory {low:.2f} to {high:.2f} times the simulated one ({basis}){rest}"


def listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - MOST:,} more" if len(names) > MOST else ""
    return f"{'; '.join(names[:MOST])}{more}"
