"""A star: one member has everything sent to it and answers all, as edge devices around a master do.

TPI-LLM (arXiv:2410.00531) sums over a master: two hops whatever the number of members, where a ring of slow links pays
2 (n - 1); the master's link carries all of it. In oneCCL `starlike` is another thing: there every member is the master
of a part (`direct`).
"""

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement


@ALGORITHMS.add("star")
def star(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce, all-gather, reduce-scatter and broadcast; the first member is the master."""
    others = np.arange(1, layout.members)
    master, piece = np.zeros_like(others), 1 / layout.members
    far = float(layout.nodes > 1)

    def come(share: float, reduce: bool) -> Phase:
        return phase(1, (others, master, share), 1 - far, far, reduce=reduce)

    def go(share: float) -> Phase:
        return phase(1, (master, others, share), 1 - far, far)

    return {
        "all_reduce": (come(1.0, True), go(1.0)),
        "all_gather": (come(piece, False), go(1 - piece)),
        "reduce_scatter": (come(1.0 - piece, True), go(piece)),
        "broadcast": (go(1.0),),
    }.get(operation)
