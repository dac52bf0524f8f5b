"""What a run kept and moved beside the memory of its devices: ledgers, loads of links and drives, and what waited."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import Timeline
from simulator.program import codes as d
from simulator.results.link_rates import peak
from simulator.results.result import HostMemory, LinkLoad, Spans
from simulator.run.parts import CORES, OFFLOAD, by_axis
from simulator.specs.hardware import Node
from simulator.training.job import Job
from simulator.training.passes.offload import IN, OUT, READ, WRITE
from simulator.training.passes.program import Program
from simulator.training.tiers.host import HostRates
from simulator.training.tiers.ledger import fullest_node
from simulator.training.tiers.nodes import Nodes

Ints = NDArray[np.int64]

LINKS = {OUT: "host link up", IN: "host link down", READ: "NVMe read", WRITE: "NVMe write"}
"""Names of what lanes move over."""


def memory_of(job: Job, node: Node, tier: str) -> HostMemory | None:
    """The memory of the fullest host, or of its drives; None where nothing is kept there or its size is not known."""
    kept = fullest_node(job, tier, node.devices)
    size = node.host_memory if tier == "host" else None if node.nvme is None else node.nvme.capacity
    return None if not kept or size is None else HostMemory(size.value, sum(kept.values()), kept)


def loads(
    program: Program, nodes: Nodes | None, host: HostRates | None, step_s: float, spans: Spans
) -> tuple[LinkLoad, ...]:
    """The busiest link to a host and the busiest node's drives, each way."""
    if not program.moved or nodes is None or host is None:
        return ()
    pp = nodes.beside.shape[1]
    by_class: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for (chain, rank, lane, name), size in program.moved.items():
        by_class[lane][chain * pp + rank][name] = size
    found = []
    for lane, classes in by_class.items():
        for load in _of_lane(lane, classes, nodes, host, step_s):
            highest, at_peak = peak(spans, load)
            found.append(replace(load, peak=min(highest, load.capacity), at_peak=at_peak))
    return tuple(found)


def _of_lane(
    lane: str, classes: dict[int, dict[str, float]], nodes: Nodes, host: HostRates, step_s: float
) -> Iterator[LinkLoad]:
    """Loads of what a lane moves over: a device's own link, and what the devices of a node share."""
    links = sum(map(sum, nodes.devices))
    own = lane in (OUT, IN)
    if own:
        busiest = max(classes, key=lambda one: sum(classes[one].values()))
        yield _load(LINKS[lane], links, host.link, classes[busiest], (busiest,), step_s)
    shared = host.links if own else host.read if lane == READ else host.write
    if own and shared >= host.link * host.devices:
        return
    sums = []
    for devices in nodes.devices:
        node: dict[str, float] = defaultdict(float)
        for one, names in classes.items():
            for name, size in names.items():
                node[name] += devices[one] * size
        sums.append((sum(node.values()), dict(node), tuple(one for one in classes if devices[one])))
    _, most, users = max(sums, key=lambda one: one[0])
    yield _load(LINKS[lane] + (" of a node" if own else ""), len(sums), shared, most, users, step_s)


def _load(
    name: str, links: int, rate: float, moved: dict[str, float], users: tuple[int, ...], step_s: float
) -> LinkLoad:
    size = sum(moved.values())
    return LinkLoad(name, links, rate, size, size / (rate * step_s), moved, users)


# ---- waiting -----------------------------------------------------------------------------------------------------


class Waits:
    """What the gaps of a compute lane were spent on where something lives beside the device's memory."""

    def __init__(self, program: Program, timeline: Timeline) -> None:
        self.program, self.timeline = program, timeline
        self.lane = program.columns.lane
        self.first = program.tape.lane_start
        codes = program.columns.kind
        self.cores = np.isin(codes, d.ON_CORES)
        self.moves = np.isin(codes, d.TIER_CODES) & ~self.cores

    def traced(self, operation: int) -> bool:
        """Whether an operation is of the tiers, or one on the data lane, which may have waited for such."""
        return bool(self.cores[operation] or self.moves[operation]) or self._communicates(operation)

    def _communicates(self, operation: int) -> bool:
        return bool(self.program.contents[int(self.program.columns.content[operation])].communicates)

    def between(self, since: int, until: int, cause: int) -> dict[str, int]:
        """Ticks from `since` to `until` by what led to the end of the operation `cause`, back in time."""
        found: dict[str, int] = defaultdict(int)
        start, end = self.timeline.start, self.timeline.end
        while until > since and cause >= 0 and self.traced(cause):
            upper = max(min(int(end[cause]), until), since)
            lower = min(max(int(start[cause]), since), upper)
            found["bubble"] += until - upper
            for name, ticks in self._parts(cause, upper - lower).items():
                found[name] += ticks
            until = lower
            cause = self._before(cause)
        found["bubble"] += max(until - since, 0)
        return found

    def _parts(self, operation: int, ticks: int) -> dict[str, int]:
        if self.cores[operation]:
            return {CORES: ticks}
        if self.moves[operation]:
            return {OFFLOAD: ticks}
        content = self.program.contents[int(self.program.columns.content[operation])].whole
        return by_axis(content, ticks)

    def _before(self, operation: int) -> int:
        """Of what an operation comes after, its own lane included, what ended last; -1 where there is nothing."""
        tape = self.program.tape
        known = tape.after[tape.after_start[operation] : tape.after_start[operation + 1]].tolist()
        if operation > self.first[self.lane[operation]]:
            known.append(operation - 1)
        return max(known, key=lambda one: int(self.timeline.end[one]), default=-1)
