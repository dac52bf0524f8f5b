"""What a collective takes of the devices that run it: multiprocessors and traffic of their memory.

A library's kernel holds one multiprocessor for each of its channels from launch to end, also while it waits for links.
It reads what it sends and writes what it receives, with copies into buffers between.
"""

from collections.abc import Mapping
from typing import NamedTuple

from simulator.collectives.tuner import Group, blocks
from simulator.specs.base import Figure
from simulator.specs.libraries.collectives import CollectiveProfile

OTHERS = "any"
"""Stands for algorithms that a profile does not name."""


class Occupied(NamedTuple):
    """What a collective takes of each device of a group."""

    multiprocessors: float = 0.0
    memory: float = 0.0
    """Bytes that a device's memory reads and writes for each byte that links carry for the device."""


def occupied(profile: CollectiveProfile, algorithm: str, group: Group) -> Occupied:
    """What an algorithm takes, by the profile, or else by its library's count of channels."""
    known = profile.occupancy
    held = _named(known.between_nodes, algorithm) if group.nodes > 1 else None
    held = _named(known.multiprocessors, algorithm) if held is None else held
    if held is None and profile.tuner is not None:
        held = blocks(profile.tuner, algorithm, group)
    return Occupied(held or 0.0, _named(known.memory, algorithm) or 0.0)


def _named(figures: Mapping[str, Figure[float]], algorithm: str) -> float | None:
    figure = figures.get(algorithm, figures.get(OTHERS))
    return None if figure is None else figure.value
