"""Tapes alone on a clock, in one compiled function: what goes in, what it asks, and what comes back."""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from simulator.engine.clock import STRIDE, Clock, Progress
from simulator.engine.compiled import layout as at
from simulator.engine.compiled.columns import column, longer, state
from simulator.engine.compiled.layout import State
from simulator.engine.compiled.record import book
from simulator.engine.compiled.solving import learn
from simulator.engine.load import Load
from simulator.engine.score import SPECIAL, Score
from simulator.engine.speeds import Solver, Speeds
from simulator.engine.tape import Timeline

Advance = Callable[[State, int], int]

TOO_LONG = "the run lasts longer than 53 days, more than the clock of the simulation counts"


class Recording:
    """Loads of some resources, as `Clock.record` writes them down."""

    def __init__(self, tape_capacity: Sequence[float], resources: Collection[int], most: int, names: Sequence[str]):
        """Of the resources of a tape; `names` are those of its operations."""
        self.clock = Clock(tape_capacity)
        self.load: Load = self.clock.record(resources, most)
        self.resources = sorted(resources)
        self.names = sorted(set(names))
        number = {name: code for code, name in enumerate(self.names)}
        self.labels = [number[name] for name in names]

    def book(self, s: State) -> None:
        """Take over what was booked."""
        stop, place = int(s.w[at.LOGGED]), 0
        rows, amounts = column(s, at.ROWS, stop).tolist(), s.f[s.w[at.AMOUNTS] :][:stop].tolist()
        load, capacity = self.load, self.clock.fluid.capacity
        while place < stop:
            resource, load.instant, count = rows[place : place + 3]
            place += 3
            by = {self.names[rows[i]]: amounts[i] for i in range(place, place + count)}
            load._append(resource, capacity[resource], by)
            place += count
        s.w[at.LOGGED] = 0

    def finish(self, s: State) -> None:
        """Nothing changes any more."""
        if s.w[at.NOW] > s.w[at.INSTANT]:
            book(s)
        self.book(s)
        self.load.instant = int(s.w[at.INSTANT])
        self.clock.ran(int(s.w[at.NOW]), 0)


def run(
    score: Score, solver: Solver | None, progress: Progress | None, advance: Advance, recording: Recording | None = None
) -> Timeline | None:
    """The timeline of a tape; None where lanes wait for ever, or where it is not for arrays. OverflowError past the
    last tick of the clock."""
    speeds = Speeds(solver)
    n = len(score.duration)
    labels = [0] * n if recording is None else recording.labels
    s, needs = state(score, speeds, labels, () if recording is None else recording.resources)
    capacity, processed = score.tape.capacity.tolist(), 0
    while (said := advance(s, STRIDE)) != at.DONE:
        if said == at.TOO_LONG:
            raise OverflowError(TOO_LONG)
        if said == at.OVERRUN:
            return None
        if said == at.ASK:
            members = column(s, at.MEMBERS, s.w[at.COUNT])
            scarce = set(column(s, at.SCARCE, s.w[at.SHORT]).tolist())
            own = [
                [use for use in needs[i].uses if use.resource in scarce]
                for i in s.w[s.w[at.R_NEEDS] + members].tolist()
            ]
            answer = speeds.ask(own, capacity)
            place = s.w[at.SPEEDS] + learn(s) + 1
            s.f[place : place + len(own)] = answer
        elif said == at.CROWDED:
            s = longer(s, "timers")
        elif said == at.FULL:
            if recording is not None:
                recording.book(s)
            if 2 * s.w[at.HEAP] * at.ENTRY > len(s.heap):
                s = longer(s, "heap")
        else:
            processed += STRIDE
            if progress is not None:
                progress(processed)
    if s.w[at.LANES]:
        return None
    if recording is not None:
        recording.finish(s)
    return _timeline(score, s)


def _timeline(score: Score, s: State) -> Timeline:
    """As `Player.timeline`, with the events of the resources."""
    duration = np.array(score.duration, np.int64)
    slots = len(duration) + len(score.rendezvous.size)
    end, begin = column(s, at.END, slots)[score.slots], column(s, at.BEGIN, slots)
    special = duration == SPECIAL
    start = np.where(special, begin[score.slots], end - duration)
    events = int(np.count_nonzero(duration > 0)) + int(np.count_nonzero(begin >= 0)) + int(s.w[at.EXTRA])
    events += 2 * int(np.count_nonzero(np.diff(score.tape.lane_start))) + 1 + int(s.w[at.EVENTS])
    return Timeline(start, end, events)
