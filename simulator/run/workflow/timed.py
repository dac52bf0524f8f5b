"""Stages of known service times: items in a line before servers, all alike or drawn, some of which drop out.

Items are served in their order, each by the server that is free first. The stage is over when as many are done as are
enough: what is under way or waits then is given up. Left out: what drops out holds its server for its whole time.
"""

from collections.abc import Callable
from heapq import heapify, heapreplace
from math import log

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.random import stream
from simulator.specs.workflow import TimedStage

Floats = NDArray[np.float64]


def timed(stage: TimedStage, seed: int) -> Callable[[int], int]:
    """Ticks of a stage by the number of the iteration; same seed, same ticks."""
    if not stage.drawn:
        ticks = -(-stage.needed // stage.servers) * units.to_ticks(stage.takes)
        return lambda _: ticks
    return lambda iteration: units.to_ticks(_drawn(stage, seed, iteration))


def _drawn(stage: TimedStage, seed: int, iteration: int) -> float:
    """Seconds until enough items are done."""
    random = stream(seed, f"stage {stage.name}, iteration {iteration}")
    spread = log(1.0 + stage.varies**2)
    ends = _served(stage.takes * random.lognormal(-spread / 2, spread**0.5, stage.items), stage.servers)
    done = np.delete(ends, random.choice(stage.items, stage.dropped, replace=False))
    return float(np.partition(done, stage.needed - 1)[stage.needed - 1])


def _served(times: Floats, servers: int) -> Floats:
    """When each of the items is done, shape (items,), of service times in the same order."""
    if servers >= len(times):
        return times
    free = list(times[:servers])
    ends = times.copy()
    heapify(free)
    for item in range(servers, len(times)):
        ends[item] = free[0] + times[item]
        heapreplace(free, ends[item])
    return ends
