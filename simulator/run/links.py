"""What the links of a fabric carried: the busiest of each kind, which operations loaded it and whose."""

import numpy as np
from numpy.typing import NDArray

from simulator.fabric import Fabric
from simulator.results.result import LinkLoad
from simulator.training.chains import ChainClasses
from simulator.training.layout import Mesh

Ints = NDArray[np.int64]

_AT_ONCE = 1 << 16  # flows whose ways are in memory together


def link_loads(fabric: Fabric, mesh: Mesh, classes: ChainClasses, step_s: float) -> tuple[LinkLoad, ...]:
    """The busiest link of each kind that carried anything."""
    total = classes.traffic.total()
    stops = [*fabric.block_start[1:], len(fabric.capacity)]
    blocks = [
        (name, first, stop)
        for name, first, stop in zip(fabric.kinds, fabric.block_start, stops, strict=True)
        if total[first:stop].any()
    ]
    busiest = [first + int(np.argmax(total[first:stop] / fabric.capacity[first:stop])) for _, first, stop in blocks]
    users = _users(fabric, mesh, classes, busiest)
    found = []
    for (name, first, stop), link, who in zip(blocks, busiest, users, strict=True):
        moved, rate = float(total[link]), float(fabric.capacity[link])
        by_operation = classes.traffic.carried(link)
        found.append(LinkLoad(name, stop - first, rate, moved, moved / (rate * step_s), by_operation, who))
    return tuple(found)


def _users(fabric: Fabric, mesh: Mesh, classes: ChainClasses, links: list[int]) -> list[tuple[int, ...]]:
    """For each link the device classes whose ranks send over it to a neighbour on an axis of the mesh."""
    own = _class_of_rank(mesh, classes)
    found: list[set[int]] = [set() for _ in links]
    source, target = _neighbours(mesh)
    for first in range(0, len(source), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        paths, sender = fabric.paths(source[some], target[some]), own[source[some]]
        for link, who in zip(links, found, strict=True):
            who.update(sender[(paths == link).any(axis=0)].tolist())
    return [tuple(sorted(who)) for who in found]


def _neighbours(mesh: Mesh) -> tuple[Ints, Ints]:
    """Both ways between ranks that follow each other on an axis, the last and the first too; (flows,) each."""
    rings = [mesh.grid(axis).reshape(-1, size) for axis, size in mesh.sizes.items() if size > 1]
    ends = [(ring.ravel(), np.roll(ring, -1, axis=1).ravel()) for ring in rings]
    none = np.zeros(0, np.int64)
    there, back = (np.concatenate([none, *(pair[side] for pair in ends)]) for side in (0, 1))
    return np.concatenate([there, back]), np.concatenate([back, there])


def _class_of_rank(mesh: Mesh, classes: ChainClasses) -> Ints:
    """Index of the device class of each rank; shape (world,)."""
    stages = classes.ranks.shape[1]
    own = np.zeros(mesh.world, np.int64)
    for label, chains in enumerate(classes.members):
        own[classes.ranks[chains]] = label * stages + np.arange(stages)
    return own
