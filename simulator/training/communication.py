"""What the traffic of a training job costs on its network, for every chain.

All groups of an axis run a collective at the same time (they run the same program), so they are priced together and
share links. A chain's price list is the row of ticks of everything that it ever sends; chains with equal lists, whose
data-parallel peers have equal lists too, behave alike and fold into one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator import collectives
from simulator.fabric import Fabric
from simulator.specs.collectives import CollectiveProfile
from simulator.training.job import Job
from simulator.training.layout import Mesh

Ints = NDArray[np.int64]


class Traffic:
    """Bytes that each link carries over the step, noted as collectives are priced and added up once."""

    def __init__(self, links: int) -> None:
        self.links = links
        self._noted: dict[int, tuple[NDArray[np.float64], float]] = {}

    def add(self, load: NDArray[np.float64], times: float) -> None:
        """Count a collective, whose bytes by link are `load` (links,), that runs `times` times a step."""
        before = self._noted.get(id(load), (load, 0.0))[1]
        self._noted[id(load)] = (load, before + times)

    def total(self) -> NDArray[np.float64]:
        """Bytes by link; shape (links,)."""
        return sum((load * times for load, times in self._noted.values()), np.zeros(self.links))


@dataclass(slots=True)
class Network:
    """The mesh on the fabric. Ticks come back by chain and stage, shape (chains, pp)."""

    job: Job
    fabric: Fabric
    profile: CollectiveProfile
    chains: Ints = field(init=False)
    """Ranks; shape (chains, pp)."""
    _cache: dict[tuple[str, str, float], tuple[Ints, NDArray[np.float64]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.chains = self.job.mesh.chains()

    @property
    def mesh(self) -> Mesh:
        """The device mesh."""
        return self.job.mesh

    def collective(
        self, axis: str, operation: str, size: float, groups: Ints | None = None
    ) -> tuple[Ints, NDArray[np.float64]]:
        """(ticks by chain and stage, bytes by link) of one collective of all groups of an axis.

        `size` is in bytes, as nccl-tests count; `groups` (g, n) replaces the groups of the whole axis under the name
        `axis`.
        """
        key = (axis, operation, size)
        if key not in self._cache:
            ranks = self.mesh.groups(axis) if groups is None else groups
            algorithms = self.job.algorithms
            self._cache[key] = self._priced(operation, ranks, size, algorithms.tp if axis == "tp" else algorithms.dp)
        return self._cache[key]

    def _priced(
        self, operation: str, groups: Ints, size: float, algorithm: str
    ) -> tuple[Ints, NDArray[np.float64]]:
        if groups.shape[1] == 1 or size <= 0:
            return np.zeros(self.chains.shape, np.int64), np.zeros(len(self.fabric.capacity))
        priced = collectives.price(operation, groups, size, self.fabric, self.profile, algorithm)
        by_rank = np.zeros(self.mesh.world, np.int64)
        by_rank[groups] = priced.ticks[:, None]
        return by_rank[self.chains], priced.load

    def sends(self, size: float, hops: Sequence[tuple[int, int]]) -> tuple[Ints, NDArray[np.float64]]:
        """(ticks by hop and chain, bytes by link) of sends from rank to rank of the pipeline, shape (hops, chains).

        In the steady state all stages send at once, so all hops are priced together. Chains of one tensor-parallel
        group move on together, so each waits for the slowest of them.
        """
        pairs = np.concatenate([self.chains[:, hop] for hop in hops])
        priced = collectives.price("send", pairs, size, self.fabric, self.profile)
        return self._slowest_of_group(priced.ticks.reshape(len(hops), -1)), priced.load

    def _slowest_of_group(self, ticks: Ints) -> Ints:
        """For each chain of (hops, chains), the largest value in its tensor-parallel group."""
        chain = np.empty(self.mesh.world, np.int64)
        chain[self.chains[:, 0]] = np.arange(len(self.chains))
        groups = self.mesh.groups("tp")
        groups = chain[groups[np.isin(groups[:, 0], self.chains[:, 0])]]
        slowest = ticks.copy()
        slowest[:, groups] = ticks[:, groups].max(axis=2, keepdims=True)
        return slowest

    def data_groups(self, size: int, stride: int) -> Ints:
        """Parts of the data-parallel groups: `size` ranks that lie `stride` apart in data-parallel order; shape (g,
        size)."""
        grid = self.mesh.grid("dp").reshape(-1, self.job.dp)
        outer = self.job.dp // (size * stride)
        parts = grid.reshape(-1, outer, size, stride).transpose(0, 1, 3, 2)
        return np.ascontiguousarray(parts).reshape(-1, size)

    def peers(self) -> Ints:
        """Number of the data-parallel group of each chain; shape (chains,)."""
        numbers = np.zeros(self.mesh.world, np.int64)
        grid = self.mesh.grid("dp").reshape(-1, self.job.dp)
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
