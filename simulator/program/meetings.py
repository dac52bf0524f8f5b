"""What ranks do together where each holds a part of the vocabulary: broadcasts and sums around the passes S and T.

The output of the last stage goes to all ranks (C0), which work out the scores of their parts (S) and sum their maxima
and sums (C1). Then each has gradients (T). The last stage goes back when the gradients of its output are summed: after
T (C2) where its rank runs T first, else with C1, as S has worked them out too. Each of C0, C1, C2 has a lane on every
rank, on which microbatches follow each other in the order of the ranks' S.

Source: arXiv:2411.05288, algorithms 1 (sums twice) and 2 (sums once).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.program.actions import BARRIERS, Kind
from simulator.program.schedule import Schedule

Ints = NDArray[np.int64]
LANES = ("vocabulary input", "vocabulary sums", "vocabulary gradients")
"""Of a device, for C0, C1 and C2."""


@dataclass(frozen=True, slots=True)
class Meetings:
    """Operations 0 .. k - 1, lane after lane, ranks within kinds; edges count instructions first, then these."""

    kind: NDArray[np.int8]
    stage: NDArray[np.int32]
    microbatch: NDArray[np.int32]
    meeting: Ints
    """Those that start and end together; -1 where there is one rank. Shape (k,)."""
    later: Ints
    earlier: Ints
    """Shapes (edges,)."""
    a_lane: int
    """Operations of each lane."""


def meetings(rows: Schedule) -> Meetings | None:
    """What ranks do together around the vocabulary's passes; None where there are none."""
    sums = rows.vocabulary_sums
    if not sums:
        return None
    scores, gradients = (_by_rank(rows, kind) for kind in (Kind.S, Kind.T))
    microbatch = rows.microbatch[scores]
    ranks, many = scores.shape
    gradients = np.take_along_axis(gradients, _places(rows.microbatch[gradients], microbatch), axis=1)
    number = len(rows) + np.arange((1 + sums) * ranks * many).reshape(1 + sums, ranks, many)
    made, back, home = rows.find([Kind.F]), rows.find([Kind.B, Kind.I]), rows.rank_of_stage()
    last = rows.depth - 1
    order = microbatch[home[last]]
    edges = [(number[0, home[last]], made[last, order]), (scores, number[0]), (number[1], scores)]
    edges.append((gradients, number[1]))
    edges += [(number[2], gradients)] if sums == 2 else []
    edges.append((back[last, order], number[sums, home[last]]))
    later, earlier = (np.concatenate([edge[side].ravel() for edge in edges]) for side in (0, 1))
    met = np.arange(1 + sums)[:, None, None] * rows.microbatches + microbatch
    return Meetings(
        np.repeat(np.array(BARRIERS[: 1 + sums], np.int8), ranks * many),
        np.tile(rows.stage[scores].ravel(), 1 + sums),
        np.tile(microbatch.ravel(), 1 + sums),
        met.ravel() if ranks > 1 else np.full(number.size, -1),
        later,
        earlier,
        many,
    )


def _by_rank(rows: Schedule, kind: Kind) -> Ints:
    """The passes of a kind of each rank in order; shape (ranks, microbatches)."""
    return np.flatnonzero(rows.kind == kind).reshape(rows.ranks, -1)


def _places(there: NDArray[np.int32], wanted: NDArray[np.int32]) -> Ints:
    """Where each row of `there` has the numbers of `wanted`, both of the same numbers."""
    place = np.empty(there.shape, np.int64)
    np.put_along_axis(place, there.astype(np.int64), np.broadcast_to(np.arange(there.shape[1]), there.shape), axis=1)
    return np.take_along_axis(place, wanted.astype(np.int64), axis=1)
