"""What of activations travels when: an order of turns (a layer of a pass each) and what moves beside it.

Two buffers on the device hold what is on its way. A layer whose backward pass comes before two more layers have gone
out is still in one of them and does not travel (MEMO, arXiv:2407.12117, section 4: n - 2 of n layers; SSDTrain,
arXiv:2408.10013, forwards what is still in memory).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.program.actions import Kind
from simulator.training import memory
from simulator.training.job import Job
from simulator.training.tiers.split import BUFFERS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Turns(NamedTuple):
    """Layers of passes that a rank runs, in order; arrays (turns,)."""

    backward: NDArray[np.bool_]
    chunk: Ints
    layer: Ints
    """Position within the chunk, in forward order."""
    microbatch: Ints


class Moves(NamedTuple):
    """Activations that travel, in the order in which they leave; arrays (moves,)."""

    leaves: Ints
    """Turn after which they go."""
    returns: Ints
    """Turn before which they are back."""
    size: Floats
    """Bytes."""


def turns_of(job: Job, rank: int) -> Turns:
    """Layers of the passes of a rank."""
    schedule = job.schedule
    part = slice(int(schedule.rank_start[rank]), int(schedule.rank_start[rank + 1]))
    kind, chunk, microbatch = schedule.kind[part], schedule.stage[part], schedule.microbatch[part]
    passes = np.isin(kind, (int(Kind.F), int(Kind.B)))
    kind, chunk, microbatch = kind[passes], chunk[passes], microbatch[passes]
    pieces = np.array([max(one.layers, 1) for one in memory.all_chunks(job)])[chunk]
    row = np.repeat(np.arange(len(kind)), pieces)
    piece = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    backward = (kind == int(Kind.B))[row]
    layer = np.where(backward, pieces[row] - 1 - piece, piece)
    return Turns(backward, chunk[row].astype(np.int64), layer, microbatch[row].astype(np.int64))


def sizes_of(job: Job) -> list[Floats]:
    """Bytes of each layer of each chunk that wait elsewhere, of one microbatch; 0 where they stay."""
    found = []
    for chunk in memory.all_chunks(job):
        sizes = np.zeros(max(chunk.layers, 1))
        for i, kind in enumerate(chunk.kinds[: memory.layers_away(job, chunk)]):
            sizes[i] = memory.moved_of_layer(job, kind)
        found.append(sizes)
    return found


def moves_of(job: Job, rank: int, turns: Turns | None = None) -> Moves:
    """What a rank sends away and gets back in a step."""
    turns = turns_of(job, rank) if turns is None else turns
    sizes, back = sizes_of(job), dict[tuple[int, int, int], int]()
    keys = list(zip(turns.chunk.tolist(), turns.layer.tolist(), turns.microbatch.tolist(), strict=True))
    for turn in np.flatnonzero(turns.backward).tolist():
        back[keys[turn]] = turn
    out = [
        (turn, back[keys[turn]], float(sizes[keys[turn][0]][keys[turn][1]]))
        for turn in np.flatnonzero(~turns.backward).tolist()
        if keys[turn] in back and sizes[keys[turn][0]][keys[turn][1]] > 0
    ]
    forth = np.array([turn for turn, _, _ in out], np.int64)
    later = np.searchsorted(forth, [until for _, until, _ in out]) - np.arange(len(out)) - 1
    gone = [move for move, others in zip(out, later.tolist(), strict=True) if others >= BUFFERS]
    columns = np.array(gone, np.float64).reshape(-1, 3).T
    return Moves(columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2])


def most_away(moves: Moves) -> float:
    """Most bytes that are away at once: from when they leave until they are back."""
    when = np.concatenate([moves.returns, moves.leaves])
    change = np.concatenate([-moves.size, moves.size])
    order = np.argsort(when, kind="stable")
    return float(np.cumsum(change[order]).max(initial=0.0))
