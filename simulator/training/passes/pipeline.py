"""Passes and sends of every rank, in the order of the schedule.

A pass is one instruction where nothing can run beside it; where parameters or gradients travel beside it, it is cut
into pieces, and these into parts on lanes, whose kernels share the multiprocessors with the collectives.
"""

import numpy as np
from numpy.typing import NDArray

from simulator.program import codes as d
from simulator.program.content import Content
from simulator.program.lowering import Lowered, lower
from simulator.program.meetings import LANES
from simulator.program.piece import Piece, single
from simulator.training.overlap.partners import without_partner
from simulator.training.pass_costs import ChunkPasses
from simulator.training.passes.chain import Chain, Turns
from simulator.training.passes.cut import beside

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Placed:
    """A lowered schedule and the operations that stand for its rows."""

    def __init__(self, chain: Chain, lowered: Lowered, alone: Mask | None) -> None:
        """Nothing is appended yet; `alone` by stage, kind and microbatch, None for no pass."""
        tape = lowered.tape
        counts = np.diff(tape.lane_start)
        self.lowered = lowered
        self.lane: Ints = np.repeat(np.arange(len(counts)), counts)
        self.rank: Ints = lowered.lane_rank[self.lane]
        self.passes: Mask = np.isin(lowered.kind, d.PASSES)
        self.alone: Ints = np.zeros(len(tape), np.int64)
        """1 for passes that no other pass runs beside though others have one."""
        if alone is not None:
            rows = np.flatnonzero(self.passes)
            self.alone[rows] = alone[lowered.stage[rows], lowered.kind[rows], lowered.microbatch[rows]]
        cut, equal = beside(chain, lowered, self.rank)
        self.cut = self.passes & cut
        """Which passes run in pieces."""
        self.apart: Ints = (~equal).astype(np.int64)
        """Which of these would not if all chains were equal."""
        self.size: Ints = chain.costs.sizes[lowered.microbatch]
        """Of the microbatch of each row."""
        lengths = np.array([[len(pieces) for pieces in chunk] for chunk in chain.costs.passes[0]])
        pieces = np.where(self.passes, 1, 0)
        pieces[self.cut] = lengths[lowered.stage[self.cut], lowered.kind[self.cut]]
        before = np.cumsum(pieces) - pieces
        self.turn: Ints = before - before[tape.lane_start[:-1]][self.lane] - ~self.passes
        """The first turn of a pass, the last one of the pass that a blocking send follows."""
        self.entry, self.exit = np.full((2, len(tape)), -1, np.int64)
        """First and last operation of each row."""


def pipeline(chain: Chain) -> Placed:
    """Append all passes; sends follow with `sends`."""
    job, builder, costs = chain.job, chain.builder, chain.costs
    whole = np.array(
        [
            [[[builder.content(p) for p in chunk] for chunk in passes] for passes in ways]
            for ways in (costs.passes, costs.alone)
        ]
    )
    alone = without_partner(job.schedule) if job.overlap_experts else None
    lasts = np.moveaxis(builder.ticks(whole)[:, costs.sizes], 1, -1)
    durations = lasts[0] if alone is None else np.where(alone, lasts[1], lasts[0])
    ways = costs.send_forward, costs.send_backward
    ticks = np.array([[builder.ticks(builder.pieces(sent)) for sent in way] for way in ways]).transpose(2, 0, 1)
    ticks = ticks[..., 0] if ticks.shape[-1] == 1 else ticks[..., costs.sizes]
    placed = Placed(chain, lower(job.schedule, durations, ticks, job.overlap_pipeline), alone)
    lowered = placed.lowered
    met = _meet(chain, placed)
    rows = np.flatnonzero(placed.passes & ~placed.cut)
    kind, stage, microbatch = (column[rows] for column in (lowered.kind, lowered.stage, lowered.microbatch))
    lane, turn = chain.lane(placed.rank[rows], "compute"), placed.turn[rows]
    placed.entry[rows] = placed.exit[rows] = builder.append(
        lane,
        turn,
        whole[placed.alone[rows], placed.size[rows], stage, kind],
        kind=kind,
        stage=stage,
        microbatch=microbatch,
    )
    pieces = [_pieces(chain, placed, rows) for rows in _alike(placed)]
    chain.turns = [_turns(placed, rank, [p for r, p in pieces if r == rank]) for rank in range(job.pp)]
    _enter(chain, placed, met)
    return placed


