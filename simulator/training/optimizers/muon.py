"""Muon: the momentum of each matrix of the layers, orthogonalised by Newton-Schulz iterations (arXiv:2502.16982).

With m rows and n >= m columns an iteration is X X^T, its square and a product with X: 4 m^2 n + 2 m^3 FLOP in bf16, one
matrix at a time. Vectors, the embedding and the head are Adam's. Matrices are those of the layers' products,
of which some are fused of several (`fused`); each expert's are its own.

ZeRO cuts matrices, and iterations need whole ones. `owners`: each matrix is of one rank, all its states too (Megatron's
layer-wise distributed optimizer, arXiv:2502.16982's whole matrices); under ZeRO-1 gradients are then summed to all, as
every rank keeps them whole, and parameters are gathered as after Adam. `exchanged`: shards of the momentum travel to
one rank of the set by an all-to-all, and the updates back. `gathered`: all ranks get everything in 16 bits and do the
same work. Beside tensor parallelism a rank takes its own block (`blockwise`), or the whole matrix after a gather
(`duplicated`), or its part of X with X X^T summed in every iteration (`distributed`).

Left out: that addends of products are read once more, symmetric products that compute half, memory of one matrix in
work, the overlap of exchanges with iterations, unequal shards on the wire.
"""

import heapq
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import ClassVar

from simulator.axes import DP
from simulator.cost.work import Gemm, Stream
from simulator.errors import InputError, Problem
from simulator.model.ops import COLUMN, ROW
from simulator.specs.training import Optimizer
from simulator.training.job import Job
from simulator.training.optimizers.base import FORMATS, OPTIMIZERS, Matrices, Share, UpdateRule
from simulator.training.optimizers.elementwise import ADAM
from simulator.training.step import Collective, Kernel, Step, shard_sets

WORK = 2.0
"""Bytes of an element while a matrix is worked on: bf16."""
OWNERS, EXCHANGED, GATHERED = "owners", "exchanged", "gathered"
DUPLICATED, DISTRIBUTED = "duplicated", "distributed"


class Muon(UpdateRule):
    """Momentum of matrices, orthogonalised; Adam for everything else."""

    options: ClassVar[frozenset[str]] = UpdateRule.options | {"iterations", "fused", "whole", "tensor"}
    by_matrix: ClassVar[bool] = True

    def check(self, options: Optimizer, zero: int, per_pass: bool) -> None:
        """Refuse owners of matrices of which every rank keeps a part."""
        if options.whole == OWNERS and per_pass:
            message = f"`whole: owners` keeps each matrix on one rank, and ZeRO-{zero} here cuts every parameter"
            hint = "write `exchanged` or `gathered`, or `parallel.zero: 1`"
            raise InputError(Problem(message, path="training.optimizer.whole", hint=hint))

    def states(self, job: Job, share: Share) -> float:
        """The momentum of matrices, Adam's two moments of the others, and the stack's copy."""
        size, matrices = FORMATS[job.optimizer.moments or "fp32"], sum(one.elements for one in share.matrices)
        own = max(sum(one.elements for one in owned) for owned in owners(job, share))
        return own * (size + job.master) + ADAM.states(job, share._replace(elements=share.elements - matrices))

    def steps(self, job: Job, shares: Sequence[Share]) -> Iterator[Step]:
        """The slowest rank of each shard set."""
        for share in shares:
            yield from _update(job, share)


def owners(job: Job, share: Share) -> tuple[tuple[Matrices, ...], ...]:
    """Of which matrices each rank of a shard set has the states: whole ones, or one part of all."""
    if share.shards == 1 or job.optimizer.whole == OWNERS:
        return dealt(share.matrices, share.shards)
    part = sum(one.elements for one in share.matrices) / share.shards
    return ((Matrices(1, round(part), 1),),)


