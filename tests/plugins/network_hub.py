"""Topologies as plug-ins: a network with one hub in the middle, and a star of cables inside a node."""

from typing import Self

import numpy as np

from simulator.errors import InputError, Problem
from simulator.fabric.scale_out import NETWORKS, ScaleOut
from simulator.fabric.scale_out.base import Block, Floats, Ints, Point
from simulator.fabric.scale_up import SCALE_UPS, NodeLinks
from simulator.specs.base import Bandwidth, Count, Seconds, Spec
from simulator.specs.hardware import Cluster, ScaleUp


class HubKeys(Spec):
    """What files say of a hub."""

    ports: Count
    """Devices that it joins at most."""
    cable: Bandwidth
    """Of each device, per direction."""
    passage: Seconds = 0.0
    """Of one way through the hub."""


@NETWORKS.add("hub", HubKeys)
class Hub(ScaleOut):
    """Every device on one hub by a cable of its own; link i leaves device i, link devices + i comes back to it."""

    def __init__(self, devices: int, keys: HubKeys) -> None:
        self.devices, self.keys = devices, keys

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        keys = cluster.network.more
        assert isinstance(keys, HubKeys)
        if cluster.devices > keys.ports:
            message = f"{cluster.devices} devices on a hub of {keys.ports} ports"
            raise InputError(Problem(message, path="cluster.network.ports", hint=f"write {cluster.devices}"))
        return cls(cluster.devices, keys)

    @property
    def blocks(self) -> list[Block]:
        each = np.full(self.devices, self.keys.cable), np.full(self.devices, self.keys.passage / 2)
        return [("to the hub", self.devices, *each), ("from the hub", self.devices, *each)]

    def paths(self, src: Ints, dst: Ints, first: int = 0) -> Ints:
        return first + np.stack([src, self.devices + dst])

    def tiers(self, src: Ints, dst: Ints) -> Ints:
        return np.full(len(src), 2)

    def edges(self) -> list[tuple[Point, Point, int]]:
        up: list[tuple[Point, Point, int]] = [(("device", rank), ("hub",), rank) for rank in range(self.devices)]
        return up + [(end, begin, self.devices + rank) for begin, end, rank in up]


class StarKeys(Spec):
    """What files say of a star."""

    spoke: Bandwidth
    """From a device to the middle and back."""


@SCALE_UPS.add("star", StarKeys)
def star(devices: int, spec: ScaleUp) -> NodeLinks:
    """Cables to a box in the middle that is no switch: half of its speed each way."""
    keys = spec.more
    assert isinstance(keys, StarKeys)
    ends = [(rank, "box") for rank in range(devices)] + [("box", rank) for rank in range(devices)]
    capacity: Floats = np.full(2 * devices, keys.spoke / 2)
    return NodeLinks(tuple(ends), capacity, np.zeros(2 * devices), lambda src, dst: np.stack([src, devices + dst]))
