"""What the links of a fabric carried: the busiest of each kind, which operations loaded it and whose."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.fabric import Fabric
from simulator.results.link_rates import peak
from simulator.results.result import LinkLoad, Spans
from simulator.training.chains import ChainClasses
from simulator.training.layout import Mesh

Ints = NDArray[np.int64]

AXES = {"gather parameters": "dp", "reduce gradients": "dp", "send forward": "pp", "send backward": "pp"} | {
    "sum embedding gradients": "pp"
}
"""Axis of the mesh whose collectives run in operations of a kind; passes have those of tensor parallelism."""
_SLACK = 1.02
"""Times the capacity from which a rate is worth a warning: less changes no answer."""
_AT_ONCE = 1 << 16  # flows whose ways are in memory together


def link_loads(fabric: Fabric, mesh: Mesh, classes: ChainClasses, step_s: float, spans: Spans) -> tuple[LinkLoad, ...]:
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
        load = LinkLoad(name, stop - first, rate, moved, moved / (rate * step_s), by_operation, who)
        highest, at_peak = peak(spans, load)
        found.append(replace(load, peak=highest, at_peak=at_peak))
    return tuple(found)


def overloaded(loads: tuple[LinkLoad, ...]) -> tuple[str, ...]:
    """A warning where links carry more than they have at a moment of the step: which, by how much and in what."""
    over: dict[str, list[str]] = {}
    for load in loads:
        if load.peak > _SLACK * load.capacity:
            senders = " and ".join(f"`{name}` ({AXES.get(name, 'tp')})" for name in load.at_peak)
            rates = f"{units.format(load.peak, 'bandwidth')} of {units.format(load.capacity, 'bandwidth')}"
            over.setdefault(f"{rates} in {senders}", []).append(load.name)
    if not over:
        return ()
    listed = "; ".join(f"{', '.join(names)} {what}" for what, names in over.items())
    return (
        "operations that overlap share links, but each is simulated as if it had them alone: together they ask for more"
        f" than the links carry, and the simulated step is shorter than a real one: {listed}",
    )


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
