"""What the collectives of a training job cost on its network, for every chain.

All groups of an axis run a collective at the same time (they run the same program), so they are priced together and
share links. A chain's price list is the row of ticks of everything that it ever sends; chains with equal lists, whose
data-parallel peers have equal lists too, behave alike and fold into one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator import collectives
from simulator.axes import AXES, CP, TP
from simulator.collectives import CollectiveCost
from simulator.fabric import Fabric
from simulator.model.backward import EXPERT_EXCHANGES
from simulator.parallel import Mesh
from simulator.program.content import Comm
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.training.experts.routing import LOAD
from simulator.training.job import Job, Replicas

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """What a collective of all its groups costs."""

    comm: Comm
    cost: CollectiveCost
    rows: Ints
    """The group of each chain at each place; shape (chains, places), -1 for none."""
    members: int
    """Chains that run it together where they run a group's collective once."""
    together: Ints | None = None
    """Numbers of chains that move on together, (sets, chains each), so that each waits for the slowest of them; None
    where each waits for its own group alone."""

    @property
    def ticks(self) -> Ints:
        """What each chain waits for at each place; shape (chains, places)."""
        found = np.where(self.rows >= 0, self.cost.ticks[self.rows], 0)
        if self.together is not None:
            found[self.together] = found[self.together].max(axis=1, keepdims=True)
        return found

    @property
    def moving(self) -> Ints:
        """Ticks in which each chain moves bytes at each place; shape (chains, places)."""
        return np.where(self.rows >= 0, self.cost.moving[self.rows], 0)


@dataclass(slots=True)
class Network:
    """The mesh on the fabric."""

    job: Job
    fabric: Fabric
    profile: CollectiveProfile
    devices: Ints | None = None
    """Device of the fabric that each rank is, shape (world,); the first ones in order where left out."""
    chains: Ints = field(init=False)
    """Ranks; shape (chains, pp)."""
    priced: dict[Comm, Priced] = field(init=False, default_factory=dict)
    """All collectives that were asked for."""
    _grouped: dict[tuple[object, ...], Ints] = field(init=False, default_factory=dict)
    """Groups that were asked for."""
    _rows: dict[int, tuple[Ints, Ints]] = field(init=False, default_factory=dict)
    """Groups, and the group of each chain at each place, by identity of the former."""

    def __post_init__(self) -> None:
        self.chains = self.job.mesh.chains()

    @property
    def mesh(self) -> Mesh:
        """The device mesh."""
        return self.job.mesh

    def collective(self, comm: Comm, groups: Ints | None = None) -> Priced:
        """One collective of all groups of an axis; `groups` (g, n) replaces them, their number at most one a rank.

        Its places are pipeline ranks.
        """
        if comm not in self.priced:
            ranks = self._groups(comm.axis) if groups is None else groups
            cost = self._cost(comm, ranks)
            self.priced[comm] = Priced(comm, cost, self._rows_of(ranks), ranks.shape[1])
        return self.priced[comm]

    def longest(self, comm: Comm) -> int:
        """Ticks of a priced collective for the chain that waits longest for it, at any place."""
        return int(self.priced[comm].ticks.max(initial=0))

    def _rows_of(self, ranks: Ints) -> Ints:
        """The group of each chain at each place; shape (chains, pp), -1 for none."""
        if id(ranks) not in self._rows:
            row = np.full(self.mesh.world, -1, np.int64)
            row[ranks] = np.arange(len(ranks))[:, None]
            self._rows[id(ranks)] = ranks, row[self.chains]
        return self._rows[id(ranks)][1]

    def _groups(self, axis: str) -> Ints:
        """The groups of an axis, which may be one of the experts' own mesh; (g, n)."""
        if (axis,) not in self._grouped:
            self._grouped[axis,] = (self.job.experts if AXES.get(axis).folded else self.mesh).groups(axis)
        return self._grouped[axis,]

    def _cost(self, comm: Comm, groups: Ints) -> CollectiveCost:
        """Of a collective, with the algorithm that the scenario chooses for its axis."""
        algorithm, sent = getattr(self.job.algorithms, AXES.get(comm.axis).algorithm), self.job.exchange
        where, profile, targets = self._where(groups), self.profile, None
        if comm.operation in EXPERT_EXCHANGES and sent is not None:
            profile, usual = collectives.library_of(sent.library, profile)
            _, _, number = comm.among.partition(LOAD)
            algorithm, targets = usual if algorithm == "auto" else algorithm, sent.at(int(number or 0)).targets
        return collectives.cost_of(comm.operation, where, comm.size, self.fabric, profile, algorithm, targets)

    def _where(self, ranks: Ints) -> Ints:
        """Devices of ranks."""
        return ranks if self.devices is None else self.devices[ranks]

    def sends(self, comm: Comm, hops: Sequence[tuple[int, int]]) -> Priced:
        """Sends from rank to rank of the pipeline; places are the hops.

        In the steady state all stages send at once, so all hops are priced together. Chains of one tensor- and
        context-parallel group move on together, so each waits for the slowest of them.
        """
        if comm not in self.priced:
            pairs = np.concatenate([self.chains[:, hop] for hop in hops])
            cost = collectives.cost_of(comm.operation, self._where(pairs), comm.size, self.fabric, self.profile)
            rows = np.arange(len(pairs)).reshape(len(hops), -1).T
            self.priced[comm] = Priced(comm, cost, rows, 1, self._together())
        return self.priced[comm]

    def _together(self) -> Ints:
        """Chains of each tensor- and context-parallel group; (groups, chains each)."""
        chain = np.empty(self.mesh.world, np.int64)
        chain[self.chains[:, 0]] = np.arange(len(self.chains))
        groups = self.mesh.groups(TP.name, CP.name)
        return chain[groups[np.isin(groups[:, 0], self.chains[:, 0])]]

    def data_groups(self, copies: Replicas, size: int, stride: int) -> Ints:
        """Parts of the groups of ranks that copy the same parameters: `size` ranks that lie `stride` apart in their
        order; shape (g, size)."""
        key = copies, size, stride
        if key not in self._grouped:
            self._grouped[key] = parts(self.job.grid(copies), size, stride)
        return self._grouped[key]

    def peers(self) -> Ints:
        """Number of the data-parallel group of each chain; shape (chains,)."""
        numbers = np.zeros(self.mesh.world, np.int64)
        grid = self.job.grid(self.job.dense)
        numbers[grid] = np.arange(len(grid))[:, None]
        return np.unique(numbers[self.chains[:, 0]], return_inverse=True)[1].reshape(-1)

    def ends(self, first: int, last: int) -> Ints:
        """Pairs of the ranks of two stages, one a chain; shape (chains, 2)."""
        return self.chains[:, [first, last]]


def parts(groups: Ints, size: int, stride: int) -> Ints:
    """Parts of groups (g, n): `size` ranks that lie `stride` apart in their order; shape (g n / size, size)."""
    cut = groups.reshape(len(groups), -1, size, stride).transpose(0, 1, 3, 2)
    return np.ascontiguousarray(cut).reshape(-1, size)


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
