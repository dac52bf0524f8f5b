"""Pairwise exchange: an all-to-all in n - 1 steps, in each of which every member sends to another one.

In step s member i sends to member i + s, so no link inside a node is used twice. What a library does that may not send
to many at once; `direct` does the same at once.
"""

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement


@ALGORITHMS.add("pairwise")
def pairwise(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-to-all only."""
    if operation != "all_to_all":
        return None
    n = layout.members
    here = np.arange(n)
    far = float(layout.nodes > 1)
    return tuple(phase(1, (here, (here + step) % n, 1 / n), 1 - far, far) for step in range(1, n))
