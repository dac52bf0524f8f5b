"""A tape ready to be played, any number of times: its columns as lists, which Python reads faster."""

from dataclasses import dataclass

import numpy as np

from simulator.engine.rendezvous import Rendezvous, gather
from simulator.engine.tape import Ints, Tape, verify

SPECIAL = -1
"""In the list of durations: the operation belongs to a rendezvous or runs an activity."""
NONE, SEVERAL = -1, -2
"""In the list of dependencies: there is none, or more than one."""


@dataclass(frozen=True, slots=True)
class Score:
    """The columns; they are indexed by operation or by *slot*: what ends as one, an operation alone or a rendezvous."""

    tape: Tape
    rendezvous: Rendezvous
    slots: Ints
    """The slot of each operation; shape (n,)."""
    slot: list[int]
    duration: list[int]
    wait: list[int]
    """The slot that each operation waits for, NONE or SEVERAL."""
    waits: dict[int, list[int]]
    """Those of the latter."""
    activity: list[int]
    """The activity of each operation, -1 for none."""


def score(tape: Tape) -> Score:
    """Prepare a tape; ValueError says what is wrong with one that is malformed."""
    verify(tape)
    rendezvous = gather(tape)
    n, member = len(tape), rendezvous.number >= 0
    slots: Ints = np.where(member, n + rendezvous.number, np.arange(n))
    duration: list[int] = np.where(member | (tape.activity >= 0), SPECIAL, tape.duration).tolist()
    return Score(tape, rendezvous, slots, slots.tolist(), duration, *_dependencies(tape, slots), tape.activity.tolist())


def _dependencies(tape: Tape, slots: Ints) -> tuple[list[int], dict[int, list[int]]]:
    """For each operation the slot that it waits for, NONE or SEVERAL, and those of the latter by operation."""
    counts = np.diff(tape.after_start)
    after = slots[tape.after]
    single = np.full(len(tape), NONE, np.int64)
    single[counts == 1] = after[tape.after_start[:-1][counts == 1]]
    single[counts > 1] = SEVERAL
    several = np.flatnonzero(counts > 1)
    first, stop = tape.after_start[several].tolist(), tape.after_start[several + 1].tolist()
    rows = zip(several.tolist(), first, stop, strict=True)
    return single.tolist(), {op: after[a:b].tolist() for op, a, b in rows}
