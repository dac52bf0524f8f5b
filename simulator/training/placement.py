"""On which devices of its cluster the ranks of a training lie."""

import numpy as np
from numpy.typing import NDArray

from simulator.specs.scenario import NodeOrder, Scenario

Ints = NDArray[np.int64]


def devices_of_ranks(scenario: Scenario) -> Ints | None:
    """Device of each rank, shape (ranks,); None where ranks lie in order, as they do until an order was searched."""
    if not isinstance(scenario.placement, NodeOrder):
        return None
    return devices_on(np.array(scenario.placement.nodes, np.int64), scenario.cluster.node.devices)


def devices_on(nodes: Ints, per_node: int) -> Ints:
    """Devices of nodes (n,) in this order; shape (n * per_node,)."""
    return (nodes[:, None] * per_node + np.arange(per_node)).ravel()
