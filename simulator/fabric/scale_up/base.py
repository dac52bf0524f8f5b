"""The fabric inside a node: links among a few devices, with the route of every pair written down.

A builder for each `ScaleUp.kind`. A packet goes the shortest way. Ways are closed forms, so that memory grows with the
links and not with the pairs of devices; only `links` keeps a table. What is left out: buffers, and traffic of network
cards through the host bus.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.specs.hardware import SCALE_UP_KEYS, ScaleUp
from simulator.specs.kinds import Builders

Point = int | str
"""A device of the node, or the name of something between devices."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Ways = Callable[[Ints, Ints], Ints]


@dataclass(frozen=True, slots=True, eq=False)
class NodeLinks:
    """Links of one node, numbered from 0."""

    ends: tuple[tuple[Point, Point], ...]
    """From where to where each link goes; (links,)."""
    capacity: Floats
    """Bytes per second; (links,)."""
    latency: Floats
    """Seconds; (links,)."""
    ways: Ways
    """(start, stop) of flows, each (flows,), to their links in the order of the way, then -1; (longest way, flows).
    A device has no way to itself."""
    free: tuple[tuple[Point, Point], ...] = ()
    """Ways that cost nothing, for drawing: a device's tap on a shared bus."""
    switched: bool = False
    """Whether link i goes from device i into a switch and link devices + i comes back."""

    @property
    def joined(self) -> bool:
        """Whether devices of the node reach each other here."""
        return bool(self.ends)


Builder = Callable[[int, ScaleUp], NodeLinks]
SCALE_UPS: Builders[Builder] = Builders(SCALE_UP_KEYS)
"""Builders by `ScaleUp.kind`: (devices, spec) to links."""


def bandwidth_of(spec: ScaleUp) -> float:
    """Bytes per second; the spec demands it of every built-in kind but `none`."""
    assert spec.bandwidth is not None
    return spec.bandwidth.value


def latency_of(spec: ScaleUp) -> float:
    """Seconds of one traversal, 0 where the spec has none."""
    return spec.latency.value if spec.latency else 0.0
