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
from simulator.program.content import Comm
from simulator.program.piece import FREE, Piece, Takes
from simulator.training.communication import Priced
from simulator.training.job import Job
from simulator.training.overlap.stepped import STEPS

ENGINES = Occupied(memory=2.0)
"""What copy engines take that carry parts of rows from one device's memory to another's: asynchronous tensor
parallelism of PyTorch (torch/distributed/_symmetric_memory) and ring exchanges of Transformer Engine copy so."""
MOST = 0.9
"""Share of a device that one collective takes at most: kernels that run already keep the rest."""


def taken(job: Job, priced: Priced, device: Device, bulk: bool = False) -> Takes:
    """What a collective takes of a device: multiprocessors, and bandwidth of the memory beside kernels that it bounds.

    Of several groups, those that take the most. `bulk` ones have nothing to do with the product beside them.
    """
    if not priced.cost.slowest or not priced.cost.plan.choices:
        return FREE
    seconds = priced.cost.slowest / units.TICKS_PER_SECOND
    each = _each(job, priced, bulk)
    moved = max(sent * one.memory for sent, one in each)
    held = max(one.multiprocessors for _, one in each)
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


def _each(job: Job, priced: Priced, bulk: bool) -> list[tuple[float, Occupied]]:
    """Bytes that links carry for a device of each kind of group, and what that takes: what the library takes where it
    holds no multiprocessors, as engines of their own move all there."""
    own = _own(job, priced.comm, bulk) if priced.comm.axis == TP.name else None
    choices, members = priced.cost.plan.choices, priced.cost.plan.groups.shape[1]
    taken = ((choice, own if own and choice.occupied.multiprocessors else choice.occupied) for choice in choices)
    return [(choice.sent * priced.comm.size / members, occupied) for choice, occupied in taken]


def _own(job: Job, comm: Comm, bulk: bool) -> Occupied | None:
    """What a tensor-parallel collective takes that the library does not run."""
    if comm.operation == "shift" and job.beside_products == STEPS:
        return ENGINES
    if job.user_buffers is None:
        return None
    held = (job.user_buffers.bulk if bulk else {}).get(
        comm.operation, job.user_buffers.multiprocessors.get(comm.operation)
    )
    return None if held is None else Occupied(held.value, job.user_buffers.memory.value)
