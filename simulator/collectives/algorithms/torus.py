"""Collectives along the dimensions of a torus, all of its links at once.

The data are cut into one part for each dimension that the group spans, and part c is reduced along dimension c first,
then along c + 1, and so on, in rings that run both ways round; gathering goes back the same way (the multi-dimensional
ring all-reduce of TPU pods; Sack and Gropp 2012 for the order). Rings need the dimension to be closed: a group that
spans only a piece of a dimension, or a mesh, passes the seam through all hops of the piece.
"""

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement, Transfers


@ALGORITHMS.add("torus")
def torus(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce, all-gather, reduce-scatter of groups that fill a box of a torus."""
    if not layout.box or layout.slices > 1:
        return None
    scatter, gather = rounds(layout)
    return {"all_reduce": scatter + gather, "reduce_scatter": scatter, "all_gather": gather}.get(operation)


def rounds(layout: GroupPlacement) -> tuple[tuple[Phase, ...], tuple[Phase, ...]]:
    """Reduce-scatter and all-gather of the whole size in every slice."""
    spanned = range(len(_spanned(layout)))
    scatter = tuple(_phase(layout, round_, True) for round_ in spanned)
    return scatter, tuple(_phase(layout, round_, False) for round_ in reversed(spanned))


def _spanned(layout: GroupPlacement) -> list[int]:
    """Dimensions along which the group extends."""
    return [dimension for dimension, size in enumerate(layout.box) if size > 1]


def _phase(layout: GroupPlacement, round_: int, reduce: bool) -> Phase:
    """One round: part c goes round dimension c + round, both ways at once."""
    spanned = _spanned(layout)
    parts: list[Transfers] = []
    longest = 0
    for part in range(len(spanned)):
        dimension = spanned[(part + round_) % len(spanned)]
        before = np.prod([layout.box[spanned[(part + i) % len(spanned)]] for i in range(round_)], dtype=float)
        size = layout.box[dimension]
        longest = max(longest, size - 1)
        parts += _both_ways(layout.box, dimension, (size - 1) / (size * float(before) * len(spanned)))
    src, dst, share = (np.concatenate(column) for column in zip(*parts, strict=True))
    first = np.arange(layout.slices)[:, None] * int(np.prod(layout.box))
    src, dst = (src + first).ravel(), (dst + first).ravel()
    share = np.tile(share, layout.slices)
    # Rings of different lengths run at once: the phase has the steps of the longest, and every link its whole load.
    return phase(longest, (src, dst, share / longest), 0, 1, reduce=reduce)


def _both_ways(box: tuple[int, ...], dimension: int, share: float) -> list[Transfers]:
    """Everyone to the next along a dimension, and to the one before."""
    place = np.arange(int(np.prod(box))).reshape(box)
    return [
        (place.ravel(), np.roll(place, -step, axis=dimension).ravel(), np.full(place.size, share / 2))
        for step in (1, -1)
    ]
