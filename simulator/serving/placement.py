"""Which devices replicas take: each lies on as few nodes as it can, in the order in which pools are listed.

A replica, or a group of replicas that share experts, takes the first node with room for all of it. One that is larger
than a node takes whole nodes in a row. Where neither is left it takes what is free in the order of ranks, and its
groups straddle nodes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from simulator.specs.text.numbering import Numbering


class ReplicaPlacement(NamedTuple):
    """Where a replica lies."""

    own: tuple[int, ...]
    """Its devices, stage by stage."""
    peers: tuple[tuple[int, ...], ...]
    """Devices of each replica that shares experts with it, itself among them; only itself where nothing is shared."""

    def group(self, stage: int, tp: int) -> tuple[int, ...]:
        """The tensor-parallel group of a stage."""
        return self.own[stage * tp : (stage + 1) * tp]

    def sharers(self, stage: int, tp: int) -> tuple[int, ...]:
        """The first device of a stage in each replica that shares experts."""
        return tuple(peer[stage * tp] for peer in self.peers)

    def everybody(self, stage: int, tp: int) -> tuple[int, ...]:
        """All devices of a stage in the replicas that share experts."""
        return tuple(rank for peer in self.peers for rank in peer[stage * tp : (stage + 1) * tp])

    def in_first_node(self, numbering: Numbering) -> "ReplicaPlacement":
        """The same place in the first of equal nodes; itself where it lies on several."""
        nodes = {numbering.node_of(rank) for peer in self.peers for rank in peer}
        first = numbering.first_device[numbering.kind_of(self.own[0])]
        by = numbering.devices_of(min(nodes))[0] - first if len(nodes) == 1 else 0
        peers = tuple(tuple(rank - by for rank in peer) for peer in self.peers)
        return ReplicaPlacement(tuple(rank - by for rank in self.own), peers)


def placements(ranks: Sequence[int], devices: int) -> tuple[ReplicaPlacement, ...]:
    """Replicas of so many devices that share experts, side by side on `ranks`."""
    peers = tuple(tuple(ranks[i : i + devices]) for i in range(0, len(ranks), devices))
    return tuple(ReplicaPlacement(own, peers) for own in peers)


@dataclass(slots=True)
class FreeDevices:
    """Devices of equal nodes that nothing has taken yet."""

    per_node: int
    """Devices of a node."""
    free: list[list[int]]
    """Free devices of each node, those that are taken first last."""
    all: int
    """How many there were."""
    _from: dict[int, int] = field(default_factory=dict)
    """The first node in which so many devices may be free."""

    @classmethod
    def of(cls, numbering: Numbering, kind: int = 0, devices: Iterable[int] | None = None) -> "FreeDevices":
        """Some devices, or all of them, as far as they are of nodes of a kind."""
        here, per_node = numbering.of_kind(kind), numbering.per_node[kind]
        free: list[list[int]] = [[] for _ in range(numbering.nodes[kind])]
        for device in here if devices is None else (device for device in devices if device in here):
            free[(device - here.start) // per_node].append(device)
        return cls(per_node, [row[::-1] for row in free], sum(map(len, free)))

    @property
    def count(self) -> int:
        """How many."""
        return sum(map(len, self.free))

    def take(self, count: int) -> tuple[int, ...]:
        """Devices for `count` that belong together; fewer where there are no more."""
        needed = -(-count // self.per_node)
        each = min(count, self.per_node)
        nodes = self._row(needed, each, count) or [node for node, free in enumerate(self.free) if free]
        taken: list[int] = []
        for node in nodes:
            here = min(len(self.free[node]), count - len(taken))
            taken += [self.free[node].pop() for _ in range(here)]
        return tuple(taken)

    def _row(self, needed: int, each: int, count: int) -> range | None:
        """The first `needed` nodes in a row with `each` devices free; `count` is what they are for."""
        run = 0
        for node in range(self._from.get(count, 0), len(self.free)):
            run = run + 1 if len(self.free[node]) >= each else 0
            if run == needed:
                self._from[count] = node - needed + 1
                return range(node - needed + 1, node + 1)
        self._from[count] = len(self.free)
        return None


def notes(
    replicas: Sequence[ReplicaPlacement], tp: int, numbering: Numbering
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(warnings, assumptions): which groups straddle nodes though a node has room for them, and which must."""
    warnings, assumptions = [], []
    per_node = numbering.per_node[numbering.kind_of(replicas[0].own[0])]
    for name, groups in (
        ("tensor-parallel group", [group for place in replicas for group in _groups(place, tp)]),
        ("expert-parallel group", list(dict.fromkeys(place.sharers(0, tp) for place in replicas))),
    ):
        counted = [
            (len({numbering.node_of(rank) for rank in group}), -(-len(group) // per_node), group) for group in groups
        ]
        apart = [group for nodes, needed, group in counted if nodes > needed]
        if apart:
            of = f"{len(apart):,} of {len(groups):,}, the first on devices {_ranges(apart[0])}"
            warnings.append(f"{name}s that straddle nodes of {per_node}: {of}; they pay for the network")
        elif most := max((nodes for nodes, *_ in counted if nodes > 1), default=0):
            assumptions.append(f"each {name} lies on {most} nodes of {per_node} devices and pays for the network")
    return tuple(warnings), tuple(assumptions)


def _groups(place: ReplicaPlacement, tp: int) -> Iterator[tuple[int, ...]]:
    for stage in range(len(place.own) // tp):
        yield place.group(stage, tp)


def _ranges(ranks: Sequence[int]) -> str:
    """`2 to 7 and 9`."""
    rows = [list(row) for _, row in groupby(enumerate(ranks), key=lambda pair: pair[1] - pair[0])]
    ends = [(row[0][1], row[-1][1]) for row in rows]
    return " and ".join(f"{first} to {last}" if first < last else str(first) for first, last in ends)
