"""The machine that all who run at one time share: its links on one clock, its devices, its seed."""

from collections.abc import Callable
from dataclasses import dataclass, field
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
    """One machine for whoever runs on it: training steps, serving replicas, moved caches, perturbations."""

    cluster: Cluster
    seed: int
    fabric: Fabric = field(init=False)
    clock: Clock = field(init=False)
    """Its resources are the links of the fabric, under the same numbers, in bytes per tick; users may add more."""

    def __post_init__(self) -> None:
        """At rest."""
        self.fabric = fabric.build(self.cluster)
        self.clock = Clock(self.fabric.capacity / units.TICKS_PER_SECOND, max_min)

    def stream(self, name: str) -> np.random.Generator:
        """The random numbers of a consumer."""
        return random.stream(self.seed, name)

    def run(self, progress: Callable[[int], None] | None) -> None:
        """Let time pass until all is done."""
        self.clock.run(progress)
