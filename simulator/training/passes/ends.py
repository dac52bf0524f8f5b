"""What ends a step: tied embeddings, the optimizer, and gathers that nothing hides."""

import numpy as np

from simulator.axes import DP
from simulator.program import codes as d
from simulator.training.passes.chain import Chain
from simulator.training.passes.parameters import gather_after


def finish(chain: Chain) -> None:
    """Append what follows the passes and reductions of every rank."""
    _sum_tied_embedding(chain)
    for rank in range(chain.job.pp):
        _optimizer(chain, rank)
    job = chain.job
    if job.zero > 0 and not job.per_pass and not job.overlap_parameters and job.copied:
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


def _optimizer(chain: Chain, rank: int) -> None:
    """The optimizer of a rank, after all its reductions; where ranks of a shard set exchange, they meet in it."""
    builder, piece = chain.builder, chain.costs.optimizer[rank]
    content, turn = builder.pieces([piece]), len(chain.turns[rank])
    if any(call.comm.axis == DP.name for call in piece.content.calls):
        number = chain.serial(rank, ("optimizer", chain.holders(rank)), turn, content, kind=d.OPTIMIZER)
    else:
        number = builder.append(chain.lane(rank, "compute"), turn, content, kind=d.OPTIMIZER)
    builder.after(number, np.array(chain.reduced.get(rank, []), np.int64))
