"""Collectives of a stage as data: along which axis, how many bytes for how many rows, how long, and what carries them.

An iteration runs the same collectives as a pass of training, so it says so in the same words (`Call`). Groups are those
of the replica that runs it; the bytes on links follow from the plan of a message as large as the nearest power of two,
as durations do from such messages (`Sizes`). Kernels of the engine's own read directly what an all-to-all would send.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2
from typing import NamedTuple

from simulator.collectives import Plan, activities, cost, duration, plan
from simulator.collectives.closed_form import cost_of
from simulator.collectives.custom_all_reduce import custom_seconds, kernels_of, moving_share, shot_bytes
from simulator.engine.tape import Use
from simulator.fabric import Fabric
from simulator.model.backward import EXPERT_EXCHANGES
from simulator.program.content import Call, Comm
from simulator.serving.costs.exchange import Exchange
from simulator.serving.costs.sizes import Sizes
from simulator.serving.placement import ReplicaPlacement
from simulator.specs.libraries.collectives import CollectiveProfile, CustomAllReduce
from simulator.specs.serving import ServingStack
from simulator.units import TICKS_PER_SECOND, to_ticks

Groups = Sequence[Sequence[int]]
Message = tuple[str, str, tuple[int, ...], float]
"""(operation, kernels of the engine for all-reduces, ranks, bytes)."""


class Movement(NamedTuple):
    """A part of a collective in which bytes move."""

    share: float
    """Of the time of the collective."""
    uses: tuple[Use, ...]
    """Bytes per tick on each link meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """What runs collectives: the library of the cluster, and the kernels of the engine."""

    stack: ServingStack
    fabric: Fabric
    profile: CollectiveProfile
    exchange: Exchange | None = None
    """The library that sends rows to the devices of their experts."""
    known: dict[Message, float] = field(default_factory=dict)
    """Seconds of collectives so far, of all that share fabric and profile; exchanges of experts apart."""

    def seconds(self, operation: str, group: Sequence[int], size_bytes: float, even: bool = False) -> float:
        """Seconds of a collective: the library's, or the engine's own where it is faster and the message small; of rows
        for experts with their load, or as if all devices had as many."""
        if operation in EXPERT_EXCHANGES:
            return cost(self._exchanged(operation, [group], size_bytes, even)).slowest / TICKS_PER_SECOND
        message = operation, self.stack.all_reduce, tuple(group), size_bytes
        if message not in self.known:
            self.known[message] = self._collective(operation, group, size_bytes)
        return self.known[message]

    def _collective(self, operation: str, group: Sequence[int], size_bytes: float) -> float:
        library = cost_of(operation, [group], size_bytes, self.fabric, self.profile).slowest / TICKS_PER_SECOND
        own = self._own(operation, group, size_bytes)
        return library if own is None else min(library, custom_seconds(size_bytes, tuple(group), self.fabric, own))

    def plan(self, operation: str, groups: Groups, size_bytes: float) -> Plan:
        """What a collective puts on links, of groups that lie alike."""
        if operation in EXPERT_EXCHANGES:
            return self._exchanged(operation, groups, size_bytes)
        own = self._own(operation, groups[0], size_bytes)
        if own is not None:
            library = cost_of(operation, groups[:1], size_bytes, self.fabric, self.profile).slowest / TICKS_PER_SECOND
            if custom_seconds(size_bytes, tuple(groups[0]), self.fabric, own) < library:
                read = shot_bytes(size_bytes, tuple(groups[0]), self.fabric, own)
                return plan("all_to_all", groups, read, self.fabric, self.profile, "direct")
        return plan(operation, groups, size_bytes, self.fabric, self.profile)

    def movements(self, operation: str, group: Sequence[int], size_bytes: float) -> tuple[Movement, ...]:
        """What a collective puts on links while its bytes move; phases that ask alike are one."""
        made = self.plan(operation, [group], size_bytes)
        steps, lasts = activities(made), max(duration(made), 1)
        own = self._own(operation, group, size_bytes)
        if own is not None and made.operation != operation:
            share = moving_share(size_bytes, tuple(group), self.fabric, own)
            return tuple(Movement(share, self._full(step.uses)) for step in steps)
        found: dict[tuple[Use, ...], float] = {}
        for step in steps:
            found[step.uses] = found.get(step.uses, 0.0) + step.work / lasts
        return tuple(Movement(share, uses) for uses, share in found.items() if share)

    def _exchanged(self, operation: str, groups: Groups, size_bytes: float, even: bool = False) -> Plan:
        """Sending rows to the devices of their experts, or back: `size_bytes` of the mean device."""
        assert self.exchange is not None
        profile, algorithm = self.exchange.library(self.profile)
        targets = self.exchange.targets(operation, size_bytes, even)
        return plan(operation, groups, size_bytes, self.fabric, profile, algorithm, targets)

    def _full(self, uses: tuple[Use, ...]) -> tuple[Use, ...]:
        """Uses in their proportion, as fast as the fullest link goes."""
        capacity = self.fabric.capacity / TICKS_PER_SECOND
        fullest = max(use.rate / float(capacity[use.resource]) for use in uses)
        return tuple(use._replace(rate=use.rate / fullest) for use in uses)

    def _own(self, operation: str, group: Sequence[int], size_bytes: float) -> CustomAllReduce | None:
        """The engine's kernels where they may run."""
        if operation != "all_reduce":
            return None
        return kernels_of(self.profile, self.stack.all_reduce, size_bytes, tuple(group), self.fabric)


def knot(size_bytes: float) -> float:
    """The power of two next to a size."""
    return float(2.0 ** round(log2(max(size_bytes, 1.0))))


@dataclass(frozen=True, slots=True)
class Sending:
    """A collective of a stage."""

    operation: str
    axis: str
    """Name of the axis of the mesh along which it communicates."""
    row_bytes: float
    """Bytes of a row, as nccl-tests count them."""
    runs: int
    """How often an iteration runs it."""
    sizes: Sizes
    """Seconds by bytes."""
    sampled: bool = False
    """Whether only rows that give a token are sent."""
    among: bool = False
    """Whether the replicas that share experts take part, and not the tensor-parallel group."""
    in_step: bool = False
    """Whether the rows are those of all replicas in step."""
    peers: int = 1
    """Times that the rows of the iteration are sent, where each replica is taken to have as many."""
    ranks: int = 0
    """Of the tensor-parallel group, the first so many alone; 0: all. What the others of it send beside them is left
    out of the load of links."""

    def group(self, place: ReplicaPlacement, stage: int, tp: int) -> tuple[int, ...]:
        """The ranks that run it on a stage of a replica with tensor-parallel groups of `tp`."""
        if self.operation in EXPERT_EXCHANGES:
            return place.everybody(stage, tp)
        group = place.sharers(stage, tp) if self.among else place.group(stage, tp)
        return group[: self.ranks] if self.ranks else group

    def size(self, rows: int) -> float:
        """Bytes for so many rows."""
        return rows * self.peers * self.row_bytes

    def call(self, rows: int) -> Call:
        """Its runs in an iteration of so many rows."""
        size = self.size(rows)
        comm = Comm(self.operation, self.axis, size, self.axis)
        return Call(comm, self.runs, to_ticks(self.runs * self.sizes.one(size)))
