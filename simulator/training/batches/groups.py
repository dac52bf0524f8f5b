"""Sequences over as many data-parallel ranks as they need: groups of different sizes in one step.

`hybrid` is ByteScale's hybrid data parallelism (arXiv:2502.21231): a sequence of l tokens lies on ranks that have room
for C tokens each, as few as hold it, and short ones stay on one. As they come, or balanced: by falling work, each on
the ranks that have least to do, so that ranks with long sequences run fewer microbatches. `flexible` is FlexSP
(arXiv:2412.01523): in every microbatch ranks form groups such that the slowest ends soonest; its mixed integer program
is replaced by a search over that time with first fit decreasing. Groups have a power of two of neighbouring ranks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import pairwise
from math import ceil

import numpy as np

from simulator.training.batches.packing import first_fit

FINER = 1.03
"""Factor between the times that are tried for the slowest group."""
MORE = 3
"""Times the least number of microbatches up to which more are tried."""


@dataclass(frozen=True, slots=True)
class Group:
    """Documents of one microbatch on so many ranks."""

    ranks: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Speed:
    """How long groups take, as far as a plan needs to know."""

    linear: float
    """Seconds of a token's products on one rank."""
    square: float
    """Seconds of attention over the square of a document's tokens."""
    inside: float
    """Seconds in which a token's rows travel between ranks of a node."""
    across: float
    """Seconds in which they travel between nodes."""
    per_node: int
    """Data-parallel ranks of a node."""

    def of(self, length: int, ranks: int) -> float:
        """Seconds of a document on a group of so many ranks."""
        sent = 0.0 if ranks == 1 else self.inside if ranks <= self.per_node else self.across
        return length * (self.linear + sent + self.square * length) / ranks

    def group(self, group: Group) -> float:
        """Seconds of a group."""
        return sum(self.of(length, group.ranks) for length in group.members)


Rows = list[list[Group | None]]
"""The microbatches of each rank; None where it has nothing to do."""


def needed(length: int, capacity: int) -> int:
    """The least power of two of ranks with room for so many tokens each that hold a document."""
    return 1 << (ceil(length / capacity) - 1).bit_length()


