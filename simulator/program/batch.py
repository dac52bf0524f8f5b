"""The max-plus executor on many timings of one tape at once.

Which operation waits for which does not depend on what operations last, so the rounds of a sweep are the same for all
timings: each of its numbers becomes a row of numbers, one a timing. Only for tapes that share nothing.
"""

import numpy as np

from simulator.engine.deadlock import deadlock
from simulator.engine.rendezvous import Rendezvous, gather
from simulator.engine.tape import NEVER, Ints, Tape, clock_overflow, verify
from simulator.program.maxplus import Rows, rows_of


def makespans(tape: Tape, ticks: Ints) -> Ints:
    """Ticks from start to end of the tape under each timing; `ticks` (n, k), what each operation lasts, to (k,).

    Equal to `maxplus.sweep` of each to the tick. DeadlockError as there; ValueError where operations share resources.
    """
    verify(tape)
    if np.any(tape.activity >= 0):
        raise ValueError("operations share resources: only the SimPy executor can tell what they last")
    rendezvous = gather(tape)
    lasts, member = ticks.copy(), np.flatnonzero(rendezvous.number >= 0)
    if len(member):
        lasts[member] = _latest(rendezvous.number[member], ticks[member])[1][rendezvous.number[member]]
    if len(lasts) and float(lasts.max(axis=1).sum(dtype=np.float64)) >= NEVER:
        raise clock_overflow()
    rows = rows_of(tape, rendezvous, lasts[:, 0])
    last, ran = _rounds(rows, rendezvous, lasts)
    if not ran.all():
        raise deadlock(tape, ran[rows.last])
    return last


def _latest(rendezvous: Ints, when: Ints) -> tuple[Ints, Ints]:
    """The rendezvous among `rendezvous` (m,) in order, and the largest rows of `when` (m, k) of each."""
    order = np.argsort(rendezvous, kind="stable")
    numbers, first = np.unique(rendezvous[order], return_index=True)
    return numbers, np.maximum.reduceat(when[order], first, axis=0)


def _rounds(rows: Rows, rendezvous: Rendezvous, lasts: Ints) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The last end under each timing, and which rows ran."""
    count, timings = len(rows.wait), lasts.shape[1]
    operation = np.full(count, -1, np.int64)
    operation[rows.last] = np.arange(len(rows.last))
    lasts = np.concatenate([lasts, np.zeros((1, timings), np.int64)])
    end = np.zeros((count + 2 + len(rendezvous.size), timings), np.int64)
    known = np.zeros(len(end), np.bool_)
    known[count] = True
    head, free = rows.head.copy(), np.zeros((len(rows.head), timings), np.int64)
    absent, latest = rendezvous.size.copy(), end[count + 2 :]
    while True:
        lanes = np.flatnonzero(known[rows.wait[head]])
        if not len(lanes):
            ran = known[:count]
            ran[rows.wait == count + 1] = True  # the row that closes a lane never runs
            return free.max(axis=0, initial=0), ran
        now = head[lanes]
        ends = np.maximum(free[lanes], end[rows.wait[now]]) + lasts[operation[now]]
        free[lanes] = end[now] = ends
        known[now] = True
        arriving = rows.arrives[now]
        members = np.flatnonzero(arriving >= 0)
        if len(members):
            met = arriving[members]
            numbers, last = _latest(met, ends[members])
            latest[numbers] = np.maximum(latest[numbers], last)
            np.subtract.at(absent, met, 1)
            known[count + 2 + met[absent[met] == 0]] = True
        head[lanes] += 1
