"""Slices of TPU pods that published rows ran on."""

from math import prod

from simulator.interop.rows.jsonl import Refused
from simulator.specs.hardware import Cluster


def slice_of(cluster: Cluster, devices: int) -> Cluster:
    """A slice of a torus with so many devices: as near to a cube (or square) as their number allows; of whole blocks
    where they are needed to close it. Refused where they are no whole hosts, or more than a pod."""
    if devices % cluster.node.devices:
        raise Refused(f"{devices} devices are no multiple of {cluster.node.devices} a host")
    if devices > prod(cluster.network.shape):
        raise Refused(f"{devices} devices are more than one pod of {prod(cluster.network.shape)}")
    slices = cluster.network.slices
    whole = slices is not None and not slices.apart and devices % prod(slices.block) == 0
    block = slices.block if slices is not None and whole else (1,) * len(cluster.network.shape)
    sides, left = [], devices // prod(block)
    for open_sides in range(len(cluster.network.shape), 0, -1):
        root = round(left ** (1 / open_sides))
        side = next(s for s in range(max(root, 1), 0, -1) if left % s == 0) if open_sides > 1 else left
        sides.append(side)
        left //= side
    shape = tuple(side * size for side, size in zip(sides, block, strict=True))
    network = cluster.network.model_copy(update={"shape": shape})
    return cluster.model_copy(update={"network": network, "nodes": devices // cluster.node.devices})