def as_they_come(lengths: Iterable[int], ranks: int, capacity: int) -> Rows:
    """Documents in their order on the next ranks that are free, a microbatch after the other; short ones together while
    there is room."""
    slots: list[list[Group | None]] = [[]]

    def place(group: Group) -> None:
        row = slots[-1]
        start = -(-len(row) // group.ranks) * group.ranks
        if start + group.ranks > ranks:
            slots.append([])
            row, start = slots[-1], 0
        row += [None] * (start - len(row)) + [group] * group.ranks

    open_pack: list[int] = []
    for length in lengths:
        if length > capacity:
            place(Group(needed(length, capacity), (length,)))
            continue
        if sum(open_pack) + length > capacity:
            place(Group(1, tuple(open_pack)))
            open_pack = []
        open_pack.append(length)
    if open_pack:
        place(Group(1, tuple(open_pack)))
    whole = [row + [None] * (ranks - len(row)) for row in slots]
    return [list(row) for row in zip(*whole, strict=True)]


def by_load(lengths: Iterable[int], ranks: int, capacity: int, speed: Speed) -> Rows:
    """Long documents first, the largest groups before others, each on the neighbours that have least to do; then short
    ones likewise, packed by each rank."""
    rows: Rows = [[] for _ in range(ranks)]
    load = np.zeros(ranks)
    found = sorted(lengths, reverse=True)
    long = [(needed(length, capacity), length) for length in found if length > capacity]
    for size, length in sorted(long, reverse=True):
        block = int(np.argmin(load.reshape(-1, size)[:, 0])) * size
        load[block : block + size] += speed.of(length, size)
        for row in rows[block : block + size]:
            row.append(Group(size, (length,)))
    own: list[list[int]] = [[] for _ in range(ranks)]
    heap = [(float(done), rank) for rank, done in enumerate(load)]
    heapify(heap)
    for length in (one for one in found if one <= capacity):
        done, rank = heap[0]
        own[rank].append(length)
        heapreplace(heap, (done + speed.of(length, 1), rank))
    for row, members in zip(rows, own, strict=True):
        packs, _ = first_fit(members, capacity, max(len(members), 1))
        row += [Group(1, tuple(pack)) for pack in packs if pack]
    most = max(map(len, rows))
    return [row + [None] * (most - len(row)) for row in rows]


def flexible(lengths: Sequence[int], ranks: int, capacity: int, speed: Speed) -> Rows:
    """Documents by falling length into microbatches, and groups in each such that the slowest ends soonest; of the
    numbers of microbatches from the least that has room on, the one whose slowest groups take least together. The
    largest group of a power of two of the `ranks` holds each document."""
    found = sorted(lengths, reverse=True)
    count, best, least = ceil(sum(found) / (ranks * capacity)), list[list[Group]](), float("inf")
    last = MORE * count + 1
    while count <= last or not best:
        took, whole = 0.0, list[list[Group]]()
        for part in _even(found, count):
            groups = grouped(part, ranks, capacity, speed)
            if groups is None:
                break
            whole.append(groups)
            took += max(map(speed.group, groups))
            if took >= least:
                break
        else:
            best, least = whole, took
        count += 1
    slots = [[group for group in part for _ in range(group.ranks)] for part in best]
    filled: Rows = [[*slot, *[None] * (ranks - len(slot))] for slot in slots]
    return [list(row) for row in zip(*filled, strict=True)]


def _even(lengths: Sequence[int], count: int) -> list[list[int]]:
    """Lengths in their order in so many parts of about equal tokens, none empty."""
    ends = np.cumsum(lengths)
    part = np.minimum((ends - np.array(lengths) / 2) * count // ends[-1], count - 1).astype(int)
    cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(lengths)]
    return [list(lengths[begin:end]) for begin, end in pairwise(cuts)]


def grouped(lengths: Sequence[int], ranks: int, capacity: int, speed: Speed) -> list[Group] | None:
    """Groups of the documents of one microbatch, the largest first, of which the slowest ends soonest; None where there
    is no room."""
    if sum(lengths) > ranks * capacity:
        return None
    sizes = [1 << power for power in range(ranks.bit_length()) if 1 << power <= ranks]
    each = [[speed.of(length, size) for size in sizes] for length in lengths]
    least = [next(number for number, size in enumerate(sizes) if length <= size * capacity) for length in lengths]
    limit = max(
        float(np.sum([one[0] for one in each])) / ranks,
        max(min(one[number:]) for one, number in zip(each, least, strict=True)),
    )
    for _ in range(2 * int(np.log(ranks) / np.log(FINER)) + 2):
        found = _within(lengths, each, least, sizes, ranks, capacity, limit)
        if found is not None:
            return found
        limit *= FINER
    return None


def _within(
    lengths: Sequence[int],
    each: Sequence[Sequence[float]],
    least: Sequence[int],
    sizes: Sequence[int],
    ranks: int,
    capacity: int,
    limit: float,
) -> list[Group] | None:
    """Groups that end within a time: each document in one of the smallest size that may have it, by first fit; None
    where they need more ranks than there are. `each` has the seconds of each document on groups of each size, `least`
    the place in `sizes` of the smallest that holds it."""
    chosen: list[list[int]] = [[] for _ in sizes]
    for place, number in enumerate(least):
        takes = each[place]
        while takes[number] > limit:
            number += 1
        chosen[number].append(place)
    found: list[Group] = []
    for number in reversed(range(len(sizes))):
        size, room = sizes[number], sizes[number] * capacity
        time, held, members = list[float](), list[int](), list[list[int]]()
        for place in chosen[number]:
            length, needs = lengths[place], each[place][number]
            for to, left in enumerate(time):
                if left >= needs and held[to] >= length:
                    break
            else:
                to, ranks = len(time), ranks - size
                if ranks < 0:
                    return None
                time.append(limit)
                held.append(room)
                members.append([])
            members[to].append(length)
            time[to] -= needs
            held[to] -= length
        found += [Group(size, tuple(own)) for own in members]
    return found
