"""What to say when lanes wait for each other for ever.

Both executors stop with the set of operations that ended; from it and the tape this module finds each stuck lane,
its next operation, what that waits for, and one circle of lanes.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import Tape
from simulator.errors import DeadlockError

SHOWN = 20
"""Stuck lanes that a message names; the others are counted."""
LISTED = 4
"""Operations or lanes that one line of the message names."""


def deadlock(tape: Tape, ended: NDArray[np.bool_]) -> DeadlockError:
    """The error for a tape that stopped; `ended` tells for each operation whether it ran."""
    return DeadlockError(*stuck(tape, ended, {}))


def stuck(
    tape: Tape, ended: NDArray[np.bool_], lacks: Mapping[int, str], name: str = "", shown: int = SHOWN
) -> list[str]:
    """The lines about one tape of that name; `lacks` says which resource an operation that runs gets nothing of."""
    scene = _Scene(tape, ended, lacks)
    what = f"deadlock in {name}" if name else "deadlock"
    lines = [f"{what}: {len(scene.head)} of {len(tape.lane_start) - 1} lanes wait for ever"]
    circle = scene.circle()
    if circle:
        lines.append("they wait in a circle: " + " -> ".join(_shorten([tape.lane_name(lane) for lane in circle])))
    lines += [scene.line(lane) for lane in list(scene.head)[:shown]]
    if len(scene.head) > shown:
        lines.append(f"and {len(scene.head) - shown} more lanes")
    return lines


def _shorten(words: list[str], most: int = 8) -> list[str]:
    """The words, or the first and last of them and a count."""
    if len(words) <= most:
        return words
    half = most // 2
    return [*words[:half], f"({len(words) - 2 * half} more)", *words[-half:]]


class _Scene:
    """The stuck lanes and what they wait for."""

    def __init__(self, tape: Tape, ended: NDArray[np.bool_], lacks: Mapping[int, str]) -> None:
        """Find the next operation of each lane that has not finished."""
        self.tape, self.ended, self.lacks = tape, ended, lacks
        self.head: dict[int, int] = {}
        for lane, (first, stop) in enumerate(pairwise(tape.lane_start.tolist())):
            left = np.flatnonzero(~ended[first:stop])
            if left.size:
                self.head[lane] = first + int(left[0])

    def unmet(self, op: int) -> list[int]:
        """Operations that `op` comes after and that have not ended."""
        after = self.tape.after[self.tape.after_start[op] : self.tape.after_start[op + 1]]
        return [int(other) for other in after if not self.ended[other]]

    def absent(self, op: int) -> list[int]:
        """Members of the rendezvous of `op` whose lanes are not ready for it."""
        if self.tape.rendezvous[op] < 0:
            return []
        members = np.flatnonzero(self.tape.rendezvous == self.tape.rendezvous[op]).tolist()
        return [m for m in members if self.head.get(self.tape.lane_of(m)) != m or self.unmet(m)]

    def blockers(self, lane: int) -> list[int]:
        """Operations of other lanes for which a stuck lane waits."""
        op = self.head[lane]
        return self.unmet(op) or [m for m in self.absent(op) if m != op]

    def line(self, lane: int) -> str:
        """One lane of the message."""
        op, tape = self.head[lane], self.tape
        unmet = self.unmet(op)
        if op in self.lacks:
            what = f"waits for its share of {self.lacks[op]}"
        elif unmet:
            whom = _shorten([f"{tape.name(other)} of {tape.lane_name(tape.lane_of(other))}" for other in unmet], LISTED)
            what = "waits for " + ", ".join(whom)
        else:
            lanes = [tape.lane_name(tape.lane_of(m)) for m in self.absent(op)]
            what = f"waits in rendezvous {tape.rendezvous[op]} for " + ", ".join(_shorten(lanes, LISTED))
        return f"{tape.lane_name(lane)}: next is {tape.name(op)}, which {what}"

    def circle(self) -> list[int]:
        """Lanes that wait for each other, the first one again at the end; empty where there is no circle."""
        if not self.head:
            return []
        lane, seen = next(iter(self.head)), {}
        path: list[int] = []
        while lane not in seen:
            seen[lane] = len(path)
            path.append(lane)
            blockers = self.blockers(lane)
            if not blockers:
                return []
            lane = self.tape.lane_of(blockers[0])
        return [*path[seen[lane] :], lane]
