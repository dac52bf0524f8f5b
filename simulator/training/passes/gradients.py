"""Reductions of gradients: around every pass, beside the last backward pass of a chunk, or after all passes."""

import numpy as np
from numpy.typing import NDArray

from simulator.program import codes as d
from simulator.training.passes.chain import Chain

Ints = NDArray[np.int64]


def reduce_gradients(chain: Chain) -> None:
    """Append all reductions over the data-parallel replicas."""
    job = chain.job
    if not job.copied or job.zeroth is not None:
        return
    for rank in range(job.pp):
        if job.per_pass:
            _around_passes(chain, rank)
            continue
        if job.zero == 2:
            for chunk in chain.chunks(rank):
                _earlier(chain, rank, chunk)
        if not job.overlap_gradients:
            _at_the_end(chain, rank)
            continue
        for chunk in reversed(chain.chunks(rank)):
            _beside_the_last(chain, rank, chunk)


def _reduce(
    chain: Chain, rank: int, name: tuple[object, ...], turn: Ints, content: Ints, **columns: Ints | int
) -> Ints:
    """Reductions on the data lane, in the order of their turns; the optimizer waits for the last of them."""
    reductions = chain.beside(rank, name, turn, content, kind=d.REDUCE, **columns)
    chain.reduced.setdefault(rank, []).append(int(reductions[-1]))
    return reductions


def _around_passes(chain: Chain, rank: int) -> None:
    """Reduce the gradients of each piece after its backward pass, while the next piece's parameters are there already;
    a synchronous stack goes on when they are reduced."""
    turns = chain.turns[rank]
    turn = np.flatnonzero(turns.kind == d.BACKWARD)
    stage, piece = turns.stage[turn], turns.piece[turn]
    numbers = [chain.builder.pieces(pieces) for pieces in chain.costs.reduce]
    content = np.array([numbers[s][p] for s, p in zip(stage.tolist(), piece.tolist(), strict=True)])
    columns: dict[str, Ints | int] = {"stage": stage, "microbatch": turns.microbatch[turn], "piece": piece}
    later = turn if chain.job.synchronous else turn + 1
    chain.around[rank] = _reduce(chain, rank, ("around it",), later, content, **columns)
    chain.builder.after(chain.around[rank], turns.exit[turn])


def _earlier(chain: Chain, rank: int, chunk: int) -> None:
    """ZeRO-2 keeps no whole gradients: those of every microbatch before the last are reduced after its pass."""
    builder, turns = chain.builder, chain.turns[rank]
    content = builder.content(chain.costs.reduce[chunk])
    passes = turns.of(chunk, d.BACKWARD, d.WEIGHT)
    turn = np.setdiff1d(turns.ends(passes), turns.whole(passes, -1))
    if not len(turn) or not builder.contents[content].ticks:
        return
    each = np.full(len(turn), content)
    columns: dict[str, Ints | int] = {"stage": chunk, "microbatch": turns.microbatch[turn]}
    if chain.job.overlap_gradients:
        builder.after(_reduce(chain, rank, ("earlier", chain.layers(chunk)), turn, each, **columns), turns.exit[turn])
        return
    chain.serial(rank, ("earlier", rank, chunk), turn, each, kind=d.REDUCE, **columns)


def _beside_the_last(chain: Chain, rank: int, chunk: int) -> None:
    """A reduction a bucket, beside the last backward pass of the chunk."""
    turns, content = chain.turns[rank], chain.builder.pieces(chain.costs.reduce[chunk])
    turn = turns.whole(turns.of(chunk, d.BACKWARD, d.WEIGHT), -1)
    ends = np.flatnonzero(chain.builder.ticks(content))
    if len(ends):
        reductions = _reduce(
            chain, rank, ("last", chain.layers(chunk)), turn[ends], content[ends], stage=chunk, piece=ends
        )
        chain.builder.after(reductions, turns.exit[turn[ends]])
        chain.sums.setdefault(rank, []).extend(zip(turn[ends].tolist(), reductions.tolist(), strict=True))


def _at_the_end(chain: Chain, rank: int) -> None:
    """One reduction of all of a rank, when its passes are done."""
    pieces = [piece for chunk in chain.chunks(rank) for piece in chain.costs.reduce[chunk]]
    content = np.array([chain.builder.content(pieces)])
    at = len(chain.turns[rank])
    number = chain.serial(rank, ("end", chain.holders(rank)), at, content, kind=d.REDUCE)
    chain.sums[rank] = [(at, int(number[0]))]
