"""One pipeline replica while its program is built: its lanes, and the pieces that each of its ranks runs in turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import RESERVED, Activity, Use, chain
from simulator.program import codes as d
from simulator.program.builder import Builder
from simulator.program.content import Content
from simulator.program.piece import Takes
from simulator.training.chains import ChainCosts
from simulator.training.job import Job

Ints = NDArray[np.int64]

LANES = ("compute", "send forward", "send backward", "data")
"""Lanes that every device has; passes that are cut add those of their parts."""
BEGIN = -1
"""The turn before the first."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The pieces of passes that a rank runs, in order; arrays of shape (turns,)."""

    kind: Ints
    stage: Ints
    microbatch: Ints
    piece: Ints
    """Position within the pass, 0 where it is not cut."""
    entry: Ints
    """First operation of each."""
    exit: Ints
    """Last operation of each."""

    def __len__(self) -> int:
        return len(self.kind)

    def of(self, stage: int, *kinds: int) -> Ints:
        """Turns of passes of some kinds of a chunk."""
        return np.flatnonzero((self.stage == stage) & np.isin(self.kind, kinds))

    def ends(self, turns: Ints) -> Ints:
        """Of some turns of one chunk those that end a pass."""
        alike = (self.microbatch[turns[1:]] == self.microbatch[turns[:-1]]) & (
            self.kind[turns[1:]] == self.kind[turns[:-1]]
        )
        return turns[np.append(~alike, True)] if len(turns) else turns

    def whole(self, turns: Ints, which: int) -> Ints:
        """Those of the first (0) or last (-1) pass among some turns."""
        one = turns[which]
        found: Ints = turns[(self.microbatch[turns] == self.microbatch[one]) & (self.kind[turns] == self.kind[one])]
        return found


