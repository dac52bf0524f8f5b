"""A ring of devices.

Packets go the shorter way round; for opposite devices both are equally long and the parity of the sender decides.
"""

import numpy as np

from simulator.fabric.scale_up.base import SCALE_UPS, Ints, NodeLinks, bandwidth_of, latency_of
from simulator.specs.hardware import ScaleUp


@SCALE_UPS.add("ring")
def ring(devices: int, spec: ScaleUp) -> NodeLinks:
    """Two neighbours for each device, which share its bandwidth evenly."""
    steps = (1,) if devices == 2 else (1, -1)
    ends = tuple((i, (i + step) % devices) for step in steps for i in range(devices))
    capacity, latency = np.full(len(ends), bandwidth_of(spec) / len(steps)), np.full(len(ends), latency_of(spec))

    def ways(start: Ints, stop: Ints) -> Ints:
        ahead = (stop - start) % devices
        upwards = (2 * ahead < devices) | ((2 * ahead == devices) & ((start % 2 == 0) | (devices == 2)))
        length = np.where(upwards, ahead, devices - ahead) * (ahead > 0)
        hop = np.arange(max(int(length.max(initial=0)), 1))[:, None]
        here = (start + np.where(upwards, hop, -hop)) % devices
        return np.where(hop < length, here + np.where(upwards, 0, devices), -1)

    return NodeLinks(ends, capacity, latency, ways)
