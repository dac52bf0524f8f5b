"""Reduction in the switches between nodes (InfiniBand SHARP; NCCL's CollNet, and NVLS over several nodes).

Member r of every node sends its part up a tree of switches, each of which adds up what comes from below and sends it on
once; the sum comes down copied. So a card sends S / k and receives as much, where a ring of all sends twice that, and
hops do not grow with nodes but with levels of switches. Inside a node parts are first added up and at last handed
round: by direct transfers (`collnet_direct`), along chains (`collnet_chain`) or by the node's own switch
(`nvls_sharp`). Chunks stream, so all are busy together.

Graham et al., COM-HPC 2016 and ISC 2020; hops as NVIDIA/nccl, src/graph/tuning.cc, counts them. What is left out: the
number of trees that a switch serves at a time, all-gathers and reduce-scatters over the switches' multicast, and the
low-latency operations for messages below 2 KiB, which NCCL's plugin does not use for larger ones.
"""

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.algorithms.in_switch import up_and_down
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement, Transfers
from simulator.fabric.fabric import NETWORK


@ALGORITHMS.add("collnet_direct")
def collnet_direct(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce of nodes with equally many members that meet in a switch."""
    if not _able(operation, layout) or not layout.even or not layout.switched:
        return None
    on_node = layout.counts[0]
    src, dst = np.nonzero(~np.eye(on_node, dtype=bool))
    first = layout.starts[:-1][:, None]
    # Of each pair one has the other's part to add up, and then to hand back.
    inside = (first + src).ravel(), (first + dst).ravel(), np.full(len(src) * layout.nodes, 2 / on_node)
    return (_streamed(layout, inside, 2.0 * (on_node > 1)),)


@ALGORITHMS.add("collnet_chain")
def collnet_chain(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce of any nodes."""
    if not _able(operation, layout):
        return None
    src, dst, share = layout.inside()
    members = np.repeat(layout.counts, layout.counts)[src]
    inside = (src, dst, 2 * share * (1 - 1 / members))
    return (_streamed(layout, inside, 2.0 * (max(layout.counts) - 1)),)


@ALGORITHMS.add("nvls_sharp")
def nvls_sharp(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce of nodes with equally many members, more than one, whose switches reduce too."""
    if not _able(operation, layout) or not layout.even or not layout.switched or layout.counts[0] == 1:
        return None
    return (_streamed(layout, up_and_down(layout), 2.0),)


def _able(operation: str, layout: GroupPlacement) -> bool:
    return operation == "all_reduce" and layout.nodes > 1 and layout.fabric.reduction is not None


def _streamed(layout: GroupPlacement, inside: Transfers, inner: float) -> Phase:
    """One phase of what goes on in nodes, and of every rail up its tree and down again; that is one hop."""
    rails = layout.rails
    members = np.concatenate([layout.rail(rail) for rail in range(rails)])
    tree = np.repeat(NETWORK - np.arange(rails), layout.nodes)
    between = np.concatenate([members, tree]), np.concatenate([tree, members]), np.full(2 * len(tree), 1 / rails)
    src, dst, share = (np.concatenate(pair) for pair in zip(inside, between, strict=True))
    return phase(1, (src, dst, share), inner, 1, reduce=True)
