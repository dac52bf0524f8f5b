"""Fleets of plain replicas in one compiled function over arrays, which gives the same answers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.engine.clock import Clock, Progress
    from simulator.serving.replica.replica import Replica

LEAST = 20_000
"""Requests from which compiled code is loaded, which takes as long as simulating some thousands."""


def ran(replicas: "Sequence[Replica]", clock: "Clock", progress: "Progress | None") -> bool:
    """Whether a fleet has run to its end in compiled code: of plain replicas with many requests, where numba is
    installed. OverflowError past the last tick of the clock."""
    if not replicas or len(replicas[0].ledger) < LEAST:
        return False
    from simulator.serving.compiled import machine, takeover

    fleet = takeover.taken(replicas, clock)
    advance = None if fleet is None else machine.compiled()
    if fleet is None or advance is None:
        return False
    takeover.run(fleet, replicas, clock, progress, advance)
    return True