@lru_cache(maxsize=256)
def dealt(matrices: tuple[Matrices, ...], ranks: int) -> tuple[tuple[Matrices, ...], ...]:
    """Whole matrices dealt to ranks: as many of each shape as divide evenly, then one by one, largest first, to the
    rank with fewest elements so far."""
    each = [[one.number // ranks for one in matrices] for _ in range(ranks)]
    least = [(0, rank) for rank in range(ranks)]
    for i in sorted(range(len(matrices)), key=lambda i: -matrices[i].inputs * matrices[i].outputs):
        for _ in range(matrices[i].number % ranks):
            load, rank = heapq.heappop(least)
            each[rank][i] += 1
            heapq.heappush(least, (load + matrices[i].inputs * matrices[i].outputs, rank))
    pairs = [zip(matrices, counts, strict=True) for counts in each]
    return tuple(tuple(one._replace(number=n) for one, n in pair if n) for pair in pairs)


def sides(job: Job, matrix: Matrices) -> tuple[int, int]:
    """(rows, columns) of X as a rank works on it: the shorter side first, or the side that is not cut."""
    rows, columns = matrix.inputs, matrix.outputs
    if matrix.ways > 1 and job.optimizer.tensor == DISTRIBUTED:
        return (rows, columns) if matrix.cut == COLUMN else (columns, rows)
    if matrix.ways > 1 and job.optimizer.tensor == DUPLICATED:
        rows, columns = rows * _times(matrix, ROW), columns * _times(matrix, COLUMN)
    return min(rows, columns), max(rows, columns)


def _times(matrix: Matrices, side: str) -> int:
    return matrix.ways if matrix.cut == side else 1


def products(rows: int, columns: int) -> tuple[Gemm, Gemm, Gemm]:
    """The products of one iteration."""
    return Gemm(rows, rows, columns), Gemm(rows, rows, rows), Gemm(rows, columns, rows)


def orthogonalised(job: Job, matrix: Matrices) -> Iterator[Step]:
    """Newton-Schulz iterations on matrices of one shape, one after the other."""
    rows, columns = sides(job, matrix)
    mode = job.optimizer.tensor if matrix.ways > 1 else ""
    if mode == DUPLICATED:
        yield Collective("whole matrices", "all_gather", WORK * matrix.elements * matrix.ways, matrix.axis)
    size, iterations = WORK * rows * columns, job.optimizer.iterations
    yield Kernel("norm of a matrix", Stream(2 * size, size, kernels=2), times=matrix.number)
    gram, *others = products(rows, columns)
    yield Kernel("newton-schulz", gram, times=iterations * matrix.number)
    if mode == DISTRIBUTED:
        summed = Collective("sum of products", "all_reduce", WORK * rows * rows, matrix.axis)
        yield from (summed,) * (iterations * matrix.number)
    for product in others:
        yield Kernel("newton-schulz", product, times=iterations * matrix.number)


def _update(job: Job, share: Share) -> Iterator[Step]:
    """The update of one shard set, on the rank that has most to multiply."""
    whole, spread = sum(one.elements for one in share.matrices), share.shards > 1
    mine, how = share.matrices, job.optimizer.whole if spread else None
    if how in (OWNERS, EXCHANGED):
        mine = max(dealt(share.matrices, share.shards), key=lambda owned: _flops(job, owned))
    part = sum(one.elements for one in mine) if how in (None, OWNERS) else whole / share.shards
    size = FORMATS[job.optimizer.moments or "fp32"]
    yield ADAM.pass_over(job, (share.elements - whole) / share.shards)
    yield Kernel("momentum", Stream(part * (job.gradient_bytes + size), part * (size + WORK), kernels=2))
    if how == GATHERED:
        yield _over_shards(share, "all_gather", WORK * whole)
    if how == EXCHANGED:
        yield _over_shards(share, "all_to_all", WORK * whole / share.shards)
    for matrix in mine:
        yield from orthogonalised(job, matrix)
    if how == EXCHANGED:
        yield _over_shards(share, "all_to_all", WORK * whole / share.shards)
    read, written = WORK + (job.master or job.stored), job.master + job.stored
    yield Kernel("update", Stream(part * read, part * written, kernels=2))


def _over_shards(share: Share, operation: str, size: float) -> Collective:
    return Collective(f"{operation} of matrices", operation, size, DP.name, among=shard_sets(share.copies.experts))


def _flops(job: Job, matrices: Sequence[Matrices]) -> float:
    """FLOP of one iteration on each of some matrices."""
    return sum(one.number * product.flops for one in matrices for product in products(*sides(job, one)))


OPTIMIZERS.add("muon")(Muon())
