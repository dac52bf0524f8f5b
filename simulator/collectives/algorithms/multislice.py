"""Collectives over several slices of a pod: along the tori of the slices, between devices of equal place, back.

An all-reduce is a reduce-scatter in every slice, an all-reduce of each device's part with its peers in the other slices
over the hosts' cards, and an all-gather in every slice, one after the other (as XLA does it over the data-centre
network: *Cloud TPU Multislice overview*, "hierarchical collectives"). Needs the same box in each slice.
"""

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.algorithms.torus import rounds
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement


@ALGORITHMS.add("multislice")
def multislice(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce, all-gather, reduce-scatter with rings between slices."""
    if not layout.box or layout.slices == 1:
        return None
    scatter, gather = rounds(layout)
    n, slices, src = layout.members, layout.slices, np.arange(layout.members)
    between = src, (src + n // slices) % n, 1 / n
    both = phase(2 * (slices - 1), between, 0, 1, reduce=True)
    return {
        "all_reduce": (*scatter, both, *gather),
        "reduce_scatter": (*scatter, phase(slices - 1, between, 0, 1, reduce=True)),
        "all_gather": (phase(slices - 1, between, 0, 1), *gather),
    }.get(operation)
