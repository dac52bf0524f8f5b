"""A pipeline schedule as columns: what each rank does, in order.

Big schedules (64 ranks, 512 microbatches) live as arrays; `actions` and `from_actions` turn them into the instruction
language and back. OVERLAP_F_B becomes its parts, one after the other, in columns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from simulator.program.actions import COMPUTE, Action, Kind


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

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def ranks(self) -> int:
        """Ranks along the pipeline."""
        return len(self.rank_start) - 1

    @property
    def stages(self) -> int:
        """Stages (model chunks) in all."""
        return int(self.stage.max(initial=-1)) + 1

    @property
    def microbatches(self) -> int:
        """Microbatches of a step."""
        return int(self.microbatch.max(initial=-1)) + 1

    @property
    def rank(self) -> NDArray[np.int64]:
        """Rank of each instruction; shape (n,)."""
        return np.repeat(np.arange(self.ranks), np.diff(self.rank_start))

    def rank_of_stage(self) -> NDArray[np.int64]:
        """The rank that holds each stage, -1 for a stage that nobody runs; shape (stages,)."""
        place = np.full(self.stages, -1, np.int64)
        place[self.stage] = self.rank
        return place

    def find(self, kinds: Iterable[Kind]) -> NDArray[np.int64]:
        """The instruction of some kinds for each stage and microbatch, -1 for none; shape (stages, microbatches)."""
        rows = np.flatnonzero(np.isin(self.kind, np.fromiter(kinds, np.int8)) & (self.microbatch >= 0))
        table = np.full((self.stages, self.microbatches), -1, np.int64)
        table[self.stage[rows], self.microbatch[rows]] = rows
        return table

    def only(self, kinds: Iterable[Kind]) -> "Schedule":
        """The instructions of some kinds."""
        keep = np.isin(self.kind, np.fromiter(kinds, np.int8))
        kept = np.concatenate(([0], np.cumsum(keep)))
        return Schedule(self.kind[keep], self.stage[keep], self.microbatch[keep], kept[self.rank_start])

    def passes(self) -> "Schedule":
        """The passes through stages alone."""
        return self.only(COMPUTE)

    def actions(self) -> list[list[Action]]:
        """The instructions of each rank."""
        kinds = [Kind(code) for code in range(len(Kind))]
        columns = zip(self.stage.tolist(), self.kind.tolist(), self.microbatch.tolist(), strict=True)
        rows = [Action(stage, kinds[kind], microbatch) for stage, kind, microbatch in columns]
        edges = self.rank_start.tolist()
        return [rows[a:b] for a, b in pairwise(edges)]


def from_actions(ranks: Sequence[Sequence[Action]]) -> Schedule:
    """Columns of the instructions of each rank."""
    rows = [[part for action in actions for part in action.passes()] for actions in ranks]
    flat = list(chain.from_iterable(rows))
    return Schedule(
        np.fromiter((action.kind for action in flat), np.int8, len(flat)),
        np.fromiter((action.stage for action in flat), np.int32, len(flat)),
        np.fromiter((action.microbatch for action in flat), np.int32, len(flat)),
        np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64),
    )
