"""One shared host bus (PCIe through the host) for all traffic between devices."""

import numpy as np

from simulator.fabric.scale_up.base import SCALE_UPS, Ints, NodeLinks, Point, bandwidth_of, latency_of
from simulator.specs.hardware import ScaleUp


@SCALE_UPS.add("host")
def host(devices: int, spec: ScaleUp) -> NodeLinks:
    """One bus through which all traffic between devices goes."""
    taps: list[tuple[Point, Point]] = [(i, "bus in") for i in range(devices)]
    taps += [("bus out", i) for i in range(devices)]
    bus = (("bus in", "bus out"),)

    def ways(start: Ints, stop: Ints) -> Ints:
        return np.where(start == stop, -1, 0)[None]

    return NodeLinks(bus, np.array([bandwidth_of(spec)]), np.array([latency_of(spec)]), ways, tuple(taps))
