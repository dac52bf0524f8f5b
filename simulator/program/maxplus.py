"""The max-plus executor: when each operation runs, without a clock.

Each operation starts at the latest end of what it waits for: its lane, the operations that it comes after, the other
members of its rendezvous. That is exact as long as no resource is asked for more than it has; this is checked
afterwards, and `NotExact` says where it is not so.

The sweep goes by rounds: in each, every lane whose next operation is ready advances by one, all lanes at once. So
that a round is a handful of array operations, a tape is first rewritten to *rows* that wait for at most one thing: an
operation that comes after several others becomes a row for each of them, and a member of a rendezvous arrives in one
row and meets in the next, which waits for the rendezvous to be complete.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.engine.deadlock import deadlock
from simulator.engine.rendezvous import Rendezvous, gather, lone_ticks
from simulator.engine.tape import NEVER, Activity, Ints, Tape, Timeline, clock_overflow, verify
from simulator.errors import InputError

SLACK = 1e-9
"""Relative excess over a capacity that is rounding, not contention; as in the engine."""


class NotExact(InputError):
    """Activities contend for a resource: only the SimPy executor can tell what they last."""


def sweep(tape: Tape) -> Timeline:
    """Run a tape; equal to `engine.executor.execute` to the tick, `events` left at 0.

    Raises NotExact where activities contend, DeadlockError, InputError and ValueError as `execute` does.
    """
    timeline, rendezvous = _swept(tape)
    if rendezvous.activities:
        _refuse_contention(tape, rendezvous, timeline)
    return timeline


def unshared(tape: Tape) -> Timeline:
    """Run a tape with all resources for each activity.

    A run that shares them ends nothing earlier: each operation waits for the same and lasts at least as long.
    """
    return _swept(tape)[0]


def _swept(tape: Tape) -> tuple[Timeline, Rendezvous]:
    """Run a tape in which nothing contends."""
    verify(tape)
    rendezvous = gather(tape)
    ticks = _ticks(tape, rendezvous)
    if ticks.max(initial=0) >= NEVER:
        raise clock_overflow()
    rows = rows_of(tape, rendezvous, ticks)
    end = _rounds(rows, rendezvous)[rows.last]
    ended = end < NEVER
    if not ended.all():
        latest = int(end.max(where=ended, initial=0)) + int(ticks.max())
        raise deadlock(tape, ended) if latest < NEVER else clock_overflow()
    return Timeline(end - ticks, end), rendezvous


def _ticks(tape: Tape, rendezvous: Rendezvous) -> Ints:
    """How long each operation lasts when nothing contends; shape (n,)."""
    ticks = lone_ticks(tape)
    members = rendezvous.number >= 0
    ticks[members] = rendezvous.ticks[rendezvous.number[members]]
    return ticks


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows 0 .. r - 1, lane after lane, each lane closed by a row that never runs.

    `wait` counts in the array of ends, which holds one entry a row, then time 0, then never, then the rendezvous.
    """

    wait: Ints
    """What each row waits for; shape (r,)."""
    ticks: Ints
    """What it lasts; shape (r,)."""
    arrives: Ints
    """The rendezvous at which a lane arrives with this row, -1 for none; shape (r,)."""
    last: Ints
    """The row with which each operation ends; shape (n,)."""
    head: Ints
    """The first row of each lane; shape (lanes,)."""


def rows_of(tape: Tape, rendezvous: Rendezvous, ticks: Ints) -> Rows:
    """Rewrite a tape so that each row waits for at most one thing."""
    lanes = np.arange(len(tape.lane_start) - 1)
    waits = np.diff(tape.after_start)
    member = rendezvous.number >= 0
    size = np.maximum(waits, 1) + member
    before = np.concatenate(([0], np.cumsum(size)))
    first = before[:-1] + np.repeat(lanes, np.diff(tape.lane_start))
    last = first + size - 1
    count = int(before[-1]) + len(lanes)
    wait = np.full(count, count, np.int64)
    within = np.arange(len(tape.after)) - np.repeat(tape.after_start[:-1], waits)
    wait[np.repeat(first, waits) + within] = last[tape.after]
    wait[last[member]] = count + 2 + rendezvous.number[member]
    wait[before[tape.lane_start[1:]] + lanes] = count + 1
    row_ticks = np.zeros(count, np.int64)
    row_ticks[last] = ticks
    arrives = np.full(count, -1, np.int64)
    arrives[last[member] - 1] = rendezvous.number[member]
    return Rows(wait, row_ticks, arrives, last, before[tape.lane_start[:-1]] + lanes)


