"""What operations consist of: the time of instructions by part of the step, from the contents that ran.

An instruction is kernels, recomputed kernels, exposed communication by axis and waiting for the host, for its launches
or its link; what it lasted longer than its contents take alone, because something ran beside it, is stall. What
communication alone lasted longer, because a peer was late, is communication too.
"""

import numpy as np
from numpy.typing import NDArray

from simulator.axes import AXES, DP, PP, TP
from simulator.engine.tape import Timeline
from simulator.program import codes as d
from simulator.program.content import Content
from simulator.program.lump import Lump
from simulator.training.passes.program import Program

Ints = NDArray[np.int64]

LAUNCHES, OFFLOAD = "host", "offload"
"""What passes wait for the host for: its launches, or activations on their way to its memory and back."""
CORES = "optimizer"
"""What is waited for while cores of the host update parameters."""
SLOWEST = "slowest"
"""Waiting for the slowest of devices that differ, where they do; what it takes longer than a mean device."""
STRAGGLER = "straggler"
"""Waiting for slower data-parallel peers, where there are such."""
PARTS = ("compute", "recompute", TP.exposed, LAUNCHES, OFFLOAD, "stall", PP.exposed, DP.exposed, "optimizer", "bubble")
"""What the time of a step is made of, in the order of the page; other axes that were exposed come after these."""

_AXES = {d.SEND_FORWARD: PP, d.SEND_BACKWARD: PP, d.GATHER: DP, d.REDUCE: DP, d.EMBEDDING: PP}
_AXES |= dict.fromkeys((d.BROADCAST, d.SUMS, d.SUMMED_GRADIENT), PP)
_NAMED = {d.KINDS[kind]: axis.name for kind, axis in _AXES.items()}


def axis_of(operation: str) -> str | None:
    """The mesh axis along which an operation communicates (`reduce gradients`, `all_reduce tp`); None for others."""
    last = operation.rpartition(" ")[2]
    return last if " " in operation and AXES.has(last) else _NAMED.get(operation)


def busy(program: Program, timeline: Timeline, operations: Ints | slice, slowest: float = 1.0) -> dict[str, int]:
    """Ticks of some operations by what they consist of; their sum is what they lasted.

    Arithmetic lasts `slowest` times as long as on a mean device, which waits for the difference.
    """
    ticks = dict.fromkeys((*PARTS, SLOWEST) if slowest > 1.0 else PARTS, 0)
    lasted = timeline.end[operations] - timeline.start[operations]
    content, kind = program.columns.content[operations], program.columns.kind[operations]
    order = np.argsort(content, kind="stable")
    numbers, first, counts = np.unique(content[order], return_index=True, return_counts=True)
    sums = np.add.reduceat(lasted[order], first) if len(order) else lasted
    for number, example, count, whole in zip(numbers.tolist(), first, counts.tolist(), sums.tolist(), strict=True):
        code = kind[order[example]]
        if code in d.TIER_CODES:
            ticks[CORES if code in d.ON_CORES else OFFLOAD] += whole
            continue
        name = "optimizer" if code == d.OPTIMIZER else "compute"
        _add(ticks, program.contents[number], count, whole, name)
        if slowest > 1.0:
            _wait(ticks, program.contents[number].whole.times(count), slowest, name)
    return ticks


def _wait(ticks: dict[str, int], whole: Content, slowest: float, name: str) -> None:
    """Take from the part `name` and from recomputation what a mean device only waits for."""
    arithmetic = max(whole.kernels - whole.memory - whole.latency, 0)
    waits = round(arithmetic * (1.0 - 1.0 / slowest))
    again = waits * whole.recompute // max(whole.kernels, 1)
    ticks["recompute"] -= again
    ticks[name] -= waits - again
    ticks[SLOWEST] += waits


def _add(ticks: dict[str, int], lump: Lump, count: int, lasted: int, name: str) -> None:
    """An instruction that ran `count` times and lasted so long in all; its kernels go to the part `name`."""
    if lump.communicates or not lump.ticks:
        for axis, share in by_axis(lump.whole, lasted).items():
            ticks[axis] = ticks.get(axis, 0) + share
        return
    whole = lump.whole.times(count)
    ticks[name] += whole.compute
    ticks["recompute"] += whole.recompute
    ticks[LAUNCHES] += whole.host
    ticks[OFFLOAD] += whole.offload
    for axis, share in by_axis(whole, whole.exposed).items():
        ticks[axis] = ticks.get(axis, 0) + share
    ticks["stall" if name == "compute" else name] += whole.stall + lasted - whole.total


def by_axis(content: Content, ticks: int) -> dict[str, int]:
    """Ticks by the axis that is exposed, in the proportions of the calls; they sum to `ticks`."""
    found: dict[str, int] = {}
    left, weight = ticks, content.exposed
    for call in content.calls:
        share = round(left * call.exposed / weight) if weight else 0
        left, weight = left - share, weight - call.exposed
        name = AXES.get(call.comm.axis).exposed
        found[name] = found.get(name, 0) + share
    if left:
        name = next(iter(found), "stall")
        found[name] = found.get(name, 0) + left
    return found