@dataclass(slots=True)
class Chain:
    """A chain of ranks, and what was appended for it so far."""

    job: Job
    costs: ChainCosts
    builder: Builder
    names: tuple[str, ...]
    """Lanes of a device."""
    number: int
    group: int
    """Data-parallel group whose chains wait for each other, -1 for none."""
    cut: bool
    """Whether every pass runs in pieces, so that what it sends may meet other traffic."""
    turns: list[Turns] = field(default_factory=list)
    """By rank."""
    reduced: dict[int, list[int]] = field(default_factory=dict)
    """Reductions that the optimizer of a rank waits for."""
    around: dict[int, Ints] = field(default_factory=dict)
    """By rank the reductions of the pieces of its backward passes, in their order, where each is reduced by itself."""
    gathered: dict[int, Ints] = field(default_factory=dict)
    """By rank the gathers of its turns, where parameters are gathered around every pass."""
    sums: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By rank (turn, reduction) of the last microbatch, in the order of the turns whose gradients each completes."""
    stored: dict[int, list[Ints]] = field(default_factory=dict)
    """By rank the subgroups of states that left the device again."""
    devices: list[tuple[int, int]] = field(default_factory=list)
    """Multiprocessors and memory of each rank, where collectives run beside computation."""

    def __post_init__(self) -> None:
        """Take resources."""
        if self.job.shares or self.cut:
            self.devices = [(self.builder.resource(), self.builder.resource()) for _ in range(self.job.pp)]

    def lane(self, rank: int | Ints, name: str) -> Ints:
        """Number of a lane."""
        device = self.number * self.job.pp + np.asarray(rank)
        return np.asarray(device * len(self.names) + self.names.index(name))

    def ended(self, rank: int) -> list[Ints | int]:
        """What the end of a step of a rank comes after: its passes and reductions."""
        found: list[Ints | int] = [self.turns[rank].exit[-1]]
        return [*found, np.array(self.reduced.get(rank, []), np.int64)]

    def summed(self, rank: int, turn: int) -> Ints | int:
        """The reduction that completes the gradients of a turn; nothing where there is none."""
        if rank in self.around:
            backward = np.flatnonzero(self.turns[rank].kind == d.BACKWARD)
            return int(self.around[rank][np.searchsorted(backward, turn)])
        chunk = int(self.turns[rank].stage[turn])
        later = [number for at, number in self.sums.get(rank, []) if at >= turn and self._ends(rank, at, chunk)]
        return later[0] if later else np.array(self.reduced.get(rank, [])[-1:], np.int64)

    def _ends(self, rank: int, turn: int, chunk: int) -> bool:
        """Whether a turn is of a chunk, or stands for all turns."""
        return turn >= len(self.turns[rank]) or int(self.turns[rank].stage[turn]) == chunk

    def chunks(self, rank: int) -> list[int]:
        """Chunks of a rank."""
        return [chunk for chunk, home in enumerate(self.job.home) if home == rank]

    @property
    def meets(self) -> bool:
        """Whether data-parallel collectives wait for other ranks than those that behave alike."""
        return self.group >= 0 or self.job.copies > 1

    def holders(self, rank: int) -> int:
        """The first of the ranks of a chain that hold the same layers as one of them."""
        return min(rank, self.job.pp - 1 - rank) if self.job.copies > 1 else rank

    def layers(self, chunk: int) -> int:
        """Chunk of the model whose layers a chunk of any copy holds."""
        return chunk % len(self.job.chunks)

    def meetings(self, name: Sequence[object], count: int) -> Ints | int:
        """Meetings with the same operations of the other chains of the group, and of ranks that hold the same layers;
        `name` tells these."""
        group = (True, self.group) if self.group >= 0 else (False, self.number)
        return self.builder.meetings((*group, *name), count) if self.meets else -1

    def kernels(self, rank: int, content: Content) -> int:
        """The activity of kernels, each on what bounds it of the rank's device; -1 for what lasts no time."""
        if not self.devices:
            return -1
        fixed, *bound = (int(ticks[0]) for ticks in content.bound(np.array([content.total])))
        uses = [((), fixed), *(((Use(one, 1.0, 1.0),), n) for one, n in zip(self.devices[rank], bound, strict=True))]
        phases = [Activity(0, ticks, needs) for needs, ticks in uses if ticks]
        return self.builder.activity(chain(phases)) if phases else -1

    def holds(self, rank: int, ticks: int, takes: Takes) -> int:
        """The activity of a collective that takes its shares of the rank's device for so long; -1 where it takes
        nothing."""
        if not self.devices:
            return -1
        uses = tuple(Use(one, share, RESERVED) for one, share in zip(self.devices[rank], takes, strict=True) if share)
        return self.builder.activity(Activity(0, ticks, uses)) if ticks and uses else -1

    def each(self, rank: int, content: Ints, activity: Callable[[int, Content], int]) -> Ints:
        """The activities of contents, each by its number."""
        known = {n: activity(rank, self.builder.contents[n].whole) for n in set(content.tolist())}
        return np.array([known[n] for n in content.tolist()], np.int64)

    def beside(self, rank: int, name: Sequence[object], turn: Ints, content: Ints, **columns: Ints | int) -> Ints:
        """Collectives on the data lane of a rank, beside what it computes; `name` tells them from the others."""
        activity = self.each(rank, content, self._collective)
        meeting = self.meetings((self.holders(rank), *name), len(content))
        lane = self.lane(rank, "data")
        return self.builder.append(lane, turn, content, activity=activity, meeting=meeting, **columns)

    def _collective(self, rank: int, content: Content) -> int:
        """The activity of collectives one after the other, which take what they take on average."""
        shares = [
            [call.exposed / content.total * share for share in self.costs.takes(call.comm)]
            for call in content.calls
            if call.exposed
        ]
        return self.holds(rank, content.total, Takes(*map(sum, zip(*shares, strict=True))))

    def serial(
        self, rank: int | Ints, name: Sequence[object], turn: Ints | int, content: Ints, **columns: Ints | int
    ) -> Ints:
        """Operations on the compute lane of ranks in which the chains of the group meet."""
        meeting = self.meetings(name, len(content))
        return self.builder.append(self.lane(rank, "compute"), turn, content, meeting=meeting, **columns)
