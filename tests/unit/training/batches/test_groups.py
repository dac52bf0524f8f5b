"""Documents over groups of data-parallel ranks."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from simulator.training.batches.groups import (
    Group,
    Rows,
    Speed,
    _even,
    as_they_come,
    by_load,
    flexible,
    grouped,
    needed,
)

EVEN = Speed(linear=1.0, square=0.0, inside=0.0, across=0.0, per_node=8)
SQUARE = Speed(linear=1.0, square=0.01, inside=0.0, across=0.0, per_node=8)


def drawn(seed: int) -> list[int]:
    lengths = np.random.default_rng(seed).lognormal(np.log(100), 1.5, 60)
    found: list[int] = np.clip(np.rint(lengths), 1, 1600).astype(int).tolist()
    return found


def check(rows: Rows, lengths: list[int], capacity: int) -> None:
    """Every document is somewhere once, groups are neighbours that begin together, ranks have room."""
    found: Counter[int] = Counter()
    for slot in zip(*rows, strict=True):
        place = 0
        while place < len(slot):
            group = slot[place]
            size = 1 if group is None else group.ranks
            assert place % size == 0 and all(one is group or one == group for one in slot[place : place + size])
            if group is not None:
                assert sum(group.members) <= size * capacity
                found.update(group.members)
            place += size
    assert found == Counter(lengths)


def busy(rows: Rows, speed: Speed) -> list[float]:
    return [sum(speed.of(one, g.ranks) for g in row if g is not None for one in g.members) for row in rows]


def test_as_few_ranks_as_have_room_in_powers_of_two() -> None:
    assert [needed(length, 100) for length in (1, 100, 101, 200, 201, 400, 401)] == [1, 1, 2, 2, 4, 4, 8]


def test_a_group_takes_its_share_and_sends() -> None:
    speed = Speed(linear=1.0, square=0.1, inside=0.5, across=2.0, per_node=2)
    assert speed.of(10, 1) == 10 + 0.1 * 100
    assert speed.of(10, 2) == (10 * 1.5 + 0.1 * 100) / 2
    assert speed.of(10, 4) == (10 * 3.0 + 0.1 * 100) / 4


def test_documents_lie_on_the_next_free_ranks() -> None:
    """Room for 100: 150 needs two ranks, of which the next pair is aligned; what is left waits."""
    rows = as_they_come([60, 50, 150, 40, 350], 4, 100)
    short, pair, last, long = Group(1, (60,)), Group(2, (150,)), Group(1, (50, 40)), Group(4, (350,))
    assert rows == [[short, long, last], [None, long, None], [pair, long, None], [pair, long, None]]


def test_ranks_with_long_documents_run_fewer_microbatches() -> None:
    rows = by_load([200, *[50] * 12], 4, 100, EVEN)
    assert [sum(one is not None for one in row) for row in rows] == [2, 2, 2, 2]
    assert busy(rows, EVEN) == [200.0, 200.0, 200.0, 200.0]


@pytest.mark.parametrize("seed", range(3))
def test_no_document_is_lost_and_groups_are_neighbours(seed: int) -> None:
    lengths = drawn(seed)
    for rows in (
        as_they_come(lengths, 16, 100),
        by_load(lengths, 16, 100, SQUARE),
        flexible(lengths, 16, 100, SQUARE),
    ):
        check(rows, lengths, 100)


@pytest.mark.parametrize("seed", range(6))
def test_by_load_no_rank_is_busier_than_as_they_come(seed: int) -> None:
    lengths = drawn(seed)
    naive, own = as_they_come(lengths, 16, 100), by_load(lengths, 16, 100, SQUARE)
    assert max(busy(own, SQUARE)) <= max(busy(naive, SQUARE)) + 1e-9
    longest = max(SQUARE.of(one, needed(one, 100)) for one in lengths)
    assert max(busy(own, SQUARE)) <= sum(busy(own, SQUARE)) / 16 + longest


def test_groups_of_one_microbatch_by_hand() -> None:
    """One of 800 and four of 100 on eight ranks: half the ranks for the one, or all would wait for it."""
    found = grouped([800, 100, 100, 100, 100], 8, 200, EVEN)
    assert found is not None
    assert sorted(group.ranks for group in found) == [1, 1, 4]
    assert {group.ranks: sum(group.members) for group in found if group.ranks == 4} == {4: 800}
    assert max(sum(group.members) / group.ranks for group in found) == pytest.approx(200, rel=0.03)


def test_attention_makes_a_long_document_want_more_ranks() -> None:
    """Of products alone 260 on two ranks take no longer than the others on theirs, with attention twice that."""
    lengths = [260, *[60] * 15]
    products = grouped(lengths, 8, 400, EVEN)
    attention = grouped(lengths, 8, 400, Speed(linear=1.0, square=0.1, inside=0.0, across=0.0, per_node=8))
    assert products is not None and attention is not None
    assert (products[0].ranks, attention[0].ranks) == (2, 4)


def test_no_room_is_no_group() -> None:
    assert grouped([801], 8, 100, EVEN) is None
    assert grouped([401, 401], 8, 100, EVEN) is None  # four ranks hold 400


def test_microbatches_have_about_equal_lengths() -> None:
    """By falling length, so that the shortest of one is no shorter than the longest of the next."""
    rows = flexible(drawn(1) * 4, 16, 100, SQUARE)
    slots = [[one for group in slot if group is not None for one in group.members] for slot in zip(*rows, strict=True)]
    assert len(slots) > 1
    assert all(min(one) >= max(other) for one, other in pairwise(slots))


@pytest.mark.parametrize("seed", range(3))
def test_no_number_of_microbatches_is_better_than_the_one_found(seed: int) -> None:
    """Each of them tried to its end."""
    lengths = sorted(drawn(seed) * 3, reverse=True)
    rows = flexible(lengths, 16, 100, SQUARE)
    took = sum(max(SQUARE.group(one) for one in slot if one is not None) for slot in zip(*rows, strict=True))
    least = -(-sum(lengths) // 1600)
    every = [
        [grouped(part, 16, 100, SQUARE) for part in _even(lengths, count)] for count in range(least, 3 * least + 2)
    ]
    sums = [sum(max(map(SQUARE.group, one)) for one in parts if one) for parts in every if all(parts)]
    assert len(sums) > 2
    assert took == pytest.approx(min(sums), rel=1e-12)