def _enter(chain: Chain, placed: Placed, met: dict[int, int]) -> None:
    """What passes wait for is there before those that begin together go on: their first operation is the meeting."""
    rows, meeting = np.array(list(met), np.int64), np.array(list(met.values()), np.int64)
    order = np.argsort(placed.entry[rows], kind="stable")
    first, meeting = placed.entry[rows][order], meeting[order]
    for turns in chain.turns if met else ():
        at = np.flatnonzero(np.isin(turns.entry, first))
        turns.entry[at] = meeting[np.searchsorted(first, turns.entry[at])]
    placed.entry[rows[order]] = meeting


def _meet(chain: Chain, placed: Placed) -> dict[int, int]:
    """Append what stands before passes of microbatches that chains of other classes share: all begin together. Returns
    the operation of each row of those."""
    found, builder, lowered = dict[int, int](), chain.builder, placed.lowered
    nothing = builder.piece(single(Content()))
    shared = np.array([bool(classes) for classes in chain.costs.meets])[lowered.microbatch]
    for row in np.flatnonzero(placed.passes & shared).tolist():
        kind, stage, microbatch = (int(column[row]) for column in (lowered.kind, lowered.stage, lowered.microbatch))
        name = ("group", chain.costs.meets[microbatch], kind, stage, microbatch)
        lane, turn = chain.lane(int(placed.rank[row]), "compute"), int(placed.turn[row])
        meeting = builder.meetings(name, 1)
        columns: dict[str, Ints | int] = {"stage": stage, "microbatch": microbatch, "meeting": meeting}
        found[row] = int(builder.append(lane, turn, nothing, kind=d.MEETING, **columns)[0])
    return found


def sends(chain: Chain, placed: Placed) -> None:
    """Append all sends, and what passes and sends wait for."""
    lowered, builder, costs = placed.lowered, chain.builder, chain.costs
    for code, name, sent in (
        (d.SEND_FORWARD, "send forward", np.array([builder.pieces(one) for one in costs.send_forward])),
        # i + 1 sends over i
        (d.SEND_BACKWARD, "send backward", np.array([np.roll(builder.pieces(one), 1) for one in costs.send_backward])),
    ):
        rows = np.flatnonzero(lowered.kind == code)
        lane = chain.lane(placed.rank[rows], name if chain.job.overlap_pipeline else "compute")
        stage, microbatch = lowered.stage[rows], lowered.microbatch[rows]
        turn = rows if chain.job.overlap_pipeline else placed.turn[rows]
        placed.entry[rows] = placed.exit[rows] = builder.append(
            lane, turn, sent[placed.size[rows], stage], kind=code, stage=stage, microbatch=microbatch
        )
    for number, code in enumerate((d.BROADCAST, d.SUMS, d.SUMMED_GRADIENT)[: len(costs.together)]):
        _together(chain, placed, number, code)
    later = np.repeat(np.arange(len(lowered.tape)), np.diff(lowered.tape.after_start))
    builder.after(placed.entry[later], placed.exit[lowered.tape.after])


def _together(chain: Chain, placed: Placed, number: int, code: int) -> None:
    """Append what ranks do together around their parts of the vocabulary, of one kind."""
    lowered, builder = placed.lowered, chain.builder
    rows = np.flatnonzero(lowered.kind == code)
    first = builder.meetings(("vocabulary", chain.number, number), chain.job.microbatches)[0]
    alone = chain.job.pp == 1
    placed.entry[rows] = placed.exit[rows] = builder.append(
        chain.lane(placed.rank[rows], LANES[number]),
        rows,
        builder.pieces(chain.costs.together[number])[placed.rank[rows]],
        kind=code,
        stage=lowered.stage[rows],
        microbatch=lowered.microbatch[rows],
        meeting=-1 if alone else first + lowered.microbatch[rows],
    )


