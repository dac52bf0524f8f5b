"""Failures in the order in which they come: drawn at constant rates, each cause by itself, and those of a trace.

The time to the next failure of a cause is exponential, its rate that of one unit times the units of the cluster; the
unit that fails is drawn evenly. Each cause has random numbers of its own, so that another cause changes nothing of it.
Left out: failures that come in bursts or more often on nodes that failed before, and rates that change with age.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import NamedTuple

from simulator.random import stream
from simulator.results.long_run import TICKS_PER_SECOND

LAST = 1 << 61
"""Tick from which on nothing comes any more."""
PATH = "training.run.failures"
_AT_ONCE = 256


class Source(NamedTuple):
    """A cause on the machine of a run."""

    name: str
    of: str
    """What fails: `device`, `node`, `link`, `switch`, `run`."""
    units: int
    """How many of them there are."""
    first: int
    """Number of the first of them."""
    rate: float
    """Failures per second of all of them."""
    units_per_node: int
    """Units of a node, by whose number the node is known; 0 where a failure takes no node out."""
    left: float | None
    """Share of the speed that a silent failure leaves."""
    detection: int
    """Ticks until it is detected."""
    planned: bool


class Arrival(NamedTuple):
    """A failure."""

    tick: int
    source: int
    """Number of its cause."""
    unit: int
    """Number of what failed; -1 for the run."""
    node: int
    """The node that it takes out; -1 for none."""
    left: float | None
    """Share of the speed that is left; None where the run stops."""
    until: int | None
    """Tick at which what failed is whole again, where a trace says so."""


def arrivals(sources: Sequence[Source], recorded: Sequence[Arrival], seed: int, sample: int) -> Iterator[Arrival]:
    """All failures of one of several runs in order of time, without end where anything fails at a rate."""
    drawn = [_drawn(number, source, seed, sample) for number, source in enumerate(sources) if source.rate > 0]
    return merge(recorded, *drawn, key=lambda one: one.tick)


def _drawn(number: int, source: Source, seed: int, sample: int) -> Iterator[Arrival]:
    random = stream(seed, f"{PATH}.{source.name}.{sample}")
    scale, now = TICKS_PER_SECOND / source.rate, 0.0
    while now < LAST:
        gaps = random.exponential(scale, _AT_ONCE)
        units = random.integers(source.units, size=_AT_ONCE).tolist()
        for gap, unit in zip(gaps.tolist(), units, strict=True):
            now += gap
            if now >= LAST:
                return
            node = unit // source.units_per_node if source.units_per_node else -1
            which = source.first + unit if source.of != "run" else -1
            yield Arrival(round(now), number, which, node, source.left, None)
