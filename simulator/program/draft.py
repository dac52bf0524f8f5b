"""A program under construction: operations as columns, put in lane order at the end.

Passes add operations and dependencies, or cut operations into pieces; each pass is a handful of numpy calls. An
operation keeps its number while passes run; `build` sorts by lane and key and hands out the tape.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import Activity, Tape
from simulator.program.actions import COMPUTE, Kind

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

COLUMNS = ("lane", "key", "kind", "stage", "microbatch", "piece", "duration", "rendezvous", "activity")


@dataclass(slots=True)
class Draft:
    """Operations 0 .. n-1 as columns of shape (n,), and edges (later, earlier) of shape (m, 2)."""

    columns: dict[str, Ints] = field(default_factory=lambda: {c: np.zeros(0, np.int64) for c in COLUMNS})
    edges: Ints = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    activities: list[Activity] = field(default_factory=list)
    resources: int = 0
    """Shared resources, each of capacity 1."""

    def __len__(self) -> int:
        return len(self.columns["lane"])

    def __getitem__(self, column: str) -> Ints:
        return self.columns[column]

    def add(self, **values: NDArray[np.integer[Any]] | int) -> Ints:
        """Append operations; missing columns are -1 (duration and key 0). Returns their numbers."""
        lengths = {len(v) for v in values.values() if isinstance(v, np.ndarray) and v.ndim}
        count = min(lengths, default=1)
        first = len(self)
        for column in COLUMNS:
            default = 0 if column in ("duration", "key") else -1
            new = np.broadcast_to(np.asarray(values.get(column, default), np.int64), count)
            self.columns[column] = np.concatenate([self.columns[column], new])
        return np.arange(first, first + count)

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
        for name in COLUMNS:
            self.columns[name] = self.columns[name][old]
        self.columns["piece"] = np.where(pieces[old] > 1, number, self.columns["piece"])
        self.columns["key"] = self.columns["key"] + number
        self.edges = np.stack([first[self.edges[:, 0]], last[self.edges[:, 1]]], axis=1)

    def resource(self) -> int:
        """A new shared resource of capacity 1."""
        self.resources += 1
        return self.resources - 1

    def activity(self, activity: Activity) -> int:
        """Register an activity; returns its index."""
        self.activities.append(activity)
        return len(self.activities) - 1

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


SPREAD = 1 << 20
"""Distance of the keys of neighbouring operations, so that pieces and collectives fit in between."""
