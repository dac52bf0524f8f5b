"""A program on perturbed devices: what its operations last where kernels take a factor as long.

Kernels (passes, recomputation, the optimizer) stretch; collectives and sends take what they took, launches and copies
run beside the kernels as before. A lumped pass lasts as long as its parts on lanes.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simulator.engine.rendezvous import lone_ticks
from simulator.engine.tape import Activity, Tape, chain
from simulator.program.piece import Piece
from simulator.training.passes.program import Program

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def slowed(program: Program, tape: Tape, factors: Floats) -> Program:
    """The program on another tape of it, with contents on devices that take `factors`, shape (chains, pp), as long."""
    pairs, which = _pairs(program)
    pace = factors.reshape(-1)
    numbers: dict[tuple[int, float], int] = {}
    keys = [(content, float(pace[device])) for content, device in pairs.tolist()]
    found = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    contents = tuple(program.contents[content].at(factor) for content, factor in numbers)
    return replace(program, tape=tape, contents=contents, columns=replace(program.columns, content=found[which]))


def _pairs(program: Program) -> tuple[Ints, Ints]:
    """Each (content, device) that occurs, shape (m, 2), and which of them each operation is; shape (n,)."""
    columns = np.stack([program.columns.content, program.device(slice(None))], axis=1)
    pairs, which = np.unique(columns, axis=0, return_inverse=True)
    return pairs, which.reshape(-1)


def durations(program: Program, pace: Floats) -> Ints:
    """Ticks of every operation, alone, in every step; (classes, pp, steps) factors to shape (n, steps)."""
    ticks = np.repeat(lone_ticks(program.tape)[:, None], pace.shape[2], axis=1)
    factors = pace.reshape(-1, pace.shape[2])
    pairs, which = _pairs(program)
    known: dict[tuple[Piece, int], Ints] = {}
    changed, rows = np.zeros(len(pairs), np.bool_), np.zeros((len(pairs), pace.shape[2]), np.int64)
    for row, (content, device) in enumerate(pairs.tolist()):
        lump = program.contents[content]
        if lump.whole.kernels and (factors[device] != 1.0).any():
            changed[row] = True
            rows[row] = sum(count * _lasts(known, piece, device, factors) for piece, count in lump.pieces)
    operations = np.flatnonzero(changed[which])
    ticks[operations] = rows[which[operations]]
    return ticks


def _lasts(known: dict[tuple[Piece, int], Ints], piece: Piece, device: int, factors: Floats) -> Ints:
    """Ticks of a piece on a device by step; shape (steps,)."""
    if (piece, device) not in known:
        known[piece, device] = piece.lasts(factors[device])
    return known[piece, device]


def rescaled(tape: Tape, ticks: Ints) -> Tape:
    """The tape with operations that last `ticks`, shape (n,), alone; activities work longer or shorter."""
    activity = tape.activity.copy()
    shared = np.flatnonzero(activity >= 0)
    kinds, which = np.unique(np.stack([activity[shared], ticks[shared]], axis=1), axis=0, return_inverse=True)
    activity[shared] = which.reshape(-1)
    made = tuple(_lasting(tape.activities[number], length) for number, length in kinds.tolist())
    return replace(tape, duration=ticks, activity=activity, activities=made if len(shared) else tape.activities)


def _lasting(activity: Activity, ticks: int) -> Activity:
    """The activity with so much more or less work that it lasts `ticks` alone; its phases keep their parts of it."""
    if not activity.then:
        return activity._replace(work=ticks - activity.latency)
    phases = activity.phases
    work = np.cumsum([phase.work for phase in phases])
    left = ticks - sum(phase.latency for phase in phases)
    ends = np.rint(work * (left / work[-1]) if work[-1] else np.full(len(phases), left)).astype(np.int64).tolist()
    pieces = np.diff([0, *ends[:-1], left]).tolist()
    return chain([phase._replace(work=piece) for phase, piece in zip(phases, pieces, strict=True)])
