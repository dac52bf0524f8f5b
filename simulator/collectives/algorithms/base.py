"""The registries of collective algorithms, and of exchanges of tokens with experts."""

from collections.abc import Callable

from simulator.collectives.phase import Phase
from simulator.collectives.placement import GroupPlacement
from simulator.collectives.routing import Routing
from simulator.registry import Registry

Algorithm = Callable[[str, GroupPlacement], tuple[Phase, ...] | None]
"""(operation, layout) to phases over positions and shares of the size, or None where it does not apply."""

ALGORITHMS: Registry[Algorithm] = Registry("collective algorithm")
"""Algorithms by name."""

Exchange = Callable[[str, GroupPlacement, Routing], tuple[Phase, ...] | None]
"""(`dispatch` or `combine`, layout, routing) to phases over positions and shares of one copy of a token an expert."""

EXCHANGES: Registry[Exchange] = Registry("exchange of tokens")
"""Ways to dispatch tokens to experts and to combine what comes back, by name."""
