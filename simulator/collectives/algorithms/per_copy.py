"""Exchanges that send a copy of a token for each expert, or for each rank with one of its experts.

`direct` is an all-to-all of what the tokens chose, as NCCL makes it of grouped sends (Megatron's `alltoall`): K copies
of a token, those for the own rank kept, and as many rounds of peers. `per_rank` sends one to each rank that is reached.
Between nodes data travels on the rail of its destination, as in a `direct` all-to-all, so a hot rank makes its rail and
card slow.
"""

import numpy as np

from simulator.collectives.algorithms.base import EXCHANGES
from simulator.collectives.algorithms.direct import every_pair, rounds
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import Floats, GroupPlacement, Ints, Transfers
from simulator.collectives.routing import Routing


@EXCHANGES.add("direct")
def direct(operation: str, layout: GroupPlacement, routing: Routing) -> tuple[Phase, ...]:
    """One copy for each expert."""
    return _exchange(operation, layout, routing.loads(layout.members) / layout.members, rounds(layout))


@EXCHANGES.add("per_rank")
def per_rank(operation: str, layout: GroupPlacement, routing: Routing) -> tuple[Phase, ...]:
    """One copy for each rank; what comes back is summed there first."""
    hops = float(layout.nodes == 1), float(layout.nodes > 1)
    return _exchange(operation, layout, reached(layout, routing) / routing.top_k, hops)


def reached(layout: GroupPlacement, routing: Routing) -> Floats:
    """Probability that a token goes to each rank; (members,)."""
    members = layout.members
    return np.array([routing.chance(1 / members, load) for load in routing.loads(members).tolist()])


def _exchange(operation: str, layout: GroupPlacement, share: Floats, hops: tuple[float, float]) -> tuple[Phase, ...]:
    src, dst, size = every_pair(layout) if _alike(share) else _uneven(layout, share)
    scale = float(share[0]) * layout.members if _alike(share) else 1.0
    ends = (src, dst) if operation == "dispatch" else (dst, src)
    return (phase(1, (*ends, size * scale), *hops),)


def _alike(share: Floats) -> bool:
    return bool((share == share[0]).all())


def _uneven(layout: GroupPlacement, share: Floats) -> Transfers:
    """Every member sends `share` (members,) to each of the others."""
    if layout.nodes == 1 or not layout.even or layout.box:
        src, dst = pairs(np.zeros(layout.members, np.int64))
        return src, dst, share[dst]
    on_node = layout.counts[0]
    node, place = np.divmod(np.arange(layout.members), on_node)
    near, rail = pairs(node), pairs(place)
    return (
        np.concatenate([near[0], rail[0]]),
        np.concatenate([near[1], rail[1]]),
        np.concatenate([share[near[1]], on_node * share[rail[1]]]),
    )


def pairs(part: Ints) -> tuple[Ints, Ints]:
    """Positions of all ordered pairs of different members of equal parts; `part` is (members,)."""
    src, dst = np.nonzero((part[:, None] == part) & ~np.eye(len(part), dtype=bool))
    return src, dst
