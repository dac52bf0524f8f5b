"""A fabric as it is drawn, what joins its points the warmer the busier it is."""

import numpy as np
from numpy.typing import NDArray

from simulator.fabric import Fabric
from simulator.fabric.outline import Outline, outline
from simulator.results.documents.network import DrawnJoin, DrawnPoint, LoadedNetwork
from simulator.specs.hardware import Cluster

Floats = NDArray[np.float64]

MOST_NODES, MOST_POINTS = 256, 1000
"""Nodes, and points of a drawing, up to which a result has the network."""


def loaded(fabric: Fabric, cluster: Cluster, carried: Floats, seconds: float) -> LoadedNetwork | None:
    """The network with the share of so many seconds for which the busiest link of each join moves what it `carried`, in
    bytes by link; None of one that is too large, and where nothing was sent."""
    if fabric.numbering.all_nodes > MOST_NODES or not carried.any():
        return None
    plan = outline(fabric)
    if len(plan.points) > MOST_POINTS:
        return None
    busy = np.minimum(carried / fabric.capacity / seconds, 1.0)
    some = joins(plan, busy)
    what = f"one step, at most {max(join.heat for join in some):.0%} of it" if some else "one step"
    return LoadedNetwork(
        cluster.name, cluster.network.kind, fabric.numbering.all_nodes, what, points(fabric, plan), some
    )


def points(fabric: Fabric, plan: Outline) -> tuple[DrawnPoint, ...]:
    """Its nodes, devices and switches."""
    return tuple(_point(fabric, point) for point in plan.points)


def joins(plan: Outline, busy: Floats) -> tuple[DrawnJoin, ...]:
    """What joins them, each as warm as its busiest link; `busy` by link."""
    return tuple(
        DrawnJoin(join.start, join.stop, len(join.links), join.capacity, float(busy[list(join.links)].max(initial=0.0)))
        for join in plan.joins
    )


def _point(fabric: Fabric, point: tuple[str | int, ...]) -> DrawnPoint:
    kind, *numbers = point
    grid = fabric.network.coordinates(np.array(numbers)) if kind == "device" else None
    if grid is not None:
        numbers = grid[0].tolist()
    return DrawnPoint(str(kind), tuple(n for n in numbers if isinstance(n, int)), " ".join(map(str, point)))
