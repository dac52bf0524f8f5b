"""Which device holds which piece of a model's weights, and what must move from one layout to another.

A model is a rectangle: layers along one side, what tensor (and expert) parallelism cuts along the other; a device holds
a rectangle of it, several where its stages of layers do not touch. Every layer counts alike, embeddings lie over all.
Fully sharded data parallelism cuts the second side further. What a device lacks comes from one that has it: from its
own node where there is one, then from the one that has sent least (parameter reallocation of ReaLHF, arXiv:2406.14088,
moves each missing piece once from one of its holders).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple

from simulator.axes import CP, DP, PP
from simulator.parallel.mesh import Mesh
from simulator.serving.fleet.system import System
from simulator.training.job import Job

SHARDED = 3
"""Stage of ZeRO from which weights are cut over data parallelism."""
Interval = tuple[Fraction, Fraction]


class Piece(NamedTuple):
    """A rectangle of the model that a device holds."""

    device: int
    layers: Interval
    slices: Interval


class Transfer(NamedTuple):
    """Weights on their way."""

    source: int
    target: int
    share: Fraction
    """Of the whole model."""


def _part(number: int, of: int) -> Interval:
    return Fraction(number, of), Fraction(number + 1, of)


def of_training(job: Job, devices: Sequence[int]) -> list[Piece]:
    """Pieces of a training job whose rank r lies on `devices[r]`."""
    cut, pp, chunks = job.experts if job.model.experts is not None else job.mesh, job.pp, job.pp * job.vpp
    copied = () if job.zero == SHARDED else (DP.name, CP.name)
    axes = [axis for axis in cut.order if axis != PP.name and axis not in copied]
    parts = prod(cut.sizes[axis] for axis in axes)
    layers = [[_part(i % chunks, chunks) for i, home in enumerate(job.home) if home == rank] for rank in range(pp)]
    return [
        Piece(int(device), part, _part(_place(cut, rank, axes), parts))
        for rank, device in zip(range(cut.world), devices, strict=True)
        for part in layers[_place(cut, rank, [PP.name])]
    ]


def _place(mesh: Mesh, rank: int, axes: Sequence[str]) -> int:
    """Place of a rank along some axes, the first of the mesh's order fastest."""
    place, factor = 0, 1
    for axis in mesh.order:
        along, rank = rank % mesh.sizes[axis], rank // mesh.sizes[axis]
        if axis in axes:
            place, factor = place + along * factor, factor * mesh.sizes[axis]
    return place


def of_serving(systems: Sequence[System], layouts: Sequence[tuple[int, int, int]]) -> list[Piece]:
    """Pieces of a serving system; `layouts` (tp, pp, sharers) of each pool."""
    found = []
    for system, (tp, pp, sharers) in zip(systems, layouts, strict=True):
        for replica, placement in enumerate(system.placements):
            for stage in range(pp):
                for i, device in enumerate(placement.group(stage, tp)):
                    slices = _part((replica % sharers) * tp + i, sharers * tp)
                    found.append(Piece(device, _part(stage, pp), slices))
    return found


def missing(have: Sequence[Piece], want: Sequence[Piece], node_of: Callable[[int], int]) -> list[Transfer]:
    """What must move so that every device of `want` has its piece."""
    owners: dict[tuple[Interval, Interval], list[int]] = defaultdict(list)
    for piece in have:
        owners[piece.layers, piece.slices].append(piece.device)
    sent: dict[int, Fraction] = defaultdict(Fraction)
    found: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for piece in want:
        for (layers, slices), holders in owners.items():
            share = _overlap(layers, piece.layers) * _overlap(slices, piece.slices)
            if not share or piece.device in holders:
                continue
            here = node_of(piece.device)
            source = min(holders, key=lambda one: (node_of(one) != here, sent[one]))
            sent[source] += share
            found[source, piece.device] += share
    return [Transfer(source, target, share) for (source, target), share in found.items()]


def _overlap(a: Interval, b: Interval) -> Fraction:
    return max(min(a[1], b[1]) - max(a[0], b[0]), Fraction(0))
