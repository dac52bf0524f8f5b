"""What a step sends from node to node, and how long its links would be busy with it under an order of the nodes.

A step in some order says what places (the first, second, ... node of the order) send each other. In another order the
same places lie on other nodes. The busy time of an order is the sum, over phases of collectives, of bytes over rate of
the pair of nodes that has most of that phase to carry: the closed form of collectives that follow one another, with
nothing beside them. What it leaves out (work beside transfers, pairs that share a trunk) is in the steps that are
simulated afterwards.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.fabric import Fabric
from simulator.fabric.nodes import locate
from simulator.run.gather import Run
from simulator.run.links.carried import sent

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TIE = 0.02
"""Of the mean busy time of a phase's pairs, what counts beside the busiest: of orders whose busiest pairs are equal
the one with less to carry over slow pairs is nearer to a better one."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Bytes that places send each other, phase after phase."""

    src: Ints
    """Place of each pair; (pairs of all phases,)."""
    dst: Ints
    size: Floats
    """Bytes of a step; (pairs of all phases,)."""
    begins: Ints
    """First pair of each phase; (phases,)."""

    def busy(self, rates: Floats, orders: Ints, tie: float = 0.0) -> Floats:
        """Seconds of each of `orders` (n, nodes) over pairs of `rates` (nodes, nodes), and `tie` of the mean of each
        phase's pairs; shape (n,)."""
        seconds = self.size / rates[orders[:, self.src], orders[:, self.dst]]
        widths = np.diff(self.begins, append=len(self.src))
        found: Floats = np.maximum.reduceat(seconds, self.begins, axis=1).sum(axis=1)
        if tie:
            found += tie * (np.add.reduceat(seconds, self.begins, axis=1) / widths).sum(axis=1)
        return found

    def slowest(self, rates: Floats, order: Ints) -> list[tuple[int, int]]:
        """Places of the busiest pair of each phase, phases that take longest first."""
        seconds = self.size / rates[order[self.src], order[self.dst]]
        stops = [*self.begins[1:].tolist(), len(self.src)]
        worst = [a + int(np.argmax(seconds[a:b])) for a, b in zip(self.begins.tolist(), stops, strict=True)]
        worst.sort(key=lambda pair: -seconds[pair])
        return [(int(self.src[pair]), int(self.dst[pair])) for pair in worst]


def traffic_of(run: Run) -> Traffic | None:
    """What the step of a run whose ranks lie in order sends between nodes; None where it sends nothing."""
    numbering, nodes = run.network.fabric.numbering, run.network.fabric.numbering.all_nodes
    phases: dict[tuple[bytes, bytes], float] = defaultdict(float)
    for flow in sent(run.program, run.classes):
        plan = run.classes.priced[flow.comm].cost.plan
        for choice in plan.choices:
            node = locate(numbering, plan.groups[choice.rows])[1]
            runs = flow.runs[choice.rows]
            for demand in choice.demands:
                phase = demand.phase
                between = (phase.src >= 0) & (phase.dst >= 0)  # else a switch adds up or copies
                src, dst = node[:, phase.src[between]], node[:, phase.dst[between]]
                weight = np.outer(runs * (phase.repeat * plan.size_bytes), phase.size[between])
                apart = (src != dst) & (weight > 0)
                pair, which = np.unique(src[apart] * nodes + dst[apart], return_inverse=True)
                if len(pair):
                    size = np.bincount(which.reshape(-1), weight[apart])
                    # Phases that load pairs in the same proportions are one: their busiest pair is the same.
                    share = np.round(size / size.max(), 9)
                    phases[pair.tobytes(), share.tobytes()] += float(size.max())
    if not phases:
        return None
    pairs = [np.frombuffer(pair, np.int64) for pair, _ in phases]
    sizes = [np.frombuffer(key[1], np.float64) * most for key, most in phases.items()]
    begins = np.cumsum([0, *(len(pair) for pair in pairs[:-1])])
    src, dst = np.divmod(np.concatenate(pairs), nodes)
    return Traffic(src, dst, np.concatenate(sizes), begins)


def rates_of(fabric: Fabric) -> Floats:
    """Bytes per second from node to node with nothing else on the way, infinite on the diagonal; (nodes, nodes)."""
    numbering = fabric.numbering
    first = np.array([numbering.devices_of(node)[0] for node in range(numbering.all_nodes)], np.int64)
    found = np.full((len(first), len(first)), np.inf)
    src, dst = np.nonzero(~np.eye(len(first), dtype=bool))
    ways = fabric.paths(first[src], first[dst])
    found[src, dst] = np.append(fabric.capacity, np.inf)[ways].min(axis=0)
    return found
