"""A collective algorithm as a plug-in: everybody sends everything to the first member, which answers with the sum."""

import numpy as np

from simulator.collectives.algorithms import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement


@ALGORITHMS.add("first-sums")
def first_sums(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce only."""
    if operation != "all_reduce":
        return None
    others = np.arange(1, layout.members)
    hub, far = np.zeros_like(others), float(layout.nodes > 1)
    gathered = phase(1, (others, hub, 1.0), 1 - far, far, reduce=True)
    return gathered, phase(1, (hub, others, 1.0), 1 - far, far)
