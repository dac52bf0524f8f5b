"""What the traffic of a training job costs on its network, for every chain.

All groups of an axis run a collective at the same time (they run the same program), so they are priced together and
share links. A chain's price list is the row of ticks of everything that it ever sends; chains with equal lists, whose
data-parallel peers have equal lists too, behave alike and fold into one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator import collectives
from simulator.axes import DP, TP
from simulator.collectives import Cost
from simulator.fabric import Fabric
from simulator.parallel import Mesh
from simulator.specs.collectives import CollectiveProfile
from simulator.training.job import Job

Ints = NDArray[np.int64]


class Priced(NamedTuple):
    """What a collective of all groups of an axis, or the sends over all hops of the pipeline, cost."""

    ticks: Ints
    """By chain and stage, shape (chains, pp); of sends by hop and chain, shape (hops, chains)."""
    cost: Cost
    groups: Ints
    """Ranks of each of the groups of `cost`; shape (g, n)."""

    def row(self, ranks: Sequence[int], last: Ints) -> int:
        """A group that has all of these ranks, -1 where none has; `last` is the last group of each rank or -1."""
        row = int(last[ranks[0]]) if ranks[0] < len(last) else -1
        if row < 0 or all((self.groups[row] == rank).any() for rank in ranks[1:]):
            return row
        found = np.flatnonzero(np.all([(self.groups == rank).any(axis=1) for rank in ranks], axis=0))
        return int(found[0]) if len(found) else -1


class Share(NamedTuple):
    """A collective of one group in the operations of one kind of a step."""

    collective: str
    """For example `all_reduce`."""
    link: int
    """Kind of link that decides its rate, -1 for none."""
    moving: float
    """Ticks in which bytes move."""
    ticks: float
    """All of its ticks."""


class Traffic:
    """What a step sends and which operations send it, noted as collectives are priced."""

    def __init__(self, links: int) -> None:
        self.links = links
        self._noted: dict[tuple[str, int], tuple[Priced, float]] = {}
        self._last: dict[int, Ints] = {}

    def add(self, operation: str, priced: Priced, times: float) -> None:
        """Count a collective that runs `times` times a step, on the mean stage, in or as operations of that name."""
        key = operation, id(priced.cost)
        self._noted[key] = priced, self._noted.get(key, (priced, 0.0))[1] + times

    def total(self) -> NDArray[np.float64]:
        """Bytes by link; shape (links,)."""
        loads: dict[int, tuple[NDArray[np.float64], float]] = {}
        for priced, times in self._noted.values():
            load = priced.cost.load
            loads[id(load)] = load, loads.get(id(load), (load, 0.0))[1] + times
        return sum((load * times for load, times in loads.values()), np.zeros(self.links))

    def carried(self, link: int) -> dict[str, float]:
        """Bytes of one link by the name of the operations that send them."""
        found: dict[str, float] = {}
        for (operation, _), (priced, times) in self._noted.items():
            if size := float(priced.cost.load[link]) * times:
                found[operation] = found.get(operation, 0.0) + size
        return found

    def _last_group(self, priced: Priced) -> Ints:
        """The last group of each rank, -1 where it is in none; shape (ranks,)."""
        key = id(priced.cost)
        if key not in self._last:
            groups = priced.groups
            self._last[key] = np.full(int(groups.max(initial=0)) + 1, -1)
            self._last[key][groups] = np.arange(len(groups))[:, None]
        return self._last[key]

    def of(self, operation: str, ranks: Sequence[int]) -> list[Share]:
        """The collectives in operations of that name, for the groups that have all of these ranks."""
        shares = []
        for (name, _), (priced, times) in self._noted.items():
            row = priced.row(ranks, self._last_group(priced)) if name == operation else -1
            if row >= 0:
                cost = priced.cost
                moving, ticks = times * float(cost.moving[row]), times * float(cost.ticks[row])
                shares.append(Share(cost.operation, int(cost.bottleneck[row]), moving, ticks))
        return shares


@dataclass(slots=True)
class Network:
    """The mesh on the fabric. Ticks come back by chain and stage, shape (chains, pp)."""

    job: Job
    fabric: Fabric
    profile: CollectiveProfile
    chains: Ints = field(init=False)
    """Ranks; shape (chains, pp)."""
    _cache: dict[tuple[str, str, float], Priced] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.chains = self.job.mesh.chains()

    @property
    def mesh(self) -> Mesh:
        """The device mesh."""
        return self.job.mesh

    def collective(self, axis: str, operation: str, size: float, groups: Ints | None = None) -> Priced:
        """One collective of all groups of an axis.

        `size` is in bytes, as nccl-tests count; `groups` (g, n) replaces the groups of the whole axis under the name
        `axis`.
        """
        key = (axis, operation, size)
        if key not in self._cache:
            ranks = self.mesh.groups(axis) if groups is None else groups
            algorithms = self.job.algorithms
            self._cache[key] = self._priced(operation, ranks, size, algorithms.tp if axis == "tp" else algorithms.dp)
        return self._cache[key]

    def _priced(self, operation: str, groups: Ints, size: float, algorithm: str) -> Priced:
        cost = collectives.price(operation, groups, size, self.fabric, self.profile, algorithm)
        if groups.shape[1] == 1 or size <= 0:
            return Priced(np.zeros(self.chains.shape, np.int64), cost, groups)
        by_rank = np.zeros(self.mesh.world, np.int64)
        by_rank[groups] = cost.ticks[:, None]
        return Priced(by_rank[self.chains], cost, groups)

    def sends(self, size: float, hops: Sequence[tuple[int, int]]) -> Priced:
        """Sends from rank to rank of the pipeline.

        In the steady state all stages send at once, so all hops are priced together. Chains of one tensor-parallel
        group move on together, so each waits for the slowest of them.
        """
        pairs = np.concatenate([self.chains[:, hop] for hop in hops])
        cost = collectives.price("send", pairs, size, self.fabric, self.profile)
        return Priced(self._slowest_of_group(cost.ticks.reshape(len(hops), -1)), cost, pairs)

    def _slowest_of_group(self, ticks: Ints) -> Ints:
        """For each chain of (hops, chains), the largest value in its tensor-parallel group."""
        chain = np.empty(self.mesh.world, np.int64)
        chain[self.chains[:, 0]] = np.arange(len(self.chains))
        groups = self.mesh.groups(TP.name)
        groups = chain[groups[np.isin(groups[:, 0], self.chains[:, 0])]]
        slowest = ticks.copy()
        slowest[:, groups] = ticks[:, groups].max(axis=2, keepdims=True)
        return slowest

    def data_groups(self, size: int, stride: int) -> Ints:
        """Parts of the data-parallel groups: `size` ranks that lie `stride` apart in data-parallel order; shape (g,
        size)."""
        grid = self.mesh.grid(DP.name).reshape(-1, self.job.dp)
        outer = self.job.dp // (size * stride)
        parts = grid.reshape(-1, outer, size, stride).transpose(0, 1, 3, 2)
        return np.ascontiguousarray(parts).reshape(-1, size)

    def peers(self) -> Ints:
        """Number of the data-parallel group of each chain; shape (chains,)."""
        numbers = np.zeros(self.mesh.world, np.int64)
        grid = self.mesh.grid(DP.name).reshape(-1, self.job.dp)
        numbers[grid] = np.arange(len(grid))[:, None]
        return np.unique(numbers[self.chains[:, 0]], return_inverse=True)[1].reshape(-1)


def fold_chains(rows: Ints, peers: Ints) -> tuple[Ints, Ints]:
    """Merge chains with equal price lists and equal peers.

    `rows` (chains, k) holds the price list of each chain, `peers` (chains,) its data-parallel group. Returns the
    class of each chain (chains,) and one chain of each class (classes,). The partition is equitable: peers of equal
    chains are equal as multisets.
    """
    if (rows == rows[0]).all():
        return np.zeros(len(rows), np.int64), np.zeros(1, np.int64)
    label = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    while True:
        groups = [np.sort(label[peers == g]) for g in range(peers.max(initial=0) + 1)] if label.any() else None
        if groups is None:
            break
        kinds: dict[bytes, int] = {}
        around = np.array([kinds.setdefault(g.tobytes(), len(kinds)) for g in groups])
        refined = np.unique(np.stack([label, around[peers]], axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        if refined.max() == label.max():
            break
        label = refined
    examples = np.unique(label, return_index=True)[1]
    return label, examples
