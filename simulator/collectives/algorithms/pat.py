"""Parallel aggregated trees: few steps whose far ones carry least.

Jeaugey 2025 (arXiv:2506.20252), as in NCCL from 2.23 on for nodes with one member: Bruck's pattern with its steps
turned round. An all-gather begins with one piece to the member half-way around, and ends with half of all pieces to the
neighbour; a reduce-scatter goes the other way. Left out: that large messages are cut into several such trees, whose
logarithmic steps then run as a pipeline through bounded buffers.
"""

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement


@ALGORITHMS.add("pat")
def pat(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-gather and reduce-scatter."""
    if operation not in ("all_gather", "reduce_scatter"):
        return None
    steps = (layout.members - 1).bit_length()
    reduce = operation == "reduce_scatter"
    distances = [1 << step for step in range(steps)]
    return tuple(_step(layout, distance, reduce) for distance in (distances if reduce else distances[::-1]))


def _step(layout: GroupPlacement, distance: int, reduce: bool) -> Phase:
    """Every member sends the pieces that the one so far ahead (gathering) or back (scattering) lacks."""
    n = layout.members
    here = np.arange(n)
    there = (here + (n - distance if reduce else distance)) % n
    node = np.repeat(np.arange(layout.nodes), layout.counts)
    crossing = float((node[here] != node[there]).any())
    pieces = -(-(n - distance) // (2 * distance))
    return phase(1, (here, there, pieces / n), 1 - crossing, crossing, reduce=reduce)
