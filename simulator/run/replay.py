"""Executions that others recorded, played on a cluster: measured times of operations, our times of communication.

An operation takes what was measured; where a trace has no time it takes max(FLOPs / peak, bytes / memory bandwidth) of
the cluster's device, as ASTRA-sim has it. A collective is priced on the cluster for its group, alone on the links;
ranks of which there are traces meet in it, the i-th of a group with the i-th of the others. A trace of one rank stands
for all.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from simulator import collectives, fabric, units
from simulator.engine.executor import execute
from simulator.engine.tape import Tape
from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.interop.executions.graph import Execution, Operation
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

Ints = NDArray[np.int64]
_LIKE = {"reduce": "reduce_scatter", "gather": "all_gather", "scatter": "broadcast"}
"""Collectives that have no price of their own, and that whose bytes are nearest."""
_PRECISION = ("bf16", "fp16", "fp32")


@dataclass(frozen=True, slots=True)
class Asked:
    """How to replay."""

    ranks: int | None = None
    """Ranks of every group that is all of them; as many as there are traces, or as a trace says, where left out."""
    network: float = 1.0
    """Bandwidth of all links over that of the cluster."""
    measured: bool = False
    """Whether communication takes what was measured, where a trace says so, over the factor of the network."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay."""

    makespan_s: float
    measured_s: float
    """As the traces have it, the longest of them; 0 where they have no times."""
    busy_s: Mapping[str, float]
    """Seconds of the first rank by what its operations do: `compute`, and each collective."""
    exposed_s: float
    """Seconds of the first rank in which it communicates and does nothing else."""
    times: tuple[tuple[tuple[float, float], ...], ...]
    """(begin, end) in seconds of each operation, by execution."""
    ranks: int
    operations: int
    notes: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class _Replay:
    executions: Sequence[Execution]
    cluster: Cluster
    asked: Asked
    fabric: Fabric = field(init=False)
    profile: CollectiveProfile = field(init=False)
    ranks: int = field(init=False)
    prices: dict[tuple[str, tuple[int, ...], float], float] = field(default_factory=dict)
    said: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.fabric = fabric.build(self.cluster)
        if self.asked.network != 1.0:
            fast = self.fabric.capacity * self.asked.network
            self.fabric = replace(self.fabric, capacity=fast, rated=fast)
        self.profile = load_spec(CollectiveProfile, self.cluster.collectives)
        named = [one.members or len(one.ranks) for e in self.executions for one in e.operations if one.collective]
        highest = max(execution.rank for execution in self.executions) + 1
        self.ranks = self.asked.ranks or max([len(self.executions), highest, *named])
        if self.ranks == 1 and named and self.asked.ranks is None:
            self.ranks = self.cluster.devices
            self.said[f"trace whose groups are not stated: all {self.ranks:,} devices of the cluster meet in them"] += 1
        if self.ranks > self.cluster.devices:
            message = f"{self.ranks:,} ranks do not fit onto {self.cluster.devices:,} devices"
            raise InputError(Problem(message, path="nodes", hint="write --nodes with more, or --ranks"))

    def seconds(self, one: Operation) -> float:
        """What an operation takes."""
        if not one.collective:
            return one.duration_s or self._work(one)
        if self.asked.measured and one.duration_s:
            return one.duration_s / self.asked.network
        if one.collective in ("send", "receive"):
            return self._price("send", (0, min(max(one.peer, 1), self.cluster.devices - 1)), one.size_bytes)
        if one.collective == "barrier" or not one.size_bytes:
            self.said[f"{one.collective} without a size: as measured"] += 1
            return one.duration_s
        operation = _LIKE.get(one.collective, one.collective)
        if operation != one.collective:
            self.said[f"{one.collective} priced as {operation}"] += 1
        return self._price(operation, self._group(one), one.size_bytes)

    def _group(self, one: Operation) -> tuple[int, ...]:
        """Devices of a collective: those of the ranks that the trace names, unless `ranks` says how many there are."""
        if self.asked.ranks is not None or not (one.ranks or one.members):
            return tuple(range(self.ranks))
        if one.ranks and max(one.ranks) < self.cluster.devices and len(set(one.ranks)) == len(one.ranks):
            return one.ranks
        return tuple(range(one.members or len(one.ranks)))

    def _price(self, operation: str, group: tuple[int, ...], size: float) -> float:
        if len(group) < 2:
            return 0.0
        key = operation, group, size
        if key not in self.prices:
            cost = collectives.cost_of(operation, [group], max(size, 1.0), self.fabric, self.profile)
            self.prices[key] = units.to_seconds(cost.slowest)
        return self.prices[key]

    def _work(self, one: Operation) -> float:
        device = self.cluster.node.accelerator
        peaks = {str(name): figure.value for name, figure in device.peak.items()}
        peak = next((peaks[name] for name in _PRECISION if name in peaks), max(peaks.values()))
        return max(one.flops / peak, one.moved_bytes / device.memory.bandwidth.value)

    def run(self) -> Replayed:
        lanes = [(e, lane) for e, one in enumerate(self.executions) for lane in _lanes(one)]
        place = {key: number for number, key in enumerate(lanes)}
        rows: list[list[tuple[int, int]]] = [[] for _ in lanes]
        for e, execution in enumerate(self.executions):
            for i, one in enumerate(execution.operations):
                rows[place[e, one.lane]].append((e, i))
        order = [key for row in rows for key in row]
        number = {key: n for n, key in enumerate(order)}
        by_id = [{one.id: i for i, one in enumerate(execution.operations)} for execution in self.executions]
        after = [
            sorted({number[e, by_id[e][before]] for before in self.executions[e].operations[i].after}) for e, i in order
        ]
        seconds = [self.seconds(self.executions[e].operations[i]) for e, i in order]
        delays = np.array([units.to_ticks(self.executions[e].operations[i].delay_s) for e, i in order], np.int64)
        duration = np.array([units.to_ticks(value) for value in seconds], np.int64)
        tape = Tape(
            lane_start=np.cumsum([0, *map(len, rows)]).astype(np.int64),
            duration=delays + duration,
            after_start=np.cumsum([0, *map(len, after)]).astype(np.int64),
            after=np.array([one for each in after for one in each], np.int64),
            rendezvous=self._meetings(order),
            activity=np.full(len(order), -1, np.int64),
            lane_names=tuple(f"rank {self.executions[e].rank}: {lane}" for e, lane in lanes),
        )
        timeline = execute(tape)
        begin, end = timeline.start + delays, timeline.end
        times = [[(0.0, 0.0)] * len(execution.operations) for execution in self.executions]
        for n, (e, i) in enumerate(order):
            times[e][i] = units.to_seconds(int(min(begin[n], end[n]))), units.to_seconds(int(end[n]))
        notes = [note for execution in self.executions for note in execution.notes]
        notes += [f"{count:,} x {text}" for text, count in sorted(self.said.items())]
        first = self.executions[0].operations
        return Replayed(
            units.to_seconds(timeline.makespan),
            max(execution.measured_s for execution in self.executions),
            _busy(first, times[0]),
            _exposed(first, times[0]),
            tuple(map(tuple, times)),
            self.ranks,
            len(order),
            tuple(dict.fromkeys(notes)),
        )

    def _meetings(self, order: Sequence[tuple[int, int]]) -> Ints:
        """Numbers of what ranks do together: collectives of one group in their order, messages by ends and tag."""
        found, known = np.full(len(order), -1, np.int64), dict[tuple[object, ...], int]()
        turn: dict[tuple[object, ...], int] = defaultdict(int)
        present = {execution.rank for execution in self.executions}
        for n, (e, i) in enumerate(order):
            execution, one = self.executions[e], self.executions[e].operations[i]
            if len(self.executions) < 2 or not one.collective:
                continue
            if one.collective in ("send", "receive"):
                if one.peer not in present:
                    continue
                ends = (execution.rank, one.peer) if one.collective == "send" else (one.peer, execution.rank)
                what: tuple[object, ...] = ("message", *ends, one.tag)
            else:
                what = (one.group, one.ranks, one.lane if not one.group else "")
            seen = (execution.rank, one.collective == "send", *what)
            key = (*what, turn[seen])
            turn[seen] += 1
            found[n] = known.setdefault(key, len(known))
        return found