# ---- pieces ------------------------------------------------------------------------------------------------------


def _alike(placed: Placed) -> list[Ints]:
    """Rows of passes that are cut, those of one chunk, kind and size together, and of those the ones that run alone."""
    rows = np.flatnonzero(placed.cut)
    code = (placed.lowered.stage[rows] * len(d.KINDS) + placed.lowered.kind[rows]) * 2 + placed.alone[rows]
    code = code * (int(placed.size.max(initial=0)) + 1) + placed.size[rows]
    order = np.argsort(code, kind="stable")
    return np.split(rows[order], 1 + np.flatnonzero(np.diff(code[order]))) if len(rows) else []


def _pieces(chain: Chain, placed: Placed, rows: Ints) -> tuple[int, Ints]:
    """Append some equal passes in pieces; returns their rank and (turn, kind, stage, microbatch, piece, entry, exit) of
    the pieces, shape (7, n)."""
    kind, stage = int(placed.lowered.kind[rows[0]]), int(placed.lowered.stage[rows[0]])
    costs = (chain.costs.alone if placed.alone[rows[0]] else chain.costs.passes)[placed.size[rows[0]]]
    pieces, rank = _of(costs[stage], kind), int(placed.rank[rows[0]])
    found = []
    for piece in dict.fromkeys(pieces):
        places = np.array([i for i, other in enumerate(pieces) if other == piece])
        turn = (placed.turn[rows][:, None] + places).reshape(-1)
        microbatch, place = (
            np.repeat(placed.lowered.microbatch[rows].astype(np.int64), len(places)),
            np.tile(places, len(rows)),
        )
        columns: dict[str, Ints | int] = {"kind": kind, "stage": stage, "microbatch": microbatch, "piece": place}
        columns["apart"] = np.repeat(placed.apart[rows], len(places))
        entry, last = _parts(chain, rank, piece, turn, columns)
        found.append(np.stack(np.broadcast_arrays(turn, kind, stage, microbatch, place, entry, last)))
    together = np.concatenate(found, axis=1)
    at = np.argsort(together[0], kind="stable").reshape(len(rows), len(pieces))
    placed.entry[rows], placed.exit[rows] = together[5][at[:, 0]], together[6][at[:, -1]]
    return rank, together


def _of(passes: ChunkPasses, kind: int) -> list[Piece]:
    return passes[d.PASSES.index(kind)]


def _parts(chain: Chain, rank: int, piece: Piece, turn: Ints, columns: dict[str, Ints | int]) -> tuple[Ints, Ints]:
    """Append the parts of a piece at each of some turns; returns the first and the last of each."""
    numbers: list[Ints] = []
    for part in piece.parts:
        content, activity = chain.builder.piece(single(part.content)), -1
        if part.content.kernels:
            activity = chain.kernels(rank, part.content)
        elif any(part.takes):
            activity = chain.holds(rank, part.content.total, part.takes)
        lane = chain.lane(rank, part.lane)
        numbers.append(chain.builder.append(lane, turn, content, activity=activity, **columns))
        for earlier in part.after:
            chain.builder.after(numbers[-1], numbers[earlier])
    return numbers[0], numbers[-1]


def _turns(placed: Placed, rank: int, pieces: list[Ints]) -> Turns:
    """What a rank runs, turn by turn."""
    rows = np.flatnonzero(placed.passes & ~placed.cut & (placed.rank == rank))
    lowered = placed.lowered
    columns = (placed.turn, lowered.kind, lowered.stage, lowered.microbatch, 0 * placed.turn, placed.entry, placed.exit)
    together = np.concatenate([np.stack([column[rows] for column in columns]), *pieces], axis=1).astype(np.int64)
    return Turns(*together[1:, np.argsort(together[0], kind="stable")])
