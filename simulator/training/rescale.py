"""A program on perturbed devices: what its operations last where kernels take a factor as long.

Kernels (passes, recomputation, the optimizer) stretch; collectives and sends take what they took. A device that waited
for its host in a pass waits as much less as its kernels take longer. Each piece of a pass is rounded to ticks on its
own, so that a lumped pass lasts as long as its layers.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simulator.engine.rendezvous import lone_ticks
from simulator.engine.tape import Activity, Tape
from simulator.program.content import Content, Lump
from simulator.training.lowering import Program

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def stretched(content: Content, factors: Floats) -> tuple[Ints, Ints, Ints]:
    """(compute, recompute, host) ticks of what runs when kernels take `factors` as long; shape of `factors` each."""
    compute, again = (np.rint(ticks * factors).astype(np.int64) for ticks in (content.compute, content.recompute))
    longer = compute + again - content.kernels
    return compute, again, np.maximum(content.host - longer, 0) * bool(content.host)


def slowed(program: Program, tape: Tape, factors: Floats) -> Program:
    """The program on another tape of it, with contents on devices that take `factors`, shape (chains, pp), as long."""
    owner, lumps = _owners(program), list(program.contents)
    pace = factors.reshape(-1)
    for number in np.flatnonzero(owner >= 0).tolist():
        factor = float(pace[owner[number]])
        lumps[number] = Lump(tuple((_slowed(content, factor), count) for content, count in lumps[number].parts))
    return replace(program, tape=tape, contents=tuple(lumps))


def _owners(program: Program) -> Ints:
    """The device (chain x pp + rank) whose operations consist of each content, -1 for none; shape (contents,)."""
    owner = np.full(len(program.contents), -1, np.int64)
    columns = program.columns
    ranks = max(rank for _, rank, _ in program.lanes) + 1
    device = np.array([chain * ranks + rank for chain, rank, _ in program.lanes])
    owner[columns.content] = device[columns.lane]
    return owner


def _slowed(content: Content, factor: float) -> Content:
    """A pass of which the parts that memory and launches bound stretch like the whole."""
    compute, again, host = (int(ticks) for ticks in stretched(content, np.array(factor)))
    memory = round(content.memory * factor)
    latency = min(round(content.latency * factor), compute + again - memory)
    return replace(content, compute=compute, recompute=again, host=host, memory=memory, latency=latency)


def durations(program: Program, pace: Floats) -> Ints:
    """Ticks of every operation, alone, in every step; (classes, pp, steps) factors to shape (n, steps)."""
    ticks = np.repeat(lone_ticks(program.tape)[:, None], pace.shape[2], axis=1)
    owner, factors = _owners(program), pace.reshape(-1, pace.shape[2])
    known: dict[tuple[int, Content], Ints] = {}
    by_content = {}
    for number, lump in enumerate(program.contents):
        if lump.whole.kernels and owner[number] >= 0 and (factors[owner[number]] != 1.0).any():
            by_content[number] = sum(
                (count * _lasts(known, int(owner[number]), content, factors) for content, count in lump.parts),
                np.zeros(pace.shape[2], np.int64),
            )
    if by_content:
        rows = np.full(len(program.contents), -1)
        rows[list(by_content)] = np.arange(len(by_content))
        changed = np.flatnonzero(rows[program.columns.content] >= 0)
        ticks[changed] = np.stack(list(by_content.values()))[rows[program.columns.content[changed]]]
    return ticks


def _lasts(known: dict[tuple[int, Content], Ints], owner: int, content: Content, factors: Floats) -> Ints:
    """Ticks of a content on a device by step; shape (steps,)."""
    if (owner, content) not in known:
        compute, again, host = stretched(content, factors[owner])
        known[owner, content] = compute + again + host + content.exposed
    return known[owner, content]


def rescaled(tape: Tape, ticks: Ints) -> Tape:
    """The tape with operations that last `ticks`, shape (n,), alone; activities work longer or shorter."""
    activity = tape.activity.copy()
    shared = np.flatnonzero(activity >= 0)
    kinds, which = np.unique(np.stack([activity[shared], ticks[shared]], axis=1), axis=0, return_inverse=True)
    activity[shared] = which.reshape(-1)
    made = tuple(_lasting(tape.activities[number], length) for number, length in kinds.tolist())
    return replace(tape, duration=ticks, activity=activity, activities=made if len(shared) else tape.activities)


def _lasting(activity: Activity, ticks: int) -> Activity:
    return activity._replace(work=ticks - activity.latency)
