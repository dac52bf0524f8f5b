"""Rings: every member passes pieces on to the next.

An all-reduce of S bytes over n members takes 2 (n - 1) steps of S / n bytes (Patarasuk and Yuan 2009). Between nodes
there are as many rings as each node has members, and ring r crosses from node to node through the card of member r
(NCCL calls them channels), so that a group uses all cards of its members. A ring has no common beat: over many steps a
piece goes round once in the sum of all hops, so a step takes their average, which counts hops inside and between nodes
apart. Under a protocol whose lines stream a member passes a piece on while it still sends the one before, so a step
takes the longer of bytes and hops (`Rate.step_latency`).
"""

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement, Transfers


@ALGORITHMS.add("ring")
def ring(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce, all-gather, reduce-scatter; broadcast as a pipelined chain."""
    n = layout.members
    src, dst, share = edges(layout)
    outer = layout.nodes / n if layout.nodes > 1 else 0.0
    if operation == "broadcast":
        return (phase(1, (src, dst, share), (n - 1) * (1 - outer), (n - 1) * outer, chained=True),)
    steps = {"all_reduce": 2 * (n - 1), "all_gather": n - 1, "reduce_scatter": n - 1}.get(operation)
    if steps is None:
        return None
    reduce = operation != "all_gather"
    return (phase(steps, (src, dst, share / n), 1 - outer, outer, reduce=reduce, rolling=True),)


def edges(layout: GroupPlacement) -> Transfers:
    """The hops of all rings with the share of the data that each carries."""
    src, dst, share = layout.inside()
    if layout.nodes == 1:
        return src, dst, share
    # In each node a ring enters at one member and leaves after the last, so one of its edges is missing.
    members = np.repeat(layout.counts, layout.counts)[src]
    between = between_nodes(layout)
    return (
        np.concatenate([src, between[0]]),
        np.concatenate([dst, between[1]]),
        np.concatenate([share * (1 - 1 / members), between[2]]),
    )


def between_nodes(layout: GroupPlacement) -> Transfers:
    """The hops from node to node, one for each rail."""
    order = np.arange(layout.nodes) if not layout.box else _along(layout)
    src = (layout.starts[order][:, None] + np.arange(layout.rails)).ravel()
    dst = (layout.starts[np.roll(order, -1)][:, None] + np.arange(layout.rails)).ravel()
    return src, dst, np.full(len(src), 1 / layout.rails)


def _along(layout: GroupPlacement) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Members of a box in each slice, slice after slice, each along neighbours."""
    order = snake(layout.box)
    return (np.arange(layout.slices)[:, None] * len(order) + order).ravel()


def snake(box: tuple[int, ...]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Positions of a box in an order in which neighbours differ in one coordinate by one."""
    order = np.arange(box[0])[:, None]
    for size in box[1:]:
        ahead = np.arange(size)
        turns = np.where(np.arange(len(order))[:, None] % 2 == 0, ahead, ahead[::-1])
        order = np.concatenate([np.repeat(order, size, axis=0), turns.reshape(-1, 1)], axis=1)
    positions: np.ndarray[tuple[int], np.dtype[np.int64]] = np.ravel_multi_index(tuple(order.T), box).astype(np.int64)
    return positions
