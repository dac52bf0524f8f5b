"""From a schedule to a tape: passes on compute lanes, transfers between stages on send lanes.

A send starts when the pass that made its data has ended and its lane is free; the pass of the neighbouring stage
comes after it. Sends that overlap sit on one lane a rank and direction; sends that do not sit on the compute lane of
the sender, which they block (Megatron-LM 2021). Stages on one rank hand their data over for nothing. Receivers are
not blocked by a transfer until they need its data, and a sender does not wait for its receiver to be ready. Where
ranks hold parts of the vocabulary, what they do together around its passes (`program.meetings`) has a lane for each.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import Tape
from simulator.program.actions import COMMUNICATION, Kind
from simulator.program.labels import Labels
from simulator.program.meetings import LANES, Meetings, meetings
from simulator.program.schedule import Schedule

Ints = NDArray[np.int64]
FORWARD, BACKWARD = 0, 1
"""Directions: columns of the table of send times."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A tape and what its operations mean. Shapes: `kind`, `stage`, `microbatch` (n,), the lane columns (lanes,)."""

    tape: Tape
    """The program."""
    kind: NDArray[np.int8]
    """Codes of `Kind`."""
    stage: NDArray[np.int32]
    """Stage that runs, or that sends."""
    microbatch: NDArray[np.int32]
    """Microbatch that passes or is sent, -1 for none."""
    lane_rank: Ints
    """Rank that each lane belongs to."""
    lane_purpose: tuple[str, ...]
    """`compute`, `send forward`, `send backward`, or those of `meetings.LANES`."""


def lower(
    schedule: Schedule,
    durations: Ints,
    sends: Ints,
    overlap_sends: bool = True,
    pair: int | None = None,
    barrier: int = 0,
) -> Lowered:
    """Lower a valid schedule (see `validate`); its own sends and receives are dropped and placed anew.

    `durations[stage, kind]` or `durations[stage, kind, microbatch]` and `sends[boundary, direction]` or
    `sends[boundary, direction, microbatch]` count ticks; kinds beyond the table last no time. Boundary b lies between
    the stages b and b + 1, direction 0 is forward. Passes side by side begin and end together: they are parts of one
    stretch of the compute lane, which waits for what any of them takes, and after which all is sent. It lasts `pair`,
    or as long as they do one after the other. What ranks do together around passes over the vocabulary lasts
    `barrier`. A schedule that waits for itself gives a tape that
    deadlocks.
    """
    rows = schedule.only([kind for kind in Kind if kind not in COMMUNICATION])
    forward, backward = _senders(rows)
    place = _place(rows, forward, backward, overlap_sends)
    columns = _columns(rows, forward, backward, place)
    ticks = _ticks(rows, durations, sends, forward, backward, place)
    if pair is not None:
        _pair(rows, ticks, place, pair)
    after_start, after = _after(rows, place, len(ticks))
    lane_start, lane_rank, purpose = _lanes(rows, forward, backward, overlap_sends)
    none = np.full(len(ticks), -1, np.int64)
    tape = Tape(
        lane_start,
        ticks,
        after_start,
        after,
        none,
        none,
        lane_names=tuple(f"rank {rank} {what}" for rank, what in zip(lane_rank.tolist(), purpose, strict=True)),
        names=Labels(columns[0], columns[1] % rows.depth, columns[2]),
    )
    lowered = Lowered(tape, *columns, lane_rank, purpose)
    met = meetings(rows)
    return lowered if met is None else _with_meetings(lowered, met, rows, place.own, barrier)


