"""Sequences filled up with padding: as they come, by buckets of about equal lengths, and shapes in turn.

What is padding of a microbatch of B sequences that are filled up to its longest, L: 1 - sum(lengths) / (B L).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from simulator.training.batches.base import Shape

Pair = tuple[int, int]
"""Tokens of a sequence, and of the encoder's; 0 without one."""


class Bucket(NamedTuple):
    """Sequences up to a bound."""

    bound: Pair
    sequences: int
    """Of a microbatch."""


def buckets(bounds: Sequence[int], encoder: Sequence[int], each: int, tokens: int | None) -> list[Bucket]:
    """All pairs of bounds, rising; `each` sequences a microbatch, or as many as `tokens` hold."""
    pairs = [(bound, other) for bound in bounds for other in encoder or (0,)]
    return [Bucket(pair, each if tokens is None else max(tokens // sum(pair), 1)) for pair in pairs]


def filled(members: Sequence[Pair], bound: Pair | None) -> Shape:
    """The microbatch of some sequences, filled up to a bound or to the longest of each kind."""
    longest = (max(one[0] for one in members), max(one[1] for one in members))
    tokens, encoder = longest if bound is None else bound
    return Shape(len(members), tokens, encoder)


def in_turn(pairs: Iterable[Pair], size: int) -> Iterator[list[Pair]]:
    """So many sequences at a time, in their order."""
    members: list[Pair] = []
    for pair in pairs:
        members.append(pair)
        if len(members) == size:
            yield members
            members = []


def by_bucket(pairs: Iterable[Pair], into: Sequence[Bucket], at_once: int) -> Iterator[tuple[Bucket, list[Pair]]]:
    """Each sequence goes to the smallest bucket that holds it; full ones are emptied, `at_once` microbatches of one
    bucket after each other."""
    rows = sorted({one.bound[0] for one in into})
    columns = sorted({one.bound[1] for one in into})
    place = {one.bound: one for one in into}
    waiting: dict[Pair, list[Pair]] = {one.bound: [] for one in into}
    for pair in pairs:
        bucket = place[rows[bisect_left(rows, pair[0])], columns[bisect_left(columns, pair[1])]]
        members = waiting[bucket.bound]
        members.append(pair)
        if len(members) == bucket.sequences * at_once:
            for start in range(0, len(members), bucket.sequences):
                yield bucket, members[start : start + bucket.sequences]
            members.clear()
