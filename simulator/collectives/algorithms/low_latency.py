"""Low-latency exchanges: every token goes straight to the rank of each of its experts, with no stop on the way.

What DeepEP's kernels for decoding do (InfiniBand writes started by the GPU, NVLink where it reaches): K messages a
token, nothing merged, so that no rank waits for another in between. `low_latency_cards` sends all of them through the
cards, also to devices of the own node, as the first release did.
"""

import numpy as np

from simulator.collectives.algorithms.base import EXCHANGES
from simulator.collectives.algorithms.per_copy import pairs, reached
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import Floats, GroupPlacement
from simulator.collectives.routing import Routing


@EXCHANGES.add("low_latency")
def low_latency(operation: str, layout: GroupPlacement, routing: Routing) -> tuple[Phase, ...]:
    """A message for each expert."""
    return _straight(operation, layout, routing.loads(layout.members) / layout.members)


@EXCHANGES.add("low_latency_per_rank")
def low_latency_per_rank(operation: str, layout: GroupPlacement, routing: Routing) -> tuple[Phase, ...]:
    """A message for each rank that is reached."""
    return _straight(operation, layout, reached(layout, routing) / routing.top_k)


@EXCHANGES.add("low_latency_cards")
def low_latency_cards(operation: str, layout: GroupPlacement, routing: Routing) -> tuple[Phase, ...]:
    """A message for each expert, all through the cards."""
    return _straight(operation, layout, routing.loads(layout.members) / layout.members, cards=True)


def _straight(operation: str, layout: GroupPlacement, share: Floats, cards: bool = False) -> tuple[Phase, ...]:
    src, dst = pairs(np.zeros(layout.members, np.int64))
    far = cards or layout.nodes > 1
    ends = (src, dst) if operation == "dispatch" else (dst, src)
    return (phase(1, (*ends, share[dst]), float(not far), float(far), cards=cards),)
