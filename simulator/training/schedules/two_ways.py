"""Microbatches that enter from both ends: DualPipe and Chimera on two copies of the model, DualPipeV on one in a V.

Copy 0 goes up the ranks with the first half of the microbatches, copy 1 down with the second, so that rank r holds the
stages r and p - 1 - r. Under DualPipe a forward pass of one direction runs beside a backward pass of the other.

Sources: DualPipe and DualPipeV, github.com/deepseek-ai/DualPipe; Chimera, arXiv:2107.06925, whose units of p
microbatches, half of them a direction, follow each other.
"""

from typing import NamedTuple

import numpy as np

from simulator.errors import InputError, Problem
from simulator.program.schedule import Schedule
from simulator.training.schedules.base import SCHEDULES, ChunksError, Pipeline
from simulator.training.schedules.orders import B, F, I, Pass, W, from_rows, two_chunks


class _Way(NamedTuple):
    """A direction as a rank sees it: the stage that it runs, and the microbatches that come along."""

    stage: int
    first: int
    many: int


@SCHEDULES.add("dualpipe")
def dualpipe(pipeline: Pipeline) -> Schedule:
    """Two copies, forward and backward passes side by side, p + 1 microbatches kept on every rank."""
    _even(pipeline, "dualpipe")
    ranks, microbatches = pipeline.ranks, pipeline.microbatches
    if microbatches % 2 or microbatches < 2 * ranks:
        message = f"schedule `dualpipe` runs an even number of microbatches, {2 * ranks} or more, not {microbatches}"
        raise InputError(Problem(message, hint=f"write {max(microbatches + microbatches % 2, 2 * ranks)}"))
    half, rows = microbatches // 2, []
    for rank in range(ranks):
        ways = _Way(rank, 0, half), _Way(2 * ranks - 1 - rank, half, half)
        upper = rank >= ranks // 2
        near, far = reversed(ways) if upper else ways
        place = ranks - 1 - rank if upper else rank
        rows.append(_both(near, far, place, ranks // 2, apart=place == ranks // 2 - 1))
    return _paired(rows, copies=2)


@SCHEDULES.add("dualpipev")
def dualpipev(pipeline: Pipeline) -> Schedule:
    """DualPipe cut in half: one copy in a V, 2 p + 1 chunks kept on every rank."""
    two_chunks(pipeline, "dualpipev")
    ranks, microbatches = pipeline.ranks, pipeline.microbatches
    if microbatches < 2 * ranks:
        message = f"schedule `dualpipev` needs {2 * ranks} microbatches or more, not {microbatches}"
        raise InputError(Problem(message, hint="write `zb-v`, which takes fewer"))
    every = [(_Way(rank, 0, microbatches), _Way(2 * ranks - 1 - rank, 0, microbatches)) for rank in range(ranks)]
    return _paired([_both(*ways, rank, ranks, apart=rank == ranks - 1) for rank, ways in enumerate(every)], copies=1)


class _Row:
    """Passes of a rank, each with whether it runs beside the next; way 0 is the near one, which comes first."""

    def __init__(self, near: _Way, far: _Way) -> None:
        """Nothing has run."""
        self.ways = near, far
        self.next = {(kind, way): 0 for kind in (F, B) for way in (0, 1)}
        self.owed: list[Pass] = []
        self.passes: list[tuple[Pass, bool]] = []

    def forward(self, way: int, beside: bool = False) -> None:
        """F of the next microbatch of a way."""
        self.passes.append(((F, *self._take(F, way)), beside))

    def backward(self, way: int, split: bool = False) -> None:
        """B of the next microbatch of a way, or I alone."""
        stage, microbatch = self._take(B, way)
        self.passes.append(((I if split else B, stage, microbatch), False))
        if split:
            self.owed.append((W, stage, microbatch))

    def weights(self) -> None:
        """The oldest W that is owed."""
        self.passes.append((self.owed.pop(0), False))

    def pair(self, forward: int, backward: int) -> None:
        """F of one way beside B of the other."""
        self.forward(forward, beside=True)
        self.backward(backward)

    def _take(self, kind: int, way: int) -> tuple[int, int]:
        turn = self.next[kind, way]
        self.next[kind, way] = turn + 1
        return self.ways[way].stage, self.ways[way].first + turn


def _both(near: _Way, far: _Way, place: int, half: int, apart: bool) -> _Row:
    """What the rank runs that is `place` ranks from its end, of `half` up to the turn; `apart` runs its first pair one
    after the other, as the two ways meet there."""
    row, left = _Row(near, far), half - place - 1
    for _ in range(2 * left):
        row.forward(0)
    for _ in range(place + 1):
        row.forward(0)
        row.forward(1)
    for _ in range(left):
        row.backward(1, split=True)
        row.weights()
        row.forward(1)
    for turn in range(near.many - 2 * half + place + 1):
        row.forward(0, beside=not (apart and turn == 0))
        row.backward(1)
        row.pair(1, 0)
    for _ in range(left):
        row.backward(1)
        row.pair(1, 0)
    for turn in range(2 * (place + 1)):
        row.backward(1 - turn % 2, split=turn > place)
    for _ in range(left):
        row.weights()
        row.backward(0, split=True)
    while row.owed:
        row.weights()
    return row


def _paired(rows: list[_Row], copies: int) -> Schedule:
    """The schedule of the ranks."""
    made = from_rows([[one for one, _ in row.passes] for row in rows])
    beside = np.array([mark for row in rows for _, mark in row.passes])
    return Schedule(made.kind, made.stage, made.microbatch, made.rank_start, beside if beside.any() else None, copies)


def _even(pipeline: Pipeline, name: str) -> None:
    """InputError where two copies cannot lie on the ranks, one up and one down."""
    if pipeline.chunks != 1:
        message = f"schedule `{name}` runs one chunk a rank and copy, not {pipeline.chunks}"
        raise ChunksError(Problem(message, hint="write `vpp: 1`"))
    if pipeline.ranks % 2:
        message = (
            f"schedule `{name}` needs an even number of ranks (its two copies meet in the middle), not {pipeline.ranks}"
        )
        fewer = f" or {pipeline.ranks - 1}" if pipeline.ranks > 1 else ""
        raise InputError(Problem(message, hint=f"write {pipeline.ranks + 1}{fewer}"))


@SCHEDULES.add("chimera")
def chimera(pipeline: Pipeline) -> Schedule:
    """Two copies in units of p microbatches; in a unit rank s of a direction has slot s + 2 j for F of its microbatch j
    and 2 p - 1 - s + 2 j for B, which never meet those of the other."""
    _even(pipeline, "chimera")
    ranks, microbatches = pipeline.ranks, pipeline.microbatches
    if microbatches % ranks:
        message = f"schedule `chimera` runs units of {ranks} microbatches, and {microbatches} are no multiple of it"
        raise InputError(Problem(message, hint=f"write {-(-microbatches // ranks) * ranks}"))
    slots: list[list[tuple[int, Pass]]] = [[] for _ in range(ranks)]
    for number in range(microbatches):
        unit, within = divmod(number, ranks)
        copy, turn = divmod(within, ranks // 2)
        for stage in range(ranks):
            rank = ranks - 1 - stage if copy else stage
            at = 2 * ranks * unit + 2 * turn
            slots[rank].append((at + stage, (F, copy * ranks + stage, number)))
            slots[rank].append((at + 2 * ranks - 1 - stage, (B, copy * ranks + stage, number)))
    made = from_rows([[one for _, one in sorted(row)] for row in slots])
    return Schedule(made.kind, made.stage, made.microbatch, made.rank_start, copies=2)
