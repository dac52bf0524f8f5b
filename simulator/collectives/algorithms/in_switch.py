"""Reduction in the switch of the node (NVLink SHARP, NCCL's NVLS).

Each member has one n-th of the result to make: it reads that part from all members, added up by the switch on the way,
and writes the result to all, copied by the switch. So every device sends S + S / n bytes up, and as many come down,
where a ring sends 2 S (n - 1) / n. Parts are begun one after the other, a hop for each. Between nodes (`nvls_tree`)
each member's part goes through double binary trees on its rail.
"""

import numpy as np

from simulator.collectives.algorithms import tree
from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement, Transfers
from simulator.fabric.fabric import SWITCH


@ALGORITHMS.add("nvls")
def nvls(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce within one node."""
    if operation != "all_reduce" or layout.nodes > 1 or not layout.switched:
        return None
    return (phase(1, up_and_down(layout), layout.rails, 0, reduce=True),)


@ALGORITHMS.add("nvls_tree")
def nvls_tree(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce of nodes with equally many members, more than one."""
    switched = layout.switched and layout.even and layout.counts[0] > 1
    if operation != "all_reduce" or layout.nodes == 1 or not switched:
        return None
    inner, outer = up_and_down(layout), tree.between(layout, True)
    transfers = tuple(np.concatenate(pair) for pair in zip(inner, outer, strict=True))
    hops = 2 * tree.depth(layout.nodes)
    return (phase(1, (transfers[0], transfers[1], transfers[2]), layout.rails, hops, reduce=True),)


def up_and_down(layout: GroupPlacement) -> Transfers:
    """What goes up to the switch and comes down."""
    members = np.arange(layout.members)
    switch = np.full(layout.members, SWITCH)
    share = np.full(2 * layout.members, 1 + 1 / layout.counts[0])
    return np.concatenate([members, switch]), np.concatenate([switch, members]), share
