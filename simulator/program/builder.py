"""A program under construction: operations appended to lanes, put on a tape at the end.

Passes append blocks of operations and dependencies; each block is a handful of numpy calls. A lane runs its operations
turn by turn (a turn is what one rank does for one piece of its schedule), those of one turn in the order in which they
were appended.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import Activity, Tape
from simulator.program.lump import Lump, lump
from simulator.program.piece import Piece

Ints = NDArray[np.int64]
Values = NDArray[np.integer[Any]] | int

COLUMNS = ("lane", "turn", "content", "kind", "stage", "microbatch", "piece", "meeting", "activity", "apart")


@dataclass(slots=True)
class Builder:
    """Operations 0 .. n-1 in blocks, what they wait for, which others they meet, and what they share."""

    contents: list[Lump] = field(default_factory=list)
    """What operations consist of."""
    activities: list[Activity] = field(default_factory=list)
    resources: int = 0
    """Shared resources, each of capacity 1."""
    _blocks: list[Ints] = field(default_factory=list)
    """Columns one below the other; shapes (columns, operations)."""
    _count: int = 0
    _edges: list[Ints] = field(default_factory=list)
    """(later, earlier); shapes (2, m)."""
    _meetings: dict[Hashable, int] = field(default_factory=dict)
    _met: int = 0
    _numbers: dict[Piece, int] = field(default_factory=dict)
    _series: dict[tuple[Piece, ...], int] = field(default_factory=dict)
    _known: dict[Activity, int] = field(default_factory=dict)

    def append(
        self, lane: Values, turn: Values, content: Values, *, after: Values | None = None, **columns: Values
    ) -> Ints:
        """Append operations (n,) to lanes at their turns, each `after` one other; returns their numbers.

        Columns broadcast; those left out are -1. `meeting` numbers operations that start and end together.
        """
        given = {"lane": lane, "turn": turn, "content": content} | columns
        count = max((len(v) for v in given.values() if isinstance(v, np.ndarray) and v.ndim), default=1)
        if any(isinstance(v, np.ndarray) and v.ndim and not len(v) for v in given.values()):
            count = 0
        block = np.full((len(COLUMNS), count), -1, np.int64)
        for row, name in enumerate(COLUMNS):
            if name in given:
                block[row] = given[name]
        self._blocks.append(block)
        numbers = np.arange(self._count, self._count + count)
        self._count += count
        if after is not None:
            self.after(numbers, after)
        return numbers

    def after(self, later: Values, earlier: Values) -> None:
        """Each of `later` waits for its counterpart in `earlier`; the two broadcast."""
        pairs = np.stack(np.broadcast_arrays(np.asarray(later), np.asarray(earlier))).reshape(2, -1)
        self._edges.append(pairs.astype(np.int64))

    def meetings(self, name: Hashable, count: int) -> Ints:
        """Numbers of `count` meetings; the same name gets the same ones."""
        if name not in self._meetings:
            self._meetings[name] = self._met
            self._met += count
        return self._meetings[name] + np.arange(count)

    def resource(self) -> int:
        """A new shared resource of capacity 1."""
        self.resources += 1
        return self.resources - 1

    def activity(self, activity: Activity) -> int:
        """The number of an activity."""
        if activity not in self._known:
            self._known[activity] = len(self.activities)
            self.activities.append(activity)
        return self._known[activity]

    def content(self, pieces: Iterable[Piece]) -> int:
        """The number of what an operation consists of, the same for the same pieces."""
        key = tuple(pieces)
        if key not in self._series:
            self._series[key] = self._registered(key)
        return self._series[key]

    def _registered(self, pieces: Iterable[Piece]) -> int:
        self.contents.append(lump(pieces))
        return len(self.contents) - 1

    def piece(self, piece: Piece) -> int:
        """The number of an operation's content that is one piece."""
        if piece not in self._numbers:
            self._numbers[piece] = self._registered([piece])
        return self._numbers[piece]

    def pieces(self, pieces: Sequence[Piece]) -> Ints:
        """Numbers of contents of one piece each."""
        return np.array([self.piece(piece) for piece in pieces], np.int64)

    def ticks(self, contents: Ints) -> Ints:
        """What contents last alone, by number."""
        different, place = np.unique(contents, return_inverse=True)
        known: Ints = np.array([self.contents[each].ticks for each in different.tolist()], np.int64)
        return known[place].reshape(np.shape(contents))

    def build(self, lane_names: tuple[str, ...]) -> tuple[Tape, dict[str, Ints]]:
        """The tape, and the columns of its operations by name, each of shape (n,)."""
        block = np.concatenate([np.zeros((len(COLUMNS), 0), np.int64), *self._blocks], axis=1)
        order = np.lexsort((block[1], block[0]))
        columns = dict(zip(COLUMNS, block[:, order], strict=True))
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        later, earlier = place[np.concatenate([np.zeros((2, 0), np.int64), *self._edges], axis=1)]
        by_later = np.argsort(later, kind="stable")
        after_start = np.zeros(len(order) + 1, np.int64)
        np.cumsum(np.bincount(later, minlength=len(order)), out=after_start[1:])
        tape = Tape(
            lane_start=np.searchsorted(columns["lane"], np.arange(len(lane_names) + 1)),
            duration=self.ticks(columns["content"]) if len(order) else np.zeros(0, np.int64),
            after_start=after_start,
            after=earlier[by_later],
            rendezvous=columns["meeting"],
            activity=columns["activity"],
            activities=tuple(self.activities),
            capacity=np.ones(self.resources),
            lane_names=lane_names,
        )
        return tape, columns
