"""A step as a program: all classes of chains on one tape.

A step is the period of a steady state: parameters that the optimizer left in shards are gathered at its start where
the stack overlaps that with the forward pass, at its end where it does not. Where a collective runs beside
computation, both are activities on the rank's multiprocessors: the collective takes the share that its channels need.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import Tape
from simulator.program.builder import Builder
from simulator.program.lump import Lump
from simulator.program.meetings import LANES as VOCABULARY_LANES
from simulator.training.chains import ChainCosts
from simulator.training.job import Job
from simulator.training.passes.chain import LANES, Chain
from simulator.training.passes.ends import finish
from simulator.training.passes.gradients import reduce_gradients
from simulator.training.passes.offload import TIER_LANES, Tiers, move_beside_passes
from simulator.training.passes.parameters import gather_parameters
from simulator.training.passes.pipeline import pipeline, sends
from simulator.training.tiers.nodes import Nodes

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Columns:
    """What each operation of a tape is; arrays of shape (n,) in tape order."""

    kind: Ints
    """Index into `codes.KINDS`."""
    stage: Ints
    """Model chunk, -1 for none."""
    microbatch: Ints
    piece: Ints
    """Layer within the chunk where the operation was cut, else -1."""
    lane: Ints
    content: Ints
    """Index into `Program.contents`."""
    apart: Ints
    """1 in passes that run part by part only because the chain waits for others than its equals: what they send shares
    links with nothing else, as it does where chains are folded."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program ready to run, and what its operations mean."""

    tape: Tape
    columns: Columns
    contents: tuple[Lump, ...]
    """What operations consist of."""
    lanes: tuple[tuple[int, int, str], ...]
    """(chain, rank, name) of each lane."""
    names: tuple[str, ...]
    """Names of the lanes of a device, the same for all, in order."""
    moved: Mapping[tuple[int, int, str, str], float] = field(default_factory=dict)
    """Bytes that each device moves in a step beside its memory, by chain, rank, lane and name of the operations."""

    def device(self, operations: Ints | slice) -> Ints:
        """The device (chain x pp + rank) of operations."""
        found: Ints = self.columns.lane[operations] // len(self.names)
        return found

    def on(self, operations: Ints, name: str) -> NDArray[np.bool_]:
        """Which of some operations stand on lanes of a name."""
        if name not in self.names:
            return np.zeros(len(operations), np.bool_)
        found: NDArray[np.bool_] = self.columns.lane[operations] % len(self.names) == self.names.index(name)
        return found

    def lane(self, device: int, name: str) -> slice:
        """The operations of a lane of a device."""
        start, number = self.tape.lane_start, device * len(self.names) + self.names.index(name)
        return slice(int(start[number]), int(start[number + 1]))


def build_program(
    job: Job, chains: Sequence[ChainCosts], groups: Ints, cut: bool = False, nodes: Nodes | None = None
) -> Program:
    """The program of several chains that run the same schedule; `groups` (chains,) numbers the data-parallel groups
    whose chains wait for each other, -1 none.

    `cut` runs all passes part by part, also those that nothing of this job can meet. `nodes` says which devices share
    a host, where anything lives beside their memory.
    """
    builder, meets = Builder(), VOCABULARY_LANES[: len(chains[0].together)]
    tiers = None
    if job.offload is not None and job.host is not None and nodes is not None:
        tiers = Tiers(job.host, nodes)
    own = TIER_LANES if tiers is not None else ()
    names = (*LANES, *meets, *own, *(_inside(chains) if job.shares or cut or own else ()))
    for number, costs in enumerate(chains):
        _append(Chain(job, costs, builder, names, number, int(groups[number]), cut), tiers)
    lanes = tuple((c, r, name) for c in range(len(chains)) for r in range(job.pp) for name in names)
    tape, columns = builder.build(tuple(f"chain {c} rank {r} {name}" for c, r, name in lanes))
    kept = Columns(**{one.name: columns[one.name] for one in fields(Columns)})
    return Program(tape, kept, tuple(builder.contents), lanes, names, {} if tiers is None else tiers.moved)


def _append(chain: Chain, tiers: Tiers | None) -> None:
    """Everything that one chain does, in the order in which operations of a turn follow each other."""
    lowered = pipeline(chain)
    gather_parameters(chain)
    reduce_gradients(chain)
    if tiers is not None:
        move_beside_passes(chain, tiers)
    sends(chain, lowered)
    finish(chain, tiers)


def _inside(chains: Sequence[ChainCosts]) -> Iterable[str]:
    """Lanes of their own that parts of passes run on, where passes are cut."""
    passes = {
        piece
        for costs in chains
        for chunks in (*costs.passes, *costs.alone)
        for chunk in chunks
        for pieces in chunk
        for piece in pieces
    }
    return sorted({part.lane for piece in passes for part in piece.parts} - set(LANES))
