"""Gathers of sharded parameters: around every pass, ahead of the first passes, or after the optimizer."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.program import codes as d
from simulator.program.piece import Piece, series
from simulator.training.passes.chain import BEGIN, Chain

Ints = NDArray[np.int64]


def gather_parameters(chain: Chain) -> None:
    """Append the gathers that run beside passes."""
    job = chain.job
    if not job.copied:
        return
    for rank in range(job.pp):
        if job.per_pass:
            _around_passes(chain, rank)
        elif job.gathers_ahead:
            turns = chain.turns[rank]
            for chunk in sorted(chain.chunks(rank), key=lambda one: int(turns.of(one, d.FORWARD)[0])):
                _ahead(chain, rank, chunk)


def _around_passes(chain: Chain, rank: int) -> None:
    """Gather each piece before its use, two ahead; a synchronous stack when all before it is done.

    Under ZeRO-2 what the forward pass gathered serves the backward pass too.
    """
    job, builder, turns = chain.job, chain.builder, chain.turns[rank]
    turn = np.flatnonzero(turns.kind == d.FORWARD) if job.zero == 2 else np.arange(len(turns))
    stage, backward = turns.stage[turn], turns.kind[turn] == d.BACKWARD
    count = np.array([len(pieces) for pieces in chain.costs.gather])[stage]
    layer = np.where(backward, count - 1 - turns.piece[turn], turns.piece[turn])
    forward, again = _numbers(chain, chain.costs.gather), _numbers(chain, _regathered(chain))
    content = np.where(backward, again[stage, layer], forward[stage, layer])
    microbatch = turns.microbatch[turn]
    gathers = chain.beside(
        rank, ("around",), turn, content, kind=d.GATHER, stage=stage, microbatch=microbatch, piece=layer
    )
    builder.after(turns.entry[turn], gathers)
    if len(turn) == len(turns):
        chain.gathered[rank] = gathers
    ahead = 1 if job.synchronous else 2
    later = turn >= ahead
    builder.after(gathers[later], turns.exit[turn[later] - ahead])


def _numbers(chain: Chain, lists: Sequence[Sequence[Piece]]) -> Ints:
    """Numbers of the contents of each piece of each chunk; shape (chunks, most pieces), -1 beyond the last."""
    found = np.full((len(lists), max(map(len, lists))), -1, np.int64)
    for chunk, pieces in enumerate(lists):
        found[chunk, : len(pieces)] = chain.builder.pieces(pieces)
    return found


def _regathered(chain: Chain) -> Sequence[Sequence[Piece]]:
    """Gathers ahead of backward passes, those of recomputation included."""
    near = chain.costs.backward_gather
    own, again = near if any(near) else chain.costs.gather, chain.costs.regather
    if not any(again):
        return own
    return [[series(both) for both in zip(*pieces, strict=True)] for pieces in zip(own, again, strict=True)]


def _ahead(chain: Chain, rank: int, chunk: int) -> None:
    """ZeRO-1 and -2: what the optimizer left in shards is gathered from the start of the step on, piece by piece."""
    turns = chain.turns[rank]
    pieces = turns.whole(turns.of(chunk, d.FORWARD), 0)
    content = chain.builder.pieces(chain.costs.gather[chunk])
    starts = np.flatnonzero(chain.builder.ticks(content))
    gathers = chain.beside(
        rank,
        ("ahead", chain.layers(chunk)),
        np.full(len(starts), BEGIN),
        content[starts],
        kind=d.GATHER,
        stage=chunk,
        piece=starts,
    )
    chain.builder.after(turns.entry[pieces[starts]], gathers)


def gather_after(chain: Chain, rank: int) -> None:
    """ZeRO-1 and -2 without overlap: a gather of all of a rank after its optimizer."""
    pieces = [piece for chunk in chain.chunks(rank) for piece in chain.costs.gather[chunk]]
    content = np.array([chain.builder.content(pieces)])
    chain.serial(rank, ("after", chain.holders(rank)), len(chain.turns[rank]), content, kind=d.GATHER)
