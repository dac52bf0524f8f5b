"""No network: a single node."""

from typing import Self

import numpy as np

from simulator.errors import InputError
from simulator.fabric.scale_out.base import NETWORKS, Block, Ints, Point, ScaleOut
from simulator.specs.hardware import Cluster


@NETWORKS.add("none")
class Alone(ScaleOut):
    """Nothing leaves the node."""

    __slots__ = ()

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """Of any cluster."""
        return cls()

    @property
    def blocks(self) -> tuple[Block, ...]:
        """No links."""
        return ()

    def paths(self, src: Ints, dst: Ints, first: int = 0) -> Ints:
        """InputError: what the node does not join is not joined."""
        raise InputError("devices of the node are not joined: give it a `scale_up` fabric, or the cluster a network")

    def tiers(self, src: Ints, dst: Ints) -> Ints:
        """As inside the node."""
        return np.ones(len(src), np.int64)

    def edges(self) -> tuple[tuple[Point, Point, int | None], ...]:
        """None."""
        return ()
