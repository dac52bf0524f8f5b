"""Direct links between any two devices, over which the bandwidth of a device is split evenly."""

import numpy as np

from simulator.fabric.scale_up.base import SCALE_UPS, Ints, NodeLinks, bandwidth_of, latency_of
from simulator.specs.hardware import ScaleUp


@SCALE_UPS.add("mesh")
def mesh(devices: int, spec: ScaleUp) -> NodeLinks:
    """A direct link between any two devices; a device's bandwidth is split evenly over its links."""
    pairs = [(i, j) for i in range(devices) for j in range(devices) if i != j]

    def ways(start: Ints, stop: Ints) -> Ints:
        return np.where(start == stop, -1, start * (devices - 1) + stop - (stop > start))[None]

    capacity = np.full(len(pairs), bandwidth_of(spec) / (devices - 1))
    return NodeLinks(tuple(pairs), capacity, np.full(len(pairs), latency_of(spec)), ways)
