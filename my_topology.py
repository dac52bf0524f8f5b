# my_topology.py
import numpy as np

from simulator.fabric.scale_up import SCALE_UPS, NodeLinks
from simulator.specs.base import Bandwidth, Seconds, Spec


class StarKeys(Spec):
    spoke: Bandwidth
    """Of each device to the box and back, per direction."""
    passage: Seconds = 0.0
    """Of one way through the box."""


@SCALE_UPS.add("star", StarKeys)
def star(devices, spec):
    ends = [(rank, "box") for rank in range(devices)] + [("box", rank) for rank in range(devices)]
    capacity, latency = np.full(2 * devices, spec.more.spoke), np.full(2 * devices, spec.more.passage / 2)
    return NodeLinks(tuple(ends), capacity, latency, lambda src, dst: np.stack([src, devices + dst]))
