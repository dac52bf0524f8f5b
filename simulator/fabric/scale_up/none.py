"""No scale-up fabric: a single device, or devices that meet only over the network."""

import numpy as np

from simulator.fabric.scale_up.base import SCALE_UPS, NodeLinks
from simulator.specs.hardware import ScaleUp


@SCALE_UPS.add("none")
def nothing(devices: int, spec: ScaleUp) -> NodeLinks:
    """No link at all."""
    return NodeLinks((), np.zeros(0), np.zeros(0), lambda start, stop: np.full((1, len(start)), -1))
