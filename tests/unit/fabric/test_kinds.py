"""Kinds of topologies are registries: what a spec may name is built, and a further kind is one class."""

from typing import Self

import numpy as np
import pytest

from simulator import collectives
from simulator.fabric import build
from simulator.fabric.scale_out import NETWORKS, ScaleOut
from simulator.fabric.scale_out.base import Block, Ints, Point
from simulator.fabric.scale_up import SCALE_UPS
from simulator.specs.hardware import NETWORK_KEYS, SCALE_UP_KEYS, Cluster
from tests.machines import cluster, profile


def test_every_kind_that_a_spec_may_name_has_its_file() -> None:
    assert NETWORKS.names() == NETWORK_KEYS.names()
    assert SCALE_UPS.names() == SCALE_UP_KEYS.names()


class Hub(ScaleOut):
    """Every device on one switch of its own cable."""

    def __init__(self, devices: int) -> None:
        self.devices = devices

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        return cls(cluster.devices)

    @property
    def blocks(self) -> list[Block]:
        return [
            (f"hub {way}", self.devices, np.full(self.devices, 1e9), np.zeros(self.devices)) for way in ("up", "down")
        ]

    def paths(self, src: Ints, dst: Ints, first: int = 0) -> Ints:
        return first + np.stack([src, self.devices + dst])

    def tiers(self, src: Ints, dst: Ints) -> Ints:
        return np.full(len(src), 2)

    def edges(self) -> list[tuple[Point, Point, int]]:
        up = [(("device", rank), ("hub",), rank) for rank in range(self.devices)]
        return up + [(end, begin, self.devices + rank) for begin, end, rank in up]


def test_a_further_kind_of_network_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS._things, "hub", Hub)
    machine = cluster(nodes=4)
    fabric = build(machine.model_copy(update={"network": machine.network.model_copy(update={"kind": "hub"})}))
    assert [fabric.links[link] for link in fabric.route(3, 9)] == ["hub up 3", "hub down 9"]
    assert fabric.tiers([0, 0, 0], [0, 1, 31]).tolist() == [0, 1, 2]
    assert len(fabric.graph().nodes) == 32 + 1 + 4  # devices, the hub, and the switches of the nodes
    cost = collectives.cost_of("all_reduce", [range(32)], 1e9, fabric, profile())
    assert cost.ticks.min() > 0 and cost.load[fabric.find("hub 8")[0]] > 0
