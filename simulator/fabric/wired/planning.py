"""Ways of flows that are laid beside each other, so that the fullest cable has as little to carry as may be.

Every flow begins on the way of its destination's number. Then flows are looked at in turn, and one moves to another of
its ways where the fullest cable of that way would take less time, until none moves (or after four rounds): a plan of
connections as a library makes it that knows all of them (C4P, arXiv:2406.04594; Ethereal, arXiv:2407.00550). Flows are
taken to be equal.
"""

import numpy as np

from simulator.fabric.wired.ways import Floats, Ints

MOST_FLOWS = 20_000
"""Flows up to which a plan is made; more take the ways of their numbers."""
MOST_WAYS = 64
"""Ways of a flow that are looked at."""
_ROUNDS = 4


def laid(ways: Ints, rate: Floats, weight: Ints | None = None) -> Ints:
    """For each flow the number of the way that it takes.

    `ways` (flows, ways, hops) are cables padded with -1, the first way being that of the flow's number; `rate` are the
    bytes per second of the cables. The time of a way's fullest cable counts `weight` (flows, ways) times, once where
    that is None.
    """
    chosen = np.zeros(len(ways), np.int64)
    cost, load = np.append(1.0 / np.maximum(rate, 1e-9), 0.0), np.zeros(len(rate) + 1)
    first = ways[:, 0]
    load[:-1] = np.bincount(first[first >= 0], minlength=len(rate)) * cost[:-1]
    for _ in range(_ROUNDS):
        moved = False
        for flow, (options, place) in enumerate(zip(ways, chosen.tolist(), strict=True)):
            own = options[place]
            load[own] -= cost[own]
            full = (load[options] + cost[options]).max(axis=1)
            if weight is not None:
                full *= weight[flow]
            best = int(np.argmin(full))
            if full[best] < full[place] * (1 - 1e-9):
                chosen[flow], moved, own = best, True, options[best]
            load[own] += cost[own]
        if not moved:
            break
    return chosen
