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


def beside(chain: Chain, lowered: Lowered, rank: Ints) -> tuple[Mask, Mask]:
    """Rows of a lowered schedule that are passes which may run beside a data-parallel collective, and those of them
    that may beside one of equal chains; `rank` (n,)."""
    job = chain.job
    found = np.zeros((2, len(rank)), np.bool_)
    if chain.cut or job.offload is not None:
        found[:] = True
    elif job.per_pass:
        found[:] = job.shares and lowered.kind <= d.BACKWARD
    elif job.shares:
        passes = np.isin(lowered.kind, d.PASSES)
        for stage in range(job.pp):
            rows = np.flatnonzero((rank == stage) & passes)
            columns = (lowered.kind[rows], lowered.stage[rows], lowered.tape.duration[rows])
            found[:, rows] = _of_rank(chain, stage, *(column.astype(np.int64) for column in columns))
    return found[0], found[1]


def _of_rank(chain: Chain, rank: int, kind: Ints, stage: Ints, ticks: Ints) -> Mask:
    """Those of the passes of one rank, in order, both ways; shape (2, passes)."""
    job, equal = chain.job, np.zeros(len(kind), np.bool_)
    met = equal.copy()
    if job.gathers_ahead:
        first = [_first(stage, kind, chunk, (d.FORWARD,)) for chunk in chain.chunks(rank)]
        gathers = sum(_lasts(chain.costs.gather[chunk]) for chunk in chain.chunks(rank))
        equal[first] = True
        equal |= np.cumsum(ticks) - ticks < gathers
        met[: max(first) + 1] = chain.meets
    if job.overlap_gradients:
        reduced = _reduced(chain, rank, kind, stage)
        equal |= _under_way(reduced, ticks)
        started = np.flatnonzero(reduced)
        met[started[0] if len(started) else 0 :] |= chain.meets
    if job.copies > 1:  # the mirrored rank makes it wait among equal chains too
        equal |= met
    return np.stack([equal | met, equal])


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
