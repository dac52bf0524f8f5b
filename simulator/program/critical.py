"""The critical path: the operations that the makespan is made of, by which waited for which."""

from collections.abc import Iterator

import numpy as np

from simulator.engine.tape import Ints, Tape, Timeline


def critical_path(tape: Tape, timeline: Timeline) -> Ints:
    """Operations without a gap from tick 0 to the makespan, in the order of time; shape (k,).

    Each starts at the tick at which the one before it ends. Where several predecessors end at that tick the one on
    the same lane is named, and of a rendezvous the member that was ready last. ValueError where the timeline leaves a
    gap, so that it cannot be of this tape.
    """
    if not len(tape):
        return np.zeros(0, np.int64)
    walk = _Walk(tape, timeline)
    op = int(np.argmax(timeline.end))
    path = []
    while True:
        op, before = walk.step(op)
        path.append(op)
        if before < 0:
            return np.array(path[::-1], np.int64)
        op = before


class _Walk:
    """Goes from an operation to the one that it waited for."""

    def __init__(self, tape: Tape, timeline: Timeline) -> None:
        """Index the lanes and the rendezvous."""
        self.tape, self.timeline = tape, timeline
        self.is_first = np.zeros(len(tape) + 1, np.bool_)
        self.is_first[tape.lane_start[:-1]] = True
        self.order = np.argsort(tape.rendezvous, kind="stable")
        self.rendezvous = tape.rendezvous[self.order]

    def step(self, op: int) -> tuple[int, int]:
        """The last member to be ready of the rendezvous of `op` (or itself), and what it waited for, -1 at tick 0."""
        start = int(self.timeline.start[op])
        if start == 0:
            return op, -1
        for member in self.members(op):
            for before in self.before(member):
                if self.timeline.end[before] == start:
                    return member, before
        name = self.tape.name(op)
        raise ValueError(f"nothing ends at tick {start}, when {name} starts: this is another tape's timeline")

    def members(self, op: int) -> list[int]:
        """The operation, then the others of its rendezvous."""
        rendezvous = self.tape.rendezvous[op]
        if rendezvous < 0:
            return [op]
        low, high = np.searchsorted(self.rendezvous, [rendezvous, rendezvous + 1])
        return [op, *(int(other) for other in self.order[low:high] if other != op)]

    def before(self, op: int) -> Iterator[int]:
        """What the operation waits for: its lane, then what it comes after."""
        if not self.is_first[op]:
            yield op - 1
        yield from self.tape.after[self.tape.after_start[op] : self.tape.after_start[op + 1]].tolist()
