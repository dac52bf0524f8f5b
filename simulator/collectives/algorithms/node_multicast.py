"""Node multicast: a token crosses the network once for each node, and is copied inside it.

What DeepEP's kernels for training and prefill do: a rank sends a token once to each node that has one of its experts,
to the GPU of its own place there, which forwards it over the links of the node to each rank that is reached. Back it
goes the same way, and partial sums are added in the node before they leave it. Chunks stream through both, so the
slower of network and node counts.
"""

import numpy as np

from simulator.collectives.algorithms.base import EXCHANGES
from simulator.collectives.algorithms.direct import check_pairs
from simulator.collectives.algorithms.per_copy import pairs, reached
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement, Ints, Transfers
from simulator.collectives.routing import Routing


@EXCHANGES.add("node_multicast")
def node_multicast(operation: str, layout: GroupPlacement, routing: Routing) -> tuple[Phase, ...]:
    """Both tiers in one phase."""
    src, dst, share = (
        np.concatenate(column) for column in zip(_between(layout, routing), _inside(layout, routing), strict=True)
    )
    ends = (src, dst) if operation == "dispatch" else (dst, src)
    hops = float(max(layout.counts) > 1), float(layout.nodes > 1)
    return (phase(1, (*ends, share / routing.top_k), *hops, reduce=operation == "combine"),)


def _between(layout: GroupPlacement, routing: Routing) -> Transfers:
    """From every member to the one of its place on every other node, tokens that this node needs."""
    gates, node = _gates(layout), np.repeat(np.arange(layout.nodes), layout.counts)
    src, to = np.nonzero(node[:, None] != np.arange(layout.nodes))
    counts, loads = np.array(layout.counts), routing.loads(layout.members)
    heat = np.add.reduceat(loads, layout.starts[:-1]) / counts
    chances = [
        routing.chance(float(count) / layout.members, float(hot)) for count, hot in zip(counts, heat, strict=True)
    ]
    return src, gates[src, to], np.array(chances)[to]


def _inside(layout: GroupPlacement, routing: Routing) -> Transfers:
    """From every member to those of its node, tokens of all the members that it stands for there."""
    stands_for = np.bincount(_gates(layout).ravel(), minlength=layout.members)
    if layout.even and not routing.load:
        src, dst, share = layout.inside()
        others = layout.counts[0] - 1
        return src, dst, share * (others * layout.nodes * routing.chance(1 / layout.members))
    src, dst = pairs(np.repeat(np.arange(layout.nodes), layout.counts))
    return src, dst, stands_for[src] * reached(layout, routing)[dst]


def _gates(layout: GroupPlacement) -> Ints:
    """Where the tokens of each member enter each node, in its own node itself; (members, nodes)."""
    check_pairs(layout.members, layout.nodes)
    counts = np.array(layout.counts)
    place = np.arange(layout.members) - np.repeat(layout.starts[:-1], counts)
    gates: Ints = layout.starts[:-1] + place[:, None] % counts
    return gates
