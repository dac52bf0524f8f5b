"""The SimPy executor: one interpreter process per lane reads the tape and lets time pass.

Time is integer picoseconds. An operation costs one SimPy event, its end, on which its own lane and all lanes that
come after it wait; nothing else is created per operation. Events of one instant are processed in the order in which
they were scheduled. What an operation lasts is its `duration`, or what the sharing of resources makes of its activity
(see `fluid`). See docs/decisions/0001-integer-time.md.
"""

from collections.abc import Callable, Generator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from simpy import Environment
from simpy.events import NORMAL

from simulator.engine.deadlock import deadlock
from simulator.engine.event import Event
from simulator.engine.fluid import Fluid, Solver
from simulator.engine.rendezvous import gather
from simulator.engine.tape import NEVER, Ints, Tape, Timeline, too_long, verify

Progress = Callable[[int], None]
"""Told the number of events processed so far, now and then."""

STRIDE = 1 << 14
"""Events between two reports of progress; a power of two."""
SPECIAL = -1
"""In the list of durations: the operation belongs to a rendezvous or runs an activity."""
NONE, SEVERAL = -1, -2
"""In the list of dependencies: there is none, or more than one."""


class WatchedEnvironment(Environment):
    """An environment that reports progress."""

    def __init__(self, progress: Progress) -> None:
        """Take the function to tell."""
        super().__init__()
        self.steps = 0
        self.progress = progress

    def step(self) -> None:
        """Process one event, and report now and then."""
        super().step()
        self.steps += 1
        if not self.steps & (STRIDE - 1):
            self.progress(self.steps)


class Run:
    """The state that the interpreters of one execution share.

    Lists are indexed by operation or by *slot*: what ends as one, an operation alone or a whole rendezvous.
    """

    def __init__(self, env: Environment, tape: Tape, solver: Solver | None) -> None:
        """Turn the columns of the tape into lists, which Python reads faster."""
        self.env = env
        self.tape = tape
        self.rendezvous = gather(tape)
        self.fluid = Fluid(env, self.rendezvous.activities, tape.capacity, solver)
        n, member = len(tape), self.rendezvous.number >= 0
        self.slots: Ints = np.where(member, n + self.rendezvous.number, np.arange(n))
        self.slot: list[int] = self.slots.tolist()
        self.duration: list[int] = np.where(member | (tape.activity >= 0), SPECIAL, tape.duration).tolist()
        self.wait, self.waits = _dependencies(tape, self.slots)
        size = n + len(self.rendezvous.size)
        self.end: list[int] = [NEVER] * size
        """When each slot ends; known from its start on unless it runs an activity."""
        self.done: list[Event | None] = [None] * size
        """The event of each slot that runs or is waited for."""
        self.absent: list[int] = self.rendezvous.size.tolist()
        """Members of each rendezvous that are not ready yet."""
        self.begin: dict[int, int] = {}
        """When each special slot started."""
        self.extra = 0
        """Events of operations that last no time; they have one only if they are waited for."""

    def interpret(self, first: int, stop: int) -> Generator[Event, None, None]:
        """Run the operations first .. stop - 1, one lane. `now` follows the clock without asking it."""
        env, schedule, now = self.env, self.env.schedule, 0
        duration, wait, end, done = self.duration, self.wait, self.end, self.done
        for op in range(first, stop):
            other = wait[op]
            if other >= 0:
                if end[other] > now:
                    yield done[other] or self.awaited(other)
                    now = end[other]
            elif other == SEVERAL:
                for other in self.waits[op]:
                    if end[other] > now:
                        yield done[other] or self.awaited(other)
                        now = end[other]
            ticks = duration[op]
            if ticks > 0:
                event = done[op]
                if event is None:
                    event = done[op] = Event(env)
                schedule(event, NORMAL, ticks)
                now += ticks
                end[op] = now
                yield event
                done[op] = None
            elif ticks == 0:
                end[op] = now
                event = done[op]
                if event is not None:
                    event.after(0)
                    self.extra += 1
            else:
                slot = self.slot[op]
                yield self.special(op, slot, now)
                now = end[slot]

    def awaited(self, slot: int) -> Event:
        """A new event for a slot that has not started yet."""
        event = self.done[slot] = Event(self.env)
        return event

    def special(self, op: int, slot: int, now: int) -> Event:
        """Join a rendezvous, start it if this lane is the last to come, or start an activity; returns its end."""
        event = self.done[slot] or self.awaited(slot)
        rendezvous = slot - len(self.duration)
        if rendezvous < 0:
            self.begin[slot] = now
            self.fluid.start(int(self.tape.activity[op]), lambda: self.finish(slot, event))
            return event
        self.absent[rendezvous] -= 1
        if not self.absent[rendezvous]:
            self.begin[slot] = now
            self.meet(rendezvous, slot, event, now)
        return event

    def meet(self, rendezvous: int, slot: int, event: Event, now: int) -> None:
        """All members are ready: start."""
        activity = int(self.rendezvous.activity[rendezvous])
        if activity >= 0:
            self.fluid.start(activity, lambda: self.finish(slot, event))
        else:
            ticks = int(self.rendezvous.ticks[rendezvous])
            self.end[slot] = now + ticks
            event.after(ticks)

    def finish(self, slot: int, event: Event) -> None:
        """An activity has done its work: end the slot."""
        self.end[slot] = int(self.env.now)
        event.after(0)

    def timeline(self, lanes: int) -> Timeline:
        """The times of all operations, after the run."""
        duration = np.asarray(self.duration, np.int64)
        end = np.asarray(self.end, np.int64)[self.slots]
        start = end - duration
        for op in np.flatnonzero(duration == SPECIAL).tolist():
            start[op] = self.begin[self.slot[op]]
        timed = int(np.count_nonzero(duration > 0)) + len(self.begin) + self.extra
        return Timeline(start, end, timed + self.fluid.events + 2 * lanes + 1)

    def ended(self) -> NDArray[np.bool_]:
        """Which operations have ended, when nothing can happen any more."""
        return np.asarray(self.end, np.int64)[self.slots] < NEVER


def execute(tape: Tape, solver: Solver | None = None, progress: Progress | None = None) -> Timeline:
    """Run a tape, event by event.

    `solver` divides shared resources (see `fluid.Solver`); it may be left out where no operation names an activity.
    `progress` is told the number of events now and then. Raises DeadlockError naming the lanes that wait for each
    other, InputError where time runs past NEVER, ValueError where the tape is malformed.
    """
    verify(tape)
    if solver is None and np.any(tape.activity >= 0):
        raise ValueError("the tape names activities on shared resources: execute() needs a solver")
    env = WatchedEnvironment(progress) if progress else Environment()
    run = Run(env, tape, solver)
    edges = tape.lane_start.tolist()
    lanes = [env.process(run.interpret(a, b)) for a, b in pairwise(edges) if b > a]
    done = env.all_of(lanes)
    try:
        env.run(until=done)
    except RuntimeError:
        if done.triggered or env.peek() != float("inf"):
            raise  # not SimPy's "no scheduled events left" but somebody's mistake
        if env.now < NEVER:
            raise deadlock(tape, run.ended()) from None
    if env.now >= NEVER:
        raise too_long()
    return run.timeline(len(lanes))


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
