"""PCIe switches with a few devices each, joined through the host.

Devices of one switch reach each other through it alone; others share the link of their switch to the host. What is left
out: the link between two sockets, and traffic of network cards over the same switches.
"""

import numpy as np

from simulator.fabric.scale_up.base import SCALE_UPS, Ints, NodeLinks, Point, bandwidth_of, latency_of
from simulator.specs.hardware import ScaleUp


@SCALE_UPS.add("pcie")
def pcie(devices: int, spec: ScaleUp) -> NodeLinks:
    """Links up of devices, links down, then those of switches to the host and back."""
    assert spec.switch_devices is not None  # the spec demands it
    size = spec.switch_devices
    count = -(-devices // size)
    below: list[tuple[Point, Point]] = [(i, f"switch {i // size}") for i in range(devices)]
    above: list[tuple[Point, Point]] = [(f"switch {i}", "host") for i in range(count)]
    ends = (*below, *((b, a) for a, b in below), *above, *((b, a) for a, b in above))

    def ways(start: Ints, stop: Ints) -> Ints:
        beside = start // size == stop // size
        up, down = 2 * devices + start // size, 2 * devices + count + stop // size
        hops = np.stack([start, np.where(beside, -1, up), np.where(beside, -1, down), devices + stop])
        return np.where(start == stop, -1, hops)

    # A traversal has its latency once, on the way up; that through the host once more.
    latency = np.repeat([latency_of(spec), 0.0, latency_of(spec), 0.0], [devices, devices, count, count])
    return NodeLinks(ends, np.full(len(ends), bandwidth_of(spec)), latency, ways)
