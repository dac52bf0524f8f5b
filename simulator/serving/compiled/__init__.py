"""Fleets of plain replicas in one compiled function over arrays, which gives the same answers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simulator.machine_code import is_kept

if TYPE_CHECKING:
    from simulator.engine.clock import Clock, Progress
    from simulator.serving.replica.replica import Replica

LEAST = 20_000
"""Requests from which compiled code is loaded, and is made where there is none yet, which takes seconds once."""
LEAST_KEPT = 8_000
"""Requests from which it is loaded where it is there: to load it takes as long as to simulate so many."""


def ran(replicas: "Sequence[Replica]", clock: "Clock", progress: "Progress | None") -> bool:
    """Whether a fleet has run to its end in compiled code: of plain replicas with many requests, where numba is
    installed. OverflowError past the last tick of the clock."""
    count = len(replicas[0].ledger) if replicas else 0
    if count < min(LEAST, LEAST_KEPT):
        return False
    from simulator.serving.compiled import machine, takeover

    if count < LEAST and not is_kept(machine.__file__):
        return False

    fleet = takeover.taken(replicas, clock)
    advance = None if fleet is None else machine.compiled()
    if fleet is None or advance is None:
        return False
    takeover.run(fleet, replicas, clock, progress, advance)
    return True
