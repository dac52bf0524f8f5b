"""A program under construction: operations as columns, put in lane order at the end.

Passes add operations and dependencies, or cut operations into pieces; each pass is a handful of numpy calls. An
operation keeps its number while passes run; `build` sorts by lane and key and hands out the tape.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import Activity, Tape
from simulator.program.actions import COMPUTE, Kind
from simulator.program.content import Content, Lump, lump

Ints = NDArray[np.int64]

FORWARD, BACKWARD, INPUT, WEIGHT = (int(kind) for kind in COMPUTE)
SEND_FORWARD, SEND_BACKWARD = int(Kind.SEND_F), int(Kind.SEND_B)
GATHER, REDUCE = int(Kind.UNSHARD), int(Kind.REDUCE_GRAD)
EMBEDDING, OPTIMIZER = len(Kind), len(Kind) + 1

KINDS = (
    "forward",
    "backward",
    "input gradient",
    "weight gradient",
    "send forward",
    "receive forward",
    "send backward",
    "receive backward",
    "gather parameters",
    "drop parameters",
    "reduce gradients",
    "overlapped passes",
    "sum embedding gradients",
    "optimizer",
)
"""Names of operations by code: those of `Kind`, then what a step does around its schedule."""

COLUMNS = ("lane", "key", "kind", "stage", "microbatch", "piece", "duration", "rendezvous", "activity", "content")


@dataclass(slots=True)
class Draft:
    """Operations 0 .. n-1 as columns of shape (n,), and edges (later, earlier) of shape (m, 2)."""

    _rows: Ints = field(default_factory=lambda: np.zeros((len(COLUMNS), 0), np.int64))
    """Columns one below the other, with room for more operations: shape (columns, room)."""
    _count: int = 0
    edges: Ints = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    activities: list[Activity] = field(default_factory=list)
    resources: int = 0
    """Shared resources, each of capacity 1."""
    contents: list[Lump] = field(default_factory=list)
    """What operations consist of."""

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, column: str) -> Ints:
        """A column, to be read and written until operations are added or cut."""
        return self._rows[COLUMNS.index(column), : self._count]

    def add(self, **values: NDArray[np.integer[Any]] | int) -> Ints:
        """Append operations; missing columns are -1 (duration and key 0). Returns their numbers."""
        lengths = {len(v) for v in values.values() if isinstance(v, np.ndarray) and v.ndim}
        count = min(lengths, default=1)
        first = self._count
        self._make_room(count)
        self._count += count
        for column in COLUMNS:
            self[column][first:] = values.get(column, 0 if column in ("duration", "key") else -1)
        return np.arange(first, first + count)

    def _make_room(self, count: int) -> None:
        """Room for `count` more; twice as much each time, so that few of many additions copy those before."""
        room = self._rows.shape[1]
        if self._count + count > room:
            more = np.empty((len(COLUMNS), max(count, room)), np.int64)
            self._rows = np.concatenate([self._rows, more], axis=1)

    def after(self, later: Ints, earlier: Ints) -> None:
        """Each of `later` waits for its counterpart in `earlier`; the two broadcast."""
        pairs = np.stack(np.broadcast_arrays(np.asarray(later), np.asarray(earlier)), axis=-1).reshape(-1, 2)
        self.edges = np.concatenate([self.edges, pairs.astype(np.int64)])

    def cut(self, pieces: Ints) -> None:
        """Cut each operation i into pieces[i] >= 1 in a row; operations are numbered anew.

        What waited for the operation waits for its last piece; what it waited for holds up its first. The caller sets
        the durations; keys must leave room (`SPREAD`).
        """
        old = np.repeat(np.arange(len(self)), pieces)
        last = np.cumsum(pieces) - 1
        first = last - pieces + 1
        number = np.arange(len(old)) - first[old]
        self._rows, self._count = self._rows[:, old], len(old)
        self["piece"][:] = np.where(pieces[old] > 1, number, self["piece"])
        self["key"][:] += number
        self.edges = np.stack([first[self.edges[:, 0]], last[self.edges[:, 1]]], axis=1)

    def resource(self) -> int:
        """A new shared resource of capacity 1."""
        self.resources += 1
        return self.resources - 1

    def activity(self, activity: Activity) -> int:
        """Register an activity; returns its index."""
        self.activities.append(activity)
        return len(self.activities) - 1

    def content(self, parts: Iterable[Content]) -> int:
        """Register what an operation consists of; returns its index."""
        self.contents.append(lump(parts))
        return len(self.contents) - 1

    def register(self, lists: Sequence[Sequence[Content]]) -> "Registered":
        """Register each content of several lists as an operation's own."""
        lengths = [len(contents) for contents in lists]
        first = len(self.contents) + np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        lumps = [Lump(((content, 1),)) for contents in lists for content in contents]
        self.contents += lumps
        return Registered(first, np.array([each.ticks for each in lumps], np.int64))

    def build(self, lane_names: tuple[str, ...]) -> tuple[Tape, Ints]:
        """The tape, and for each position on it the number of the operation; shape (n,)."""
        order = np.lexsort((self["key"], self["lane"]))
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        later, earlier = place[self.edges[:, 0]], place[self.edges[:, 1]]
        by_later = np.argsort(later, kind="stable")
        after_start = np.zeros(len(order) + 1, np.int64)
        np.cumsum(np.bincount(later, minlength=len(order)), out=after_start[1:])
        lane_start = np.searchsorted(self["lane"][order], np.arange(len(lane_names) + 1))
        tape = Tape(
            lane_start=lane_start,
            duration=self["duration"][order],
            after_start=after_start,
            after=earlier[by_later],
            rendezvous=self["rendezvous"][order],
            activity=self["activity"][order],
            activities=tuple(self.activities),
            capacity=np.ones(self.resources),
            lane_names=lane_names,
        )
        return tape, order


@dataclass(frozen=True, slots=True)
class Registered:
    """Contents of several lists in a draft."""

    first: Ints
    """Number of the first content of each list, and one past the last; shape (lists + 1,)."""
    ticks: Ints
    """What each lasts, list after list."""

    def numbers(self, which: Ints | int, place: Ints | int) -> Ints:
        """Numbers of the contents at a place of a list."""
        found: Ints = self.first[which] + place
        return found

    def lasting(self, numbers: Ints) -> Ints:
        """Ticks of contents by number."""
        found: Ints = self.ticks[numbers - self.first[0]]
        return found


SPREAD = 1 << 20
"""Distance of the keys of neighbouring operations, so that pieces and collectives fit in between."""
