"""All-to-all in two levels (Tutel's 2DH, arXiv:2206.03382): inside the node first, then along rails.

A member gives each neighbour what goes to the neighbour's place on any node; each then sends one message a node to its
own place there. As many bytes leave a node as in a direct exchange, in fewer and larger messages, after a step more.
"""

import numpy as np

from simulator.collectives.algorithms.base import EXCHANGES
from simulator.collectives.algorithms.direct import rounds_of
from simulator.collectives.algorithms.per_copy import direct, pairs
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement
from simulator.collectives.routing import Routing


@EXCHANGES.add("two_level")
def two_level(operation: str, layout: GroupPlacement, routing: Routing) -> tuple[Phase, ...] | None:
    """One copy for each expert, in two steps; direct where a group has one node or one rank a node."""
    if not layout.even or layout.nodes == 1 or layout.counts[0] == 1:
        return direct(operation, layout, routing)
    on_node, share = layout.counts[0], routing.loads(layout.members) / layout.members
    node, place = np.divmod(np.arange(layout.members), on_node)
    of_place = np.bincount(place, share)
    near, rail = pairs(node), pairs(place)
    inside = (*near, of_place[place[near[1]]])
    between = (*rail, on_node * share[rail[1]])
    inner, outer = rounds_of(on_node - 1), rounds_of(layout.nodes - 1)
    if operation == "dispatch":
        return phase(1, inside, inner, 0), phase(1, between, 0, outer)
    back = [(dst, src, size) for src, dst, size in (between, inside)]
    return phase(1, back[0], 0, outer), phase(1, back[1], inner, 0)
