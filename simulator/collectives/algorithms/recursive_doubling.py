"""Recursive doubling: partners exchange all they have, so that every step is as large and steps are fewest.

Thakur, Rabenseifner and Gropp 2005, for short all-reduces: log2 n steps of S bytes. Where members are no power of two,
those beyond it first give theirs to one below, and have the sum from there at the end.
"""

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement, Ints


@ALGORITHMS.add("recursive_doubling")
def recursive_doubling(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce."""
    if operation != "all_reduce":
        return None
    node = np.repeat(np.arange(layout.nodes), layout.counts)
    power = 1 << (layout.members.bit_length() - 1)
    beyond, here = np.arange(power, layout.members), np.arange(power)

    def step(src: Ints, dst: Ints, reduce: bool) -> Phase:
        crossing = float((node[src] != node[dst]).any())
        return phase(1, (src, dst, 1.0), 1 - crossing, crossing, reduce=reduce)

    swaps = tuple(step(here, here ^ (1 << bit), True) for bit in range(power.bit_length() - 1))
    if not len(beyond):
        return swaps
    return step(beyond, beyond - power, True), *swaps, step(beyond - power, beyond, False)
