"""What ends a step: tied embeddings, the optimizer, and gathers that nothing hides."""

import numpy as np
from numpy.typing import NDArray

from simulator.axes import DP
from simulator.program import codes as d
from simulator.training.passes.chain import Chain
from simulator.training.passes.offload import Tiers, update_elsewhere
from simulator.training.passes.parameters import gather_after

Ints = NDArray[np.int64]


def finish(chain: Chain, tiers: Tiers | None = None) -> None:
    """Append what follows the passes and reductions of every rank; `tiers` where states live beside the devices."""
    _sum_tied_embedding(chain)
    for rank in range(chain.job.pp):
        if chain.job.optimizer.in_backward:
            _in_backward(chain, rank)
        updated = _optimizer(chain, rank)
        if tiers is not None:
            update_elsewhere(chain, rank, tiers, updated)
        if chain.job.optimizer.layerwise:
            _layer_by_layer(chain, rank)
    job = chain.job
    if job.zero > 0 and not (job.per_pass or job.gathers_ahead or job.optimizer.layerwise) and job.copied:
        for rank in range(job.pp):
            gather_after(chain, rank)


def _sum_tied_embedding(chain: Chain) -> None:
    """First and last stage meet to sum the gradients of the embedding that both hold."""
    if not chain.costs.embedding:
        return
    builder, meeting = chain.builder, chain.builder.meetings(("embedding", chain.number), 1)
    for rank, piece in zip((chain.job.home[0], chain.job.home[-1]), chain.costs.embedding, strict=True):
        lane, turn, content = chain.lane(rank, "compute"), len(chain.turns[rank]), builder.pieces([piece])
        number = builder.append(lane, turn, content, kind=d.EMBEDDING, meeting=meeting)
        builder.after(number, np.array(chain.reduced.get(rank, []), np.int64))


def _in_backward(chain: Chain, rank: int) -> None:
    """The update of each piece after its backward pass, or after its reduction beside the next piece; of a pass that is
    not cut after all of it."""
    builder, turns = chain.builder, chain.turns[rank]
    turn = np.flatnonzero(turns.kind == d.BACKWARD)
    pieces = [piece for chunk in reversed(chain.chunks(rank)) for piece in chain.costs.updates[chunk]]
    cut = len(turn) == len(pieces)
    content = builder.pieces(pieces) if cut else np.array([builder.content(pieces)])
    later = (turn if cut else turn[-1:]) + (chain.job.copied and not chain.job.synchronous)
    numbers = _updates(chain, rank, later, content)
    waits = chain.around.get(rank, turns.exit[turn])
    builder.after(numbers, waits if cut else waits[-1])


def _layer_by_layer(chain: Chain, rank: int) -> None:
    """Updates of the layers in forward order, and of each the gather of its parameters beside the updates of the
    next."""
    builder, turn = chain.builder, len(chain.turns[rank])
    for chunk in chain.chunks(rank):
        content = builder.pieces(chain.costs.updates[chunk][::-1])
        numbers = _updates(chain, rank, np.full(len(content), turn), content)
        sent = builder.pieces(chain.costs.gather[chunk])
        starts = np.flatnonzero(builder.ticks(sent))
        name, at = ("layer by layer", chain.layers(chunk)), np.full(len(starts), turn)
        gathers = chain.beside(rank, name, at, sent[starts], kind=d.GATHER, stage=chunk, piece=starts)
        builder.after(gathers, numbers[starts])


def _updates(chain: Chain, rank: int, turn: Ints, content: Ints) -> Ints:
    """Updates of layers, whose kernels work with what collectives beside them leave of the device."""
    activity: Ints | int = -1
    if chain.devices:
        activity = chain.each(rank, content, chain.kernels)
    return chain.builder.append(chain.lane(rank, "compute"), turn, content, kind=d.OPTIMIZER, activity=activity)


def _optimizer(chain: Chain, rank: int) -> Ints:
    """The optimizer of a rank, after all its reductions; where ranks of a shard set exchange, they meet in it. Returns
    its operation."""
    builder, piece = chain.builder, chain.costs.optimizer[rank]
    content, turn = builder.pieces([piece]), len(chain.turns[rank])
    if any(call.comm.axis == DP.name for call in piece.content.calls):
        number = chain.serial(rank, ("optimizer", chain.holders(rank)), turn, content, kind=d.OPTIMIZER)
    else:
        number = builder.append(chain.lane(rank, "compute"), turn, content, kind=d.OPTIMIZER)
    builder.after(number, np.array(chain.reduced.get(rank, []), np.int64))
    return number
