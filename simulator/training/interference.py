"""What a collective takes from the kernels beside it: multiprocessors of its channels, and bandwidth of the memory.

A channel is a block of threads, which holds a multiprocessor from launch to end. Bytes that the memory reads and writes
for the collective are spread over the time that it lasts alone, and count against what passes over memory reach. A
memory serves requests as they come: beside a kernel that alone would take all of it, a collective that asks for the
share h gets h / (1 + h), and both are slower by 1 + h.
"""

from collections.abc import Iterable, Sequence

from simulator import units
from simulator.axes import TP
from simulator.collectives import Occupied
from simulator.cost import Device
from simulator.program.piece import FREE, Piece, Takes
from simulator.training.communication import Priced
from simulator.training.job import Job

MOST = 0.9
"""Share of a device that one collective takes at most: kernels that run already keep the rest."""


def taken(job: Job, priced: Priced, device: Device) -> Takes:
    """What a collective takes of a device: multiprocessors, and bandwidth of the memory beside kernels that it bounds.

    Of several groups, those that take the most.
    """
    if not priced.cost.slowest or not priced.cost.plan.choices:
        return FREE
    seconds = priced.cost.slowest / units.TICKS_PER_SECOND
    moved = max(sent * one.memory for sent, one in _each(job, priced))
    held = max(one.multiprocessors for _, one in _each(job, priced))
    asked = moved / (seconds * device.stream.bandwidth * device.stream.efficiency)
    return Takes(min(held / device.cores, MOST), asked / (1.0 + asked))


def slowed(takes: Takes, bound: float) -> float:
    """How much longer a collective lasts beside kernels of which the memory bounds a share `bound` of the time: it is
    then as slow as they are."""
    return 1.0 / (1.0 - bound * takes.memory)


def memory_bound(passes: Iterable[Sequence[Piece]]) -> float:
    """Share of the time of the kernels of some passes in which the memory bounds them."""
    kernels = memory = 0
    for piece in (piece for pieces in passes for piece in pieces):
        kernels, memory = kernels + piece.content.kernels, memory + piece.content.memory
    return memory / kernels if kernels else 0.0


def _each(job: Job, priced: Priced) -> list[tuple[float, Occupied]]:
    """Bytes that links carry for a device of each kind of group, and what that takes."""
    buffers = job.stack.user_buffers if priced.comm.axis == TP.name and job.stack.overlap_tensor == "all" else None
    own = None
    if buffers and priced.comm.operation in buffers.multiprocessors:
        own = Occupied(buffers.multiprocessors[priced.comm.operation].value, buffers.memory.value)
    members = priced.cost.plan.groups.shape[1]
    return [(choice.sent * priced.comm.size / members, own or choice.occupied) for choice in priced.cost.plan.choices]
