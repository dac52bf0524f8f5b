"""Bruck's all-to-all: logarithmic steps that carry half of the data each.

Bruck et al. 1997 (IEEE TPDS 8:1143): in the step of distance 2^k a member passes on all blocks whose way around the
group has that power of two, be they its own or on their way. Few messages for more bytes: for small blocks.
"""

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement


@ALGORITHMS.add("bruck")
def bruck(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-to-all."""
    if operation != "all_to_all":
        return None
    return tuple(_step(layout, 1 << step) for step in range((layout.members - 1).bit_length()))


def _step(layout: GroupPlacement, distance: int) -> Phase:
    """Everyone sends the blocks whose way has that distance to the member so far ahead."""
    n = layout.members
    here = np.arange(n)
    there = (here + distance) % n
    node = np.repeat(np.arange(layout.nodes), layout.counts)
    crossing = float((node[here] != node[there]).any())
    blocks = int(((np.arange(n) & distance) > 0).sum())
    return phase(1, (here, there, blocks / n), 1 - crossing, crossing)
