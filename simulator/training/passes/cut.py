"""Which passes of a schedule are cut: those beside which data-parallel collectives may run.

Collectives on the data lane of a rank take the share of the device that they need, so that they last what they last
alone; passes and sends last at least what they last alone. So a collective can only be under way in passes that begin,
at the earliest, before it ends at the latest. Where chains of different costs wait for each other in a collective,
it may run at any time: every pass that could meet one is cut.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.program import codes as d
from simulator.program.lowering import Lowered
from simulator.program.piece import Piece
from simulator.training.passes.chain import Chain

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def beside(chain: Chain, lowered: Lowered, rank: Ints) -> Mask:
    """Rows of a lowered schedule that are passes which may run beside a data-parallel collective; `rank` (n,)."""
    job = chain.job
    found = np.zeros(len(rank), np.bool_)
    if chain.cut:
        return ~found
    if not job.shares:
        return found
    if job.per_pass:
        return lowered.kind <= d.BACKWARD
    passes = np.isin(lowered.kind, d.PASSES)
    for stage in range(job.pp):
        rows = np.flatnonzero((rank == stage) & passes)
        columns = (lowered.kind[rows], lowered.stage[rows], lowered.tape.duration[rows])
        found[rows] = _of_rank(chain, stage, *(column.astype(np.int64) for column in columns))
    return found


def _of_rank(chain: Chain, rank: int, kind: Ints, stage: Ints, ticks: Ints) -> Mask:
    """Those of the passes of one rank, in order."""
    job, found = chain.job, np.zeros(len(kind), np.bool_)
    if job.overlap_parameters and job.zero > 0:
        first = [_first(stage, kind, chunk, (d.FORWARD,)) for chunk in chain.chunks(rank)]
        gathers = sum(_lasts(chain.costs.gather[chunk]) for chunk in chain.chunks(rank))
        found[first] = True
        found |= np.cumsum(ticks) - ticks < gathers
        found[: max(first) + 1] |= chain.group >= 0
    if job.overlap_gradients:
        reduced = _reduced(chain, rank, kind, stage)
        found |= _under_way(reduced, ticks)
        found[np.flatnonzero(reduced)[:1].sum() :] |= chain.group >= 0
    return found


def _reduced(chain: Chain, rank: int, kind: Ints, stage: Ints) -> Ints:
    """Ticks of the reductions that each pass of a rank starts."""
    found = np.zeros(len(kind), np.int64)
    for chunk in chain.chunks(rank):
        passes = np.flatnonzero((stage == chunk) & np.isin(kind, (d.BACKWARD, d.WEIGHT)))
        # ZeRO-2 reduces the gradients of every microbatch.
        found[passes if chain.job.zero == 2 else passes[-1:]] = max(_lasts(chain.costs.reduce[chunk]), 1)
    return found


def _under_way(started: Ints, ticks: Ints) -> Mask:
    """Passes during which collectives may run, of which each pass starts some (n,)."""
    found, left = np.zeros(len(ticks), np.bool_), 0
    for i, (more, lasts) in enumerate(zip(started.tolist(), ticks.tolist(), strict=True)):
        found[i] = left > 0 or more > 0
        left = left + more if more else max(left - lasts, 0)
    return found


def _lasts(pieces: Sequence[Piece]) -> int:
    return sum(piece.ticks for piece in pieces)


def _first(stage: Ints, kind: Ints, chunk: int, kinds: tuple[int, ...]) -> int:
    """The first pass of a chunk among some kinds."""
    return int(np.argmax((stage == chunk) & np.isin(kind, kinds)))
