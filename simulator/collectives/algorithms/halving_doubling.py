"""Recursive halving and doubling: few steps, each with another partner.

Thakur, Rabenseifner and Gropp 2005. A reduce-scatter exchanges half of the data with the neighbour, then a quarter with
one two places away, and so on; an all-gather goes the other way; an all-reduce is both. Numbers of members that are no
power of two take the circulant pattern of Bruck et al. 1997, with the same volume and as many steps, rounded up.
"""

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement, Ints


@ALGORITHMS.add("halving_doubling")
def halving_doubling(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce, all-gather, reduce-scatter."""
    distances = [1 << step for step in range((layout.members - 1).bit_length())]
    step = _exchange if layout.members & (layout.members - 1) == 0 else _circulant
    scatter = tuple(step(layout, distance, True) for distance in distances)
    gather = tuple(step(layout, distance, False) for distance in distances)
    # A scatter begins with the exchange that moves most, which for powers of two is that with the neighbour.
    scatter, gather = (scatter, gather[::-1]) if step is _exchange else (scatter[::-1], gather)
    return {"all_reduce": scatter + gather, "reduce_scatter": scatter, "all_gather": gather}.get(operation)


def _exchange(layout: GroupPlacement, distance: int, reduce: bool) -> Phase:
    """Pairs that far apart swap what the other needs."""
    here = np.arange(layout.members)
    return _step(layout, here, here ^ distance, 1 / (2 * distance), reduce)


def _circulant(layout: GroupPlacement, distance: int, reduce: bool) -> Phase:
    """Everyone sends to the member that far ahead (scattering) or back (gathering)."""
    n = layout.members
    here = np.arange(n)
    there = (here + (distance if reduce else n - distance)) % n
    return _step(layout, here, there, min(distance, n - distance) / n, reduce)


def _step(layout: GroupPlacement, src: Ints, dst: Ints, share: float, reduce: bool) -> Phase:
    node = np.repeat(np.arange(layout.nodes), layout.counts)
    crossing = float((node[src] != node[dst]).any())
    return phase(1, (src, dst, share), 1 - crossing, crossing, reduce=reduce)
