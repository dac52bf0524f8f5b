"""Hierarchical collectives: inside the nodes, between them among members of equal place, inside again.

An all-reduce is a reduce-scatter in each node, an all-reduce of each member's part between nodes, and an all-gather in
each node, one after the other; its time is the sum of the three. Needs equally many members on each node. The part
between nodes is a ring, or double binary trees (`hierarchical_tree`).
"""

import numpy as np

from simulator.collectives.algorithms import tree
from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.algorithms.ring import between_nodes
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement


@ALGORITHMS.add("hierarchical")
def hierarchical(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce, all-gather, reduce-scatter with rings between nodes."""
    if not _two_levels(layout):
        return None
    n, nodes = layout.members, layout.nodes
    src, dst, _ = between_nodes(layout)
    gather = phase(nodes - 1, (src, dst, 1 / n), 0, 1)
    scatter = phase(nodes - 1, (src, dst, 1 / n), 0, 1, reduce=True)
    both = phase(2 * (nodes - 1), (src, dst, 1 / n), 0, 1, reduce=True)
    return {
        "all_reduce": (_within(layout, True), both, _within(layout, False)),
        "reduce_scatter": (_within(layout, True), scatter),
        "all_gather": (gather, _within(layout, False)),
    }.get(operation)


@ALGORITHMS.add("hierarchical_tree")
def hierarchical_tree(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce with trees between nodes."""
    if operation != "all_reduce" or not _two_levels(layout):
        return None
    trees = phase(1, tree.between(layout, True), 0, 2 * tree.depth(layout.nodes), reduce=True)
    return (_within(layout, True), trees, _within(layout, False))


def _two_levels(layout: GroupPlacement) -> bool:
    return layout.even and layout.nodes > 1 and layout.counts[0] > 1


def _within(layout: GroupPlacement, reduce: bool) -> Phase:
    """Reduce-scatter or all-gather of the whole size in every node."""
    members = layout.counts[0]
    src, dst, share = layout.inside()
    return phase(members - 1, (src, dst, np.asarray(share) / members), 1, 0, reduce=reduce)
