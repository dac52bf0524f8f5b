"""A pipeline schedule as columns: what each rank does, in order.

Big schedules (64 ranks, 512 microbatches) live as arrays; `actions` and `from_actions` turn them into the instruction
language and back. OVERLAP_F_B becomes its parts, one after the other, the first ones marked in `beside`.

A model may lie on the pipeline more than once, so that microbatches enter from both ends. Each copy has stage numbers
of its own: those of copy c begin at c times the stages of the model. Texts show the stage of the model, and the
microbatch tells the copy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from simulator.program.actions import COMPUTE, Action, Kind

Paths = tuple[tuple[int, ...], ...]
"""Stages that microbatches go through, in order: number n takes path n % len(paths); none: all go through all."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Instructions 0 .. n-1, rank after rank. Shapes: `kind`, `stage`, `microbatch` (n,), `rank_start` (ranks + 1,)."""

    kind: NDArray[np.int8]
    """Codes of `Kind`."""
    stage: NDArray[np.int32]
    """Stage that each concerns."""
    microbatch: NDArray[np.int32]
    """Microbatch, -1 where an instruction concerns a stage as a whole."""
    rank_start: NDArray[np.int64]
    """Rank r does the instructions rank_start[r] .. rank_start[r + 1] - 1 in this order."""
    beside: NDArray[np.bool_] | None = None
    """Which passes run side by side with the next one; shape (n,), None for no pass."""
    copies: int = 1
    """How often the model lies on the pipeline; a microbatch goes through one copy."""
    slices: int = 1
    """Slices of a microbatch along its sequence: number n is slice n % slices of microbatch n // slices."""
    paths: Paths = ()
    """Of microbatches that skip stages, with one copy of the model."""
    backward: bool = True
    """Whether there are backward passes."""
    steps: int = 1
    """Steps that follow each other without a flush, whose microbatches are numbered through; of several the last but
    one is in a steady state."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def ranks(self) -> int:
        """Ranks along the pipeline."""
        return len(self.rank_start) - 1

    @property
    def stages(self) -> int:
        """Stages (model chunks) in all, those of every copy."""
        return int(self.stage.max(initial=-1)) + 1

    @property
    def plain(self) -> bool:
        """Whether every microbatch goes as a whole through all stages of one copy, and back before the next step."""
        return self.copies == self.slices == self.steps == 1 and not self.paths and self.backward

    @property
    def depth(self) -> int:
        """Stages that a microbatch goes through."""
        return max(self.stages // self.copies, 1)

    @property
    def stage_of_model(self) -> NDArray[np.int32]:
        """Stage of each instruction whichever copy it belongs to; shape (n,)."""
        return self.stage % self.depth if self.copies > 1 else self.stage

    @property
    def microbatches(self) -> int:
        """Microbatches of a step, or all slices of them, or those of all steps."""
        return int(self.microbatch.max(initial=-1)) + 1

    @property
    def rank(self) -> NDArray[np.int64]:
        """Rank of each instruction; shape (n,)."""
        return np.repeat(np.arange(self.ranks), np.diff(self.rank_start))

    def rank_of_stage(self) -> NDArray[np.int64]:
        """The rank that holds each stage, -1 for a stage that no rank runs; shape (stages,)."""
        place = np.full(self.stages, -1, np.int64)
        place[self.stage] = self.rank
        return place

    def neighbours(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Stages before and after each on the path of each microbatch, -1 for none; shape (stages, microbatches)."""
        before = np.full((self.stages, self.microbatches), -1, np.int64)
        after = before.copy()
        if not self.paths:
            within = np.arange(self.stages)[:, None] % self.depth
            before[1:] = np.where(within[1:] > 0, np.arange(self.stages - 1)[:, None], -1)
            after[:-1] = np.where(within[1:] > 0, np.arange(1, self.stages)[:, None], -1)
        for first, path in enumerate(self.paths):
            for one, other in pairwise(path):
                before[other, first :: len(self.paths)] = one
                after[one, first :: len(self.paths)] = other
        return before, after

    def find(self, kinds: Iterable[Kind]) -> NDArray[np.int64]:
        """The instruction of some kinds for each stage and microbatch, -1 for none; shape (stages, microbatches)."""
        rows = np.flatnonzero(np.isin(self.kind, np.fromiter(kinds, np.int8)) & (self.microbatch >= 0))
        table = np.full((self.stages, self.microbatches), -1, np.int64)
        table[self.stage[rows], self.microbatch[rows]] = rows
        return table

    @property
    def vocabulary_sums(self) -> int:
        """How often ranks sum before the last stage goes back, where each holds a part of the vocabulary: 0 where none
        does, 2 where T is done before that, 1 where gradients of the last stage's output come with S."""
        if not np.any(self.kind == Kind.S):
            return 0
        back, last = self.find((Kind.B, Kind.I))[self.depth - 1], self.rank_of_stage()[self.depth - 1]
        rows = np.flatnonzero((self.kind == Kind.T) & (self.rank == last))
        return 2 if np.any(rows < back[self.microbatch[rows]]) else 1

    def only(self, kinds: Iterable[Kind]) -> "Schedule":
        """The instructions of some kinds."""
        keep = np.isin(self.kind, np.fromiter(kinds, np.int8))
        kept = np.concatenate(([0], np.cumsum(keep)))
        beside = None if self.beside is None else self.beside[keep]
        columns = self.kind[keep], self.stage[keep], self.microbatch[keep], kept[self.rank_start]
        return Schedule(*columns, beside, self.copies, self.slices, self.paths, self.backward, self.steps)

    def groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last instruction of those that run side by side with each; shapes (n,)."""
        rows = np.arange(len(self))
        if self.beside is None or not self.beside.any():
            return rows, rows
        begins = np.concatenate(([True], ~self.beside[:-1]))[: len(self)]
        first = np.flatnonzero(begins)
        number = np.cumsum(begins) - 1
        return first[number], np.append(first[1:], len(self))[number] - 1

    def passes(self) -> "Schedule":
        """The passes through stages alone."""
        return self.only(COMPUTE)

    def actions(self) -> list[list[Action]]:
        """The instructions of each rank."""
        kinds = [Kind(code) for code in range(len(Kind))]
        columns = zip(self.stage_of_model.tolist(), self.kind.tolist(), self.microbatch.tolist(), strict=True)
        rows = [Action(stage, kinds[kind], microbatch) for stage, kind, microbatch in columns]
        edges = self.rank_start.tolist()
        if self.beside is None:
            return [rows[a:b] for a, b in pairwise(edges)]
        first, last = self.groups()
        begins = [np.flatnonzero(first[a:b] == np.arange(a, b)) + a for a, b in pairwise(edges)]
        return [[_together(rows[i : last[i] + 1]) for i in part.tolist()] for part in begins]


def _together(parts: Sequence[Action]) -> Action:
    """One instruction for passes side by side."""
    return parts[0] if len(parts) == 1 else Action(-1, Kind.OVERLAP_F_B, parts=tuple(parts))


def from_actions(ranks: Sequence[Sequence[Action]]) -> Schedule:
    """Columns of the instructions of each rank.

    Where every stage of several lies on equally many ranks, more than one, these hold copies of the model; a microbatch
    belongs to the copy whose first stage runs it.
    """
    rows = [[part for action in actions for part in action.passes()] for actions in ranks]
    flat = list(chain.from_iterable(rows))
    beside = [i + 1 < len(action.passes()) for row in ranks for action in row for i in range(len(action.passes()))]
    schedule = Schedule(
        np.fromiter((action.kind for action in flat), np.int8, len(flat)),
        np.fromiter((action.stage for action in flat), np.int32, len(flat)),
        np.fromiter((action.microbatch for action in flat), np.int32, len(flat)),
        np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64),
        np.array(beside) if any(beside) else None,
    )
    return _in_copies(schedule)


def _in_copies(schedule: Schedule) -> Schedule:
    """The schedule with stages numbered by copy, where there are several."""
    places = np.unique(np.stack([schedule.stage, schedule.rank])[:, schedule.stage >= 0], axis=1)
    counts = np.bincount(places[0]) if places.size else np.ones(1, np.int64)
    copies = int(counts[0])
    if copies == 1 or len(counts) == 1 or np.any(counts != copies):
        return schedule
    enters = np.flatnonzero((schedule.kind == Kind.F) & (schedule.stage == 0))
    copy = np.zeros(max(schedule.microbatches, 1), np.int32)
    copy[schedule.microbatch[enters]] = np.searchsorted(places[1, :copies], schedule.rank[enters])
    stages, ranks = zip(schedule.stage.tolist(), schedule.rank.tolist(), strict=True), places
    whole = [np.searchsorted(ranks[1, ranks[0] == stage], rank) for stage, rank in stages]
    own = np.where(schedule.microbatch >= 0, copy[schedule.microbatch], whole).astype(np.int32)
    return replace(schedule, stage=schedule.stage + own * np.int32(schedule.stages), copies=copies)
