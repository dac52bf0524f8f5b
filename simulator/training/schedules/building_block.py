"""Orders on a V from a building block: the slots of one microbatch, repeated every six slots for those that follow.

A block has four legs: F down and up the V, I down and up again. Two of six slots are left on each rank, which take W.
Slots are then pulled together where a step begins and ends, as far as each rank keeps no more than the block does.

Source: arXiv:2405.15362, sections 3 and 4. There, slots are pulled with W in them first and without W afterwards; here
each free slot counts as a W that is owed, which needs one round and idles as little (docs/models/pipeline.md).
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from simulator.program.schedule import Schedule
from simulator.training.schedules.base import Pipeline
from simulator.training.schedules.orders import F, I, Pass, W, from_rows

PERIOD = 6
"""Passes of a microbatch on a rank: F, I and W of two chunks."""
Slots = dict[int, Pass]
"""Passes of a rank by their slot."""


@dataclass(frozen=True, slots=True)
class Block:
    """Where the passes of a microbatch stand; a pass takes one slot."""

    down: int
    """Slots from one rank to the next on the way from the first rank to the last, where I turns as slowly."""
    up: int
    """Slots from one rank to the next on the way back."""
    turn: int
    """Slots from F to I of the last stage."""
    limit: int
    """Most chunks that a rank keeps from F to W."""

    def starts(self, ranks: int) -> tuple[int, int, int, int]:
        """First slots of the four legs: F down, F up, I down, I up."""
        forward_up = self.down * (ranks - 1) + 1
        back_down = forward_up + self.up * (ranks - 1) + self.turn
        return 0, forward_up, back_down, back_down + self.down * ranks


def repeat(pipeline: Pipeline, block: Block) -> Schedule:
    """The block once for each microbatch, pulled together before the first microbatch is back and after the last has
    begun; everywhere if the last begins by then."""
    ranks, microbatches = pipeline.ranks, pipeline.microbatches
    rows = [_legs(block, ranks, rank, microbatches) for rank in range(ranks)]
    first_back = block.starts(ranks)[3] + block.up * (ranks - 1) - 1
    last_begun = PERIOD * (microbatches - 1) + 1
    end = max(map(max, rows)) + 1
    parts = [(0, first_back), (last_begun, end)] if last_begun > first_back + 1 else [(0, end)]
    for begin, until in parts:
        _pull(rows, begin, until, block.limit)
    return from_rows([_with_weights(row) for row in rows])


def _legs(block: Block, ranks: int, rank: int, microbatches: int) -> Slots:
    """F and I of a rank."""
    down, up, back = rank, 2 * ranks - 1 - rank, ranks - 1 - rank
    legs = (
        (F, down, block.down * rank),
        (F, up, block.up * back),
        (I, up, block.down * rank),
        (I, down, block.up * back),
    )
    first = [(start + way, kind, stage) for start, (kind, stage, way) in zip(block.starts(ranks), legs, strict=True)]
    return {slot + PERIOD * n: (kind, stage, n) for slot, kind, stage in first for n in range(microbatches)}


def _pull(rows: list[Slots], begin: int, end: int, limit: int) -> None:
    """Move passes of the slots from `begin` to `end`, each to the first free slot that what it takes and the limit
    allow, at most a period before `begin`."""
    floor, last = max(begin - PERIOD, 0), 2 * len(rows) - 1
    at = {one: slot for row in rows for slot, one in row.items()}
    levels = [deque(_levels(row, range(floor)), 1)[0] for row in rows]
    inside = sorted((slot, rank) for rank, row in enumerate(rows) for slot in row if begin <= slot < end)
    for slot, rank in inside:
        one = rows[rank].pop(slot)
        early = _early(one, at, last)
        for free in (free for free in range(max(early, floor), slot + 1) if free not in rows[rank]):
            at[one], rows[rank][free] = free, one
            levels_then = _levels(rows[rank], range(floor, slot), *levels[rank])
            if free == slot or all(kept <= limit for kept, _ in levels_then):
                break
            del rows[rank][free]


def _levels(row: Slots, slots: range, kept: int = 0, owed: int = 0) -> Iterator[tuple[int, int]]:
    """Chunks kept and W owed before the slots and after each, of which free ones take a W that is owed."""
    yield kept, owed
    for slot in slots:
        kind = row[slot][0] if slot in row else W
        if kind == F:
            kept += 1
        elif kind == I:
            owed += 1
        elif owed:
            kept, owed = kept - 1, owed - 1
        yield kept, owed


def _early(one: Pass, at: dict[Pass, int], last: int) -> int:
    """First slot after what a pass takes and after the microbatch before it. The last stage, which may keep logits,
    leaves room for I and W before its next F."""
    kind, stage, number = one
    after = [0]
    if number:
        after.append(at[I, last, number - 1] + 2 if kind == F and stage == last else at[kind, stage, number - 1] + 1)
    if kind == I:
        after.append(at[(I, stage + 1, number) if stage < last else (F, stage, number)] + 1)
    elif stage:
        after.append(at[F, stage - 1, number] + 1)
    return max(after)


def _with_weights(row: Slots) -> list[Pass]:
    """The passes in order, with each W in the first free slot after its I."""
    passes, owed = list[Pass](), deque[Pass]()
    for slot in range(max(row) + 1):
        if slot in row:
            kind, stage, number = row[slot]
            passes.append(row[slot])
            owed.extend([(W, stage, number)] if kind == I else [])
        elif owed:
            passes.append(owed.popleft())
    return [*passes, *owed]
