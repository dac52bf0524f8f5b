"""The machine that all jobs of one time share: its links on one clock, its devices, its seed."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator import fabric, random, units
from simulator.engine.clock import Clock
from simulator.fabric import Fabric
from simulator.fabric.sharing import max_min
from simulator.specs.hardware import Cluster

Ints = NDArray[np.int64]


class Seat(NamedTuple):
    """Where a job lies."""

    fabric: Fabric
    """Of the whole machine."""
    devices: Ints
    """Device of each of its ranks; shape (ranks,)."""


@dataclass(slots=True, eq=False)
class Site:
    """One machine for all that runs on it: training steps, serving replicas, moved caches, perturbations."""

    cluster: Cluster
    seed: int
    fabric: Fabric = field(init=False)
    clock: Clock = field(init=False)
    """Its resources are the links of the fabric, under the same numbers, in bytes per tick; users may add more."""
    _left: dict[int, dict[Hashable, float]] = field(init=False, default_factory=dict)
    """Share of each link that each perturbation leaves."""

    def __post_init__(self) -> None:
        """At rest."""
        self.fabric = fabric.build(self.cluster)
        self.clock = Clock(self.fabric.capacity / units.TICKS_PER_SECOND, max_min)

    def stream(self, name: str) -> "np.random.Generator":
        """The random numbers of a consumer."""
        return random.stream(self.seed, name)

    def left(self, by: Hashable, link: int) -> float:
        """The share of a link that a perturbation leaves to others."""
        return self._left.get(link, {}).get(by, 1.0)

    def leave(self, by: Hashable, link: int, share: float) -> None:
        """Leave a share of a link from now on, 1 for all of it; what several perturbations leave multiplies."""
        shares = self._left.setdefault(link, {})
        shares[by] = share
        self.clock.change(link, float(self.fabric.capacity[link]) / units.TICKS_PER_SECOND * prod(shares.values()))

    def run(self, progress: Callable[[int], None] | None) -> None:
        """Let time pass until all is done."""
        self.clock.run(progress)
