"""Figures of one collective on a cluster: its time, and how long its most loaded cable between nodes is busy."""

from typing import Literal

import numpy as np

from simulator import collectives, fabric, units
from simulator.specs.base import Bytes, Spec
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec


class Exchange(Spec):
    """A collective of all devices of a cluster."""

    operation: str
    """Its name, such as `all_reduce`."""
    size: Bytes
    """As `clustersim collective` takes it."""
    algorithm: str = "auto"
    """How it is carried out."""
    quantity: Literal["time", "hottest"] = "time"
    """Seconds until the slowest rank is done, or seconds in which the most loaded cable between nodes carries bytes."""


def of_exchange(asked: Exchange, cluster: Cluster) -> float:
    """The figure that is asked for."""
    machine = fabric.build(cluster)
    profile = load_spec(CollectiveProfile, cluster.collectives)
    every = [range(machine.devices)]
    cost = collectives.cost_of(asked.operation, every, asked.size, machine, profile, asked.algorithm)
    if asked.quantity == "time":
        return units.to_seconds(cost.slowest)
    outer = slice(machine.first_outer, None)
    return float(np.max(cost.load[outer] / machine.capacity[outer], initial=0.0))
