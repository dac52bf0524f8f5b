"""Which classes of devices share a node, so that what they copy shares the links and drives of its host."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Nodes:
    """The node of one device of each class; arrays of shape (classes, pp)."""

    number: Ints
    """The node by its devices: equal where those of two nodes are of the same classes."""
    beside: Ints
    """Devices of the same class there, which copy in step."""
    mixed: NDArray[np.bool_]
    """Whether devices of other classes are there."""
    devices: tuple[tuple[int, ...], ...]
    """Devices of each class (chain x pp + rank) of each node, by its number."""


def nodes_of(members: tuple[Ints, ...], ranks: Ints, devices: int) -> Nodes:
    """The nodes of `devices` each, of classes of chains `members` with the `ranks` (chains, pp)."""
    pp = ranks.shape[1]
    label = np.empty(ranks.size, np.int64)
    for number, chains in enumerate(members):
        label[ranks[chains]] = number * pp + np.arange(pp)
    known: dict[tuple[int, ...], int] = {}
    shape = (len(members), pp)
    beside, mixed = np.empty(shape, np.int64), np.empty(shape, np.bool_)
    place: Ints = np.empty(shape, np.int64)
    for cls, chains in enumerate(members):
        for rank in range(pp):
            first = int(ranks[chains[0], rank]) // devices * devices
            counts = np.bincount(label[first : first + devices], minlength=len(members) * pp)
            place[cls, rank] = known.setdefault(tuple(counts.tolist()), len(known))
            beside[cls, rank] = counts[cls * pp + rank]
            mixed[cls, rank] = np.count_nonzero(counts) > 1
    return Nodes(place, beside, mixed, tuple(known))
