"""Rings through the members of one node, fitted to the links that the node has.

A switch or bus needs one ring. A full mesh of k devices splits into k - 1 rings that use every link once (Tillson 1980;
for 4 and 6 devices nearly so), which together are: everyone sends to everyone. Uneven links are searched for rings of
direct links, widest first, until no link is left; each ring carries data in proportion to its width.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from simulator.fabric.scale_up import NodeLinks

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Transfers = tuple[Ints, Ints, Floats]
Width = dict[tuple[int, int], float]
Ring = tuple[float, Ints]
"""(width, positions in the order of the ring)."""

SEARCHED = 9
"""Rings through more members than this are not searched for: they follow the device numbers."""
FIRST = 48
"""First rings that the search starts from."""


def once_around(count: int) -> Transfers:
    """One ring in the order of positions."""
    positions = np.arange(count)
    return positions, (positions + 1) % count, np.ones(count)


def everyone(count: int) -> Transfers:
    """Everyone sends the same share to everyone else."""
    src, dst = np.divmod(np.arange(count * count), count)
    other = src != dst
    return src[other], dst[other], np.full(count * (count - 1), 1 / (count - 1))


def around(node: NodeLinks, local: tuple[int, ...]) -> Transfers:
    """Rings through devices `local` over the links of a node, weighted by width; in order where there are none."""
    width = _direct(node, local)
    rings = _rings(tuple(width.items()), len(local)) if len(local) <= SEARCHED else _round_trip(width, len(local))
    if not rings:
        return once_around(len(local))
    total = sum(share for share, _ in rings)
    src = np.concatenate([ring for _, ring in rings])
    dst = np.concatenate([np.roll(ring, -1) for _, ring in rings])
    share = np.concatenate([np.full(len(ring), share / total) for share, ring in rings])
    return src, dst, share


def _direct(node: NodeLinks, local: tuple[int, ...]) -> Width:
    """Bandwidth of the direct links between positions."""
    place = {device: position for position, device in enumerate(local)}
    width: Width = {}
    for (start, stop), capacity in zip(node.ends, node.capacity.tolist(), strict=True):
        if start in place and stop in place:
            pair = (place[start], place[stop])
            width[pair] = width.get(pair, 0.0) + capacity
    return width


def _round_trip(width: Width, count: int) -> list[Ring]:
    """Both ways round the positions in their order, where direct links go that way."""
    trips = (np.arange(count), np.arange(count)[::-1].copy())
    rings = [
        (min(width.get((int(a), int(b)), 0.0) for a, b in zip(trip, np.roll(trip, -1), strict=True)), trip)
        for trip in trips
    ]
    return [(narrowest, trip) for narrowest, trip in rings if narrowest > 0]


@lru_cache(maxsize=256)
def _rings(links: tuple[tuple[tuple[int, int], float], ...], count: int) -> list[Ring]:
    """Rings that share no bandwidth: of the sets that begin with one of some first rings, that of the most width."""
    width = dict(links)
    widest = max((w for w in _widths(width) if next(_through([0], _at_least(width, w), count), None)), default=0.0)
    if not widest:
        return []
    found = [
        _followed([(widest, np.array(ring))], width, count)
        for ring in islice(_through([0], _at_least(width, widest), count), FIRST)
    ]
    return max(found, key=lambda rings: sum(share for share, _ in rings))


def _followed(rings: list[Ring], width: Width, count: int) -> list[Ring]:
    """The rings and those that fit beside them."""
    left = dict(width)
    while True:
        narrowest, last = rings[-1]
        for pair in zip(last.tolist(), np.roll(last, -1).tolist(), strict=True):
            left[pair] -= narrowest
        following = next(((w, ring) for w in _widths(left) for ring in _through([0], _at_least(left, w), count)), None)
        if following is None:
            return rings
        rings = [*rings, (following[0], np.array(following[1]))]


def _widths(width: Width) -> list[float]:
    return sorted({w for w in width.values() if w > 0}, reverse=True)


def _at_least(width: Width, narrowest: float) -> set[tuple[int, int]]:
    return {pair for pair, w in width.items() if w >= narrowest}


def _through(ring: list[int], pairs: set[tuple[int, int]], count: int) -> Iterator[list[int]]:
    """Rings through all positions that continue this one over allowed pairs."""
    if len(ring) == count:
        if (ring[-1], ring[0]) in pairs:
            yield ring
        return
    for position in range(1, count):
        if position not in ring and (ring[-1], position) in pairs:
            yield from _through([*ring, position], pairs, count)
