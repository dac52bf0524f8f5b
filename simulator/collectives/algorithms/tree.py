"""Double binary trees: half of the data up and down each of two trees, so that every member works equally.

Sanders, Speck and Traeff 2009, as in NCCL 2.4: a member inside one tree is a leaf of the other, so an all-reduce sends
2 S bytes from each member in a number of steps that grows with the logarithm of the members. `tree` is NCCL's: the
trees join nodes, once for each rail, and the members of a node form chains. `binary_tree` joins all members, wherever
they are. Chunks stream, so latency and bandwidth add up.
"""

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement, Ints, Transfers


@ALGORITHMS.add("tree")
def tree(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce and broadcast, as NCCL does them."""
    passes = _PASSES.get(operation)
    if passes is None:
        return None
    src, dst, share = layout.inside()
    members = np.repeat(layout.counts, layout.counts)[src]
    transfers = (src, dst, passes * share * (1 - 1 / members))
    if layout.nodes > 1:
        pairs = zip(between(layout, passes == 2), transfers, strict=True)
        src, dst, share = (np.concatenate(pair) for pair in pairs)
        transfers = (src, dst, share)
    inner, outer = max(layout.counts) - 1, depth(layout.nodes)
    return (phase(1, transfers, passes * inner, passes * outer, reduce=passes == 2),)


@ALGORITHMS.add("binary_tree")
def binary_tree(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce and broadcast over all members alike."""
    passes = _PASSES.get(operation)
    if passes is None:
        return None
    transfers = over(np.arange(layout.members)[:, None], passes == 2)
    hops = passes * depth(layout.members)
    far = min(passes * depth(layout.nodes), hops)
    return (phase(1, transfers, hops - far, far, reduce=passes == 2),)


_PASSES = {"all_reduce": 2, "broadcast": 1}
"""Up and down, or down only."""


def between(layout: GroupPlacement, both: bool) -> Transfers:
    """Trees over nodes, one pair for each rail; down only, or up and down."""
    return over(np.stack([layout.rail(r) for r in range(layout.rails)], axis=1), both)


def depth(count: int) -> int:
    """Steps from the root to the lowest leaf, as NCCL counts them."""
    return max(count.bit_length() - 1, 1) if count > 1 else 0


def over(positions: Ints, both: bool) -> Transfers:
    """Two trees over positions (places, rails), each with half of a rail's data; down only, or up and down."""
    count, rails = positions.shape
    above = parents(count)
    child = np.flatnonzero(above >= 0)
    # The second tree is the first one seen from the other end (even), or shifted by one place (odd).
    places = [np.arange(count), np.arange(count)[::-1] if count % 2 == 0 else (np.arange(count) + 1) % count]
    low = np.concatenate([positions[place[child]].ravel() for place in places])
    high = np.concatenate([positions[place[above[child]]].ravel() for place in places])
    share = 1 / (2 * rails)
    if not both:
        return high, low, np.full(len(low), share)
    return np.concatenate([low, high]), np.concatenate([high, low]), np.full(2 * len(low), share)


def parents(count: int) -> Ints:
    """Parent of each place in a binary tree of places in their order, -1 for the root (place 0)."""
    place = np.arange(count)
    bit = place & -place
    above = (place ^ bit) | (bit << 1)
    above = np.where(above >= count, place ^ bit, above)
    above[0] = -1
    return above