def _rounds(rows: Rows, rendezvous: Rendezvous) -> Ints:
    """When each row ends, NEVER where it does not run; shape (r,)."""
    count = len(rows.wait)
    end = np.full(count + 2 + len(rendezvous.size), NEVER, np.int64)
    end[count] = 0
    head = rows.head.copy()
    free = np.zeros(len(head), np.int64)
    absent, latest = rendezvous.size.copy(), np.zeros(len(rendezvous.size), np.int64)
    while True:
        ends = end.take(rows.wait.take(head))
        ready = ends < NEVER
        if not ready.any():
            return end[:count]
        np.maximum(ends, free, out=ends)
        ends += rows.ticks.take(head)
        np.copyto(free, ends, where=ready)
        end[head] = np.minimum(ends, NEVER, out=ends)
        if len(absent):
            arriving = rows.arrives[head[ready]]
            _arrive(arriving[arriving >= 0], free[ready][arriving >= 0], absent, latest, end[count + 2 :])
        head += ready


def _arrive(arriving: Ints, when: Ints, absent: Ints, latest: Ints, begin: Ints) -> None:
    """Count the lanes that arrive at rendezvous; one that is complete begins when the last of them came."""
    np.subtract.at(absent, arriving, 1)
    np.maximum.at(latest, arriving, when)
    complete = arriving[absent[arriving] == 0]
    begin[complete] = latest[complete]


def _refuse_contention(tape: Tape, rendezvous: Rendezvous, timeline: Timeline) -> None:
    """NotExact where the activities, run as if alone, together ask for more than a resource has."""
    number, start = _copies(tape, rendezvous, timeline)
    uses = [row for i, activity in enumerate(rendezvous.activities) for row in _uses(i, activity)]
    if not uses or not number.size:
        return
    activity, resource, rate, after, lasts = (np.array(column) for column in zip(*uses, strict=True))
    order = np.argsort(number, kind="stable")
    number, start = number[order], start[order]
    low, high = np.searchsorted(number, activity), np.searchsorted(number, activity, side="right")
    row = np.repeat(np.arange(len(uses)), high - low)
    copy = np.arange(len(row)) - np.repeat(np.cumsum(high - low) - high, high - low)
    begin = start[copy] + after[row]
    share = rate[row] / tape.capacity[resource[row]]
    _sweep_load(resource[row], begin, begin + lasts[row], share)


def _uses(number: int, activity: Activity) -> Iterator[tuple[int, int, float, int, int]]:
    """(activity, resource, rate, ticks until its work starts, ticks of work) of each use in each phase."""
    after = 0
    for phase in activity.phases:
        after += phase.latency
        yield from ((number, use.resource, use.rate, after, phase.work) for use in phase.uses)
        after += phase.work


def _copies(tape: Tape, rendezvous: Rendezvous, timeline: Timeline) -> tuple[Ints, Ints]:
    """Every activity that ran, a rendezvous once: its number and its start."""
    alone = np.flatnonzero((tape.activity >= 0) & (rendezvous.number < 0))
    _, example = np.unique(rendezvous.number, return_index=True)
    example = example[rendezvous.number[example] >= 0]
    together = rendezvous.activity
    runs = together >= 0
    number = np.concatenate((tape.activity[alone], together[runs]))
    return number, np.concatenate((timeline.start[alone], timeline.start[example][runs]))


def _sweep_load(resource: Ints, begin: Ints, stop: Ints, share: NDArray[np.float64]) -> None:
    """Add up the shares of each resource over time, ends before beginnings; NotExact names the first excess."""
    works = stop > begin
    resource, begin, stop, share = resource[works], begin[works], stop[works], share[works]
    where = np.concatenate((resource, resource))
    when = np.concatenate((stop, begin))
    change = np.concatenate((-share, share))
    order = np.lexsort((change > 0, when, where))
    load = np.cumsum(change[order])
    excess = np.flatnonzero(load > 1 + SLACK)
    if excess.size:
        first = order[excess[0]]
        raise NotExact(
            f"here work that runs at once shares resource {where[first]}, of which it would take "
            f"{load[excess[0]]:.3g} times what there is; the max-plus sweep knows no sharing: run the SimPy executor"
        )
