"""A switch in the node (NVSwitch, UB): any pair at full speed."""

import numpy as np

from simulator.fabric.scale_up.base import SCALE_UPS, Ints, NodeLinks, Point, bandwidth_of, latency_of
from simulator.specs.hardware import ScaleUp


@SCALE_UPS.add("switch")
def switch(devices: int, spec: ScaleUp) -> NodeLinks:
    """One link up to and one down from an ideal switch for each device."""
    up: list[tuple[Point, Point]] = [(i, "switch") for i in range(devices)]
    down: list[tuple[Point, Point]] = [("switch", i) for i in range(devices)]

    def ways(start: Ints, stop: Ints) -> Ints:
        return np.where(start == stop, -1, np.stack([start, devices + stop]))

    # The latency of a traversal lies on the way up, so that up and down together have it once.
    latency = np.repeat([latency_of(spec), 0.0], devices)
    return NodeLinks((*up, *down), np.full(2 * devices, bandwidth_of(spec)), latency, ways, switched=True)
