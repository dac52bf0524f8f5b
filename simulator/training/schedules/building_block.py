"""V-Min: two chunks a rank in a V with the fewest activations, (p + 4) // 3 microbatches on every rank.

A building block of four legs (F down and up the V, I down and up) is repeated every six slots; the two slots that are
left take W. Legs that turn at once keep apart unless 3 divides p; then I waits two slots for F at the end of the
model. What waits so is pulled together again before the first microbatch is back and after the last has begun, where
slots are free.

Source: arXiv:2405.15362, and what its authors' search comes to (docs/models/pipeline.md).
"""

from collections import deque
from itertools import count

from simulator.program.schedule import Schedule
from simulator.training.schedules.base import SCHEDULES, Pipeline
from simulator.training.schedules.orders import F, I, Pass, W, from_rows, two_chunks

PERIOD = 6
"""Passes of a microbatch on a rank: F, I and W of two chunks."""
Slots = dict[int, Pass]
"""Passes of a rank by their slot."""


@SCHEDULES.add("v-min")
def v_min(pipeline: Pipeline) -> Schedule:
    """Every leg of the V takes one slot a rank; where 3 divides p the last stage waits two more between F and I, and
    passes are pulled together at both ends of a step of more than p microbatches."""
    two_chunks(pipeline, "v-min")
    ranks, microbatches = pipeline.ranks, pipeline.microbatches
    turn = 3 if ranks % 3 == 0 else 1
    placed = [_legs(ranks, rank, microbatches, turn) for rank in range(ranks)]
    rows = [_with_weights(own) for own in placed]
    if turn > 1 and microbatches > ranks:
        _pull(rows, 0, 4 * ranks, 2 * ((ranks + 4) // 3))
        placed = [{slot: one for slot, one in row.items() if one[0] != W} for row in rows]
        _pull(placed, max(PERIOD * (microbatches - 1) + 1, 4 * ranks), PERIOD * (microbatches + ranks))
        rows = [_with_weights(own) for own in placed]
    return from_rows([[row[slot] for slot in sorted(row)] for row in rows])


def _legs(ranks: int, rank: int, microbatches: int, turn: int) -> Slots:
    """F and I of a rank: down the V from its own number on, up after the turn at the last rank, and back so."""
    up, down = 2 * ranks - 1 - rank, rank
    first = 2 * ranks - 1 + turn
    legs = ((down, F, down), (up, F, up), (first + down, I, up), (first + up, I, down))
    return {at + PERIOD * n: (kind, stage, n) for at, kind, stage in legs for n in range(microbatches)}


def _with_weights(placed: Slots) -> Slots:
    """The slots with each W in the first free one after its I."""
    row, waiting, left = dict(placed), deque[Pass](), len(placed)
    for slot in count():
        if slot in placed:
            kind, stage, number = placed[slot]
            left -= 1
            if kind == I:
                waiting.append((W, stage, number))
        elif waiting:
            row[slot] = waiting.popleft()
        elif not left:
            return row
    raise AssertionError("slots never end")


def _pull(rows: list[Slots], begin: int, end: int, limit: int | None = None) -> None:
    """Move passes of the slots from `begin` to `end` each to the first free slot that what they take allows, a F only
    where the rank keeps no more than the limit until then."""
    last = 2 * len(rows) - 1
    at = {one: slot for row in rows for slot, one in row.items()}
    inside = sorted((slot, rank) for rank, row in enumerate(rows) for slot in row if begin <= slot < end)
    for slot, rank in inside:
        row = rows[rank]
        one = row.pop(slot)
        early = max((at[before] + 1 for before in _before(one, last)), default=0)
        free = (at_ for at_ in range(early, slot) if at_ not in row and _fits(row, one, at_, slot, limit))
        at[one] = next(free, slot)
        row[at[one]] = one


def _before(one: Pass, last: int) -> list[Pass]:
    """What a pass takes, and the pass of the microbatch before it."""
    kind, stage, number = one
    turn = [(kind, stage, number - 1)] if number else []
    if kind == W:
        return [*turn, (I, stage, number)]
    if kind == F:
        return [*turn, (F, stage - 1, number)] if stage else turn
    return [*turn, (I, stage + 1, number) if stage < last else (F, stage, number)]


def _fits(row: Slots, one: Pass, early: int, late: int, limit: int | None) -> bool:
    """Whether a rank keeps no more than the limit if a pass of a late slot takes an early one."""
    if limit is None or one[0] != F:
        return True
    kept = 1
    for slot in range(late):
        kind = row[slot][0] if slot in row else None
        kept += (kind == F) - (kind == W)
        if slot >= early and kept > limit:
            return False
    return True