def _lanes(execution: Execution) -> list[str]:
    return list(dict.fromkeys(one.lane for one in execution.operations))


def _busy(operations: Sequence[Operation], times: Sequence[tuple[float, float]]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for one, (begin, end) in zip(operations, times, strict=True):
        found[one.collective or "compute"] += end - begin
    return dict(found)


def _exposed(operations: Sequence[Operation], times: Sequence[tuple[float, float]]) -> float:
    """Length of what communication covers and computation does not."""
    edges = sorted(
        edge
        for one, (begin, end) in zip(operations, times, strict=True)
        if end > begin
        for edge in ((begin, 1, bool(one.collective)), (end, -1, bool(one.collective)))
    )
    working = sending = 0
    total = last = 0.0
    for moment, change, sends in edges:
        total += moment - last if sending and not working else 0.0
        sending, working = sending + change * sends, working + change * (not sends)
        last = moment
    return total


def replay(executions: Sequence[Execution], cluster: Cluster, asked: Asked | None = None) -> Replayed:
    """Play executions of different ranks on a cluster; InputError where they do not fit onto it or wait for ever."""
    ranks = [execution.rank for execution in executions]
    if twice := [rank for rank in ranks if ranks.count(rank) > 1]:
        hint = "name files as `trace.0.et`, `trace.1.et`"
        raise InputError(Problem(f"two traces are of rank {twice[0]}", hint=hint))
    return _Replay(executions, cluster, asked or Asked()).run()
