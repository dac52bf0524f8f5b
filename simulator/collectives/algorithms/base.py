"""The registry of collective algorithms."""

from collections.abc import Callable

from simulator.collectives.phase import Phase
from simulator.collectives.placement import GroupPlacement
from simulator.registry import Registry

Algorithm = Callable[[str, GroupPlacement], tuple[Phase, ...] | None]
"""(operation, layout) to phases over positions and shares of the size, or None where it does not apply."""

ALGORITHMS: Registry[Algorithm] = Registry("collective algorithm")
"""Algorithms by name."""