def _with_meetings(lowered: Lowered, met: Meetings, rows: Schedule, own: Ints, barrier: int) -> Lowered:
    """The tape with what ranks do together around passes over the vocabulary, behind all else."""
    tape, count = lowered.tape, len(lowered.tape)
    first, last = rows.groups()
    numbered = np.concatenate((own, count + np.arange(len(met.kind))))
    begins, ends = (np.concatenate((own[of], numbered[len(rows) :])) for of in (first, last))
    later = np.concatenate((np.repeat(np.arange(count), np.diff(tape.after_start)), begins[met.later]))
    after = np.concatenate((tape.after, ends[met.earlier]))
    order, size = np.argsort(later, kind="stable"), len(numbered) + count - len(rows)
    none = np.full(count, -1, np.int64)
    kind = np.concatenate((lowered.kind, met.kind))
    stage = np.concatenate((lowered.stage, met.stage))
    microbatch = np.concatenate((lowered.microbatch, met.microbatch))
    lanes, ranks = len(met.kind) // met.a_lane, np.arange(rows.ranks)
    purpose = tuple(name for name in LANES[: lanes // rows.ranks] for _ in ranks)
    names = tuple(f"rank {lane % rows.ranks} {name}" for lane, name in enumerate(purpose))
    tape = Tape(
        np.concatenate((tape.lane_start, count + met.a_lane * np.arange(1, lanes + 1))),
        np.concatenate((tape.duration, np.full(len(met.kind), barrier))),
        np.concatenate(([0], np.cumsum(np.bincount(later, minlength=size)))),
        after[order],
        np.concatenate((none, met.meeting)),
        np.full(size, -1, np.int64),
        lane_names=(*tape.lane_names, *names),
        names=Labels(kind, stage % rows.depth, microbatch),
    )
    lane_rank = np.concatenate((lowered.lane_rank, np.tile(ranks, lanes // rows.ranks)))
    return Lowered(tape, kind, stage, microbatch, lane_rank, (*lowered.lane_purpose, *purpose))


def _senders(rows: Schedule) -> tuple[Ints, Ints]:
    """Instructions whose output goes to another rank, forward and backward."""
    home, rank = rows.rank_of_stage(), rows.rank
    to = (table[rows.stage, rows.microbatch] for table in rows.neighbours())
    behind, ahead = (home[np.where(stage >= 0, stage, rows.stage)] != rank for stage in to)
    backward = (rows.kind == Kind.B) | (rows.kind == Kind.I)
    return np.flatnonzero((rows.kind == Kind.F) & ahead), np.flatnonzero(backward & behind)


@dataclass(frozen=True, slots=True)
class _Place:
    """Operations of the tape: of each instruction (n,) and of its send, -1 for none (n,)."""

    own: Ints
    send: Ints


def _place(rows: Schedule, forward: Ints, backward: Ints, overlap: bool) -> _Place:
    """Number the operations."""
    n = len(rows)
    send = np.full(n, -1, np.int64)
    if overlap:
        send[forward] = n + np.arange(len(forward))
        send[backward] = n + len(forward) + np.arange(len(backward))
        return _Place(np.arange(n), send)
    sending = np.zeros(n, np.int64)
    sending[forward] = sending[backward] = 1
    last = rows.groups()[1]
    before = np.cumsum(sending) - sending
    own = np.arange(n) + before[rows.groups()[0]]
    return _Place(own, np.where(sending > 0, last + before + 1, -1))


def _columns(
    rows: Schedule, forward: Ints, backward: Ints, place: _Place
) -> tuple[NDArray[np.int8], NDArray[np.int32], NDArray[np.int32]]:
    """Kind, stage and microbatch of every operation."""
    size = len(rows) + len(forward) + len(backward)
    kind, stage, microbatch = np.empty(size, np.int8), np.empty(size, np.int32), np.empty(size, np.int32)
    kind[place.own], stage[place.own], microbatch[place.own] = rows.kind, rows.stage, rows.microbatch
    for senders, code in ((forward, Kind.SEND_F), (backward, Kind.SEND_B)):
        where = place.send[senders]
        kind[where], stage[where], microbatch[where] = code, rows.stage[senders], rows.microbatch[senders]
    return kind, stage, microbatch


def _ticks(rows: Schedule, durations: Ints, sends: Ints, forward: Ints, backward: Ints, place: _Place) -> Ints:
    """Duration of every operation."""
    ticks = np.empty(len(rows) + len(forward) + len(backward), np.int64)
    known = rows.kind < durations.shape[1]
    index = (rows.stage[known], rows.kind[known], rows.microbatch[known])
    ticks[place.own] = 0
    ticks[place.own[known]] = durations[index[: durations.ndim]]
    for senders, boundary, way in (
        (forward, rows.stage[forward], FORWARD),
        (backward, rows.stage[backward] - 1, BACKWARD),
    ):
        index = (boundary, np.full_like(boundary, way), rows.microbatch[senders])
        ticks[place.send[senders]] = sends[index[: sends.ndim]]
    return ticks


def _pair(rows: Schedule, ticks: Ints, place: _Place, pair: int) -> None:
    """Let passes side by side last `pair` together: the first as long as it does, the others what is left."""
    first, last = rows.groups()
    several = np.flatnonzero(last > first)
    own, left = place.own[several], np.full(len(rows), pair, np.int64)
    for step in range(int((several - first[several]).max(initial=-1)) + 1):
        at = several - first[several] == step
        ends = several[at] == last[several[at]]
        group = first[several[at]]
        ticks[own[at]] = np.where(ends, left[group], np.minimum(ticks[own[at]], left[group]))
        left[group] -= ticks[own[at]]


def _after(rows: Schedule, place: _Place, count: int) -> tuple[Ints, Ints]:
    """What each of `count` operations comes after, as columns of a tape."""
    later, earlier = waits(rows)
    takes = takes_from(rows)
    takes = takes[takes >= 0]
    sent = place.send[takes]
    needed = (sent >= 0) | (earlier > later)  # an earlier one of the same lane has ended
    senders = np.flatnonzero(place.send >= 0)
    made = rows.groups()[1][senders]
    after = np.concatenate((np.where(sent >= 0, sent, place.own[earlier])[needed], place.own[made]))
    waiting = np.concatenate((place.own[later[needed]], place.send[senders]))
    order = np.argsort(waiting, kind="stable")
    return np.concatenate(([0], np.cumsum(np.bincount(waiting, minlength=count)))), after[order]


def waits(rows: Schedule) -> tuple[Ints, Ints]:
    """Instructions that take the output of a neighbouring stage, and the passes whose end they wait for; shapes (k,).

    Of passes side by side the first waits for all, and what any of them makes is there when the last has ended.
    """
    source = takes_from(rows)
    takes = np.flatnonzero(source >= 0)
    first, last = rows.groups()
    return first[takes], last[source[takes]]


def takes_from(rows: Schedule) -> Ints:
    """The pass of a neighbouring stage whose output each pass takes, -1 for none; shape (n,)."""
    source = np.full(len(rows), -1, np.int64)
    for kinds, table in zip(((Kind.F,), (Kind.B, Kind.I)), rows.neighbours(), strict=True):
        made, stage = rows.find(kinds), table[rows.stage, rows.microbatch]
        takes = np.flatnonzero(np.isin(rows.kind, kinds) & (stage >= 0))
        source[takes] = made[stage[takes], rows.microbatch[takes]]
    return source


def _lanes(rows: Schedule, forward: Ints, backward: Ints, overlap: bool) -> tuple[Ints, Ints, tuple[str, ...]]:
    """Where each lane starts, whose it is and what for."""
    rank = rows.rank
    compute = np.diff(rows.rank_start)
    there, back = (np.bincount(rank[senders], minlength=rows.ranks) for senders in (forward, backward))
    if not overlap:
        lengths, owner, purpose = compute + there + back, np.arange(rows.ranks), ("compute",) * rows.ranks
    else:
        ahead, behind = np.flatnonzero(there), np.flatnonzero(back)
        lengths = np.concatenate((compute, there[ahead], back[behind]))
        owner = np.concatenate((np.arange(rows.ranks), ahead, behind))
        purpose = ("compute",) * rows.ranks + ("send forward",) * len(ahead) + ("send backward",) * len(behind)
    return np.concatenate(([0], np.cumsum(lengths))), owner, purpose
