"""Documents into microbatches with room."""

from itertools import product

import numpy as np
import pytest

from simulator.training.batches.packing import balanced, dealt, first_fit


def drawn(seed: int, count: int, most: int) -> list[int]:
    found: list[int] = np.random.default_rng(seed).integers(1, most + 1, count).tolist()
    return found


def squares(lengths: list[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(lengths, np.float64) ** 2


def test_longest_first_into_the_first_with_room() -> None:
    packs, left = first_fit([3, 6, 2, 5, 4, 7], 10, 3)
    assert packs == [[7, 3], [6, 4], [5, 2]] and left == []
    assert first_fit([6, 6, 6], 10, 2) == ([[6], [6]], [6])


def test_least_work_first() -> None:
    lengths = [8, 4, 4, 4, 4]
    assert balanced(lengths, squares(lengths), 100, 2) == ([[8], [4, 4, 4, 4]], [])
    assert balanced(lengths, squares(lengths), 12, 2) == ([[8, 4], [4, 4, 4]], [])


def test_room_binds_before_work() -> None:
    assert balanced([9, 1, 1, 9], squares([9, 1, 1, 9]), 10, 2) == ([[9, 1], [9, 1]], [])
    assert balanced([9, 9, 9], squares([9, 9, 9]), 10, 2) == ([[9], [9]], [9])


@pytest.mark.parametrize("seed", range(5))
def test_documents_are_neither_lost_nor_cut(seed: int) -> None:
    lengths = drawn(seed, 60, 100)
    for packs, left in (first_fit(lengths, 120, 20), balanced(lengths, squares(lengths), 120, 20)):
        assert sorted([one for pack in packs for one in pack] + left) == sorted(lengths)
        assert all(sum(pack) <= 120 for pack in packs)


@pytest.mark.parametrize("seed", range(20))
def test_first_fit_decreasing_keeps_its_bound(seed: int) -> None:
    """At most 11/9 of the fewest packs and 2/3; documents are cut out of 30 full packs, so that 30 are enough."""
    cuts = np.random.default_rng(seed)
    lengths = [int(part) for _ in range(30) for part in np.diff([0, *np.sort(cuts.choice(99, 3, False) + 1), 100])]
    packs, left = first_fit(lengths, 100, len(lengths))
    assert not left and 30 <= sum(map(bool, packs)) <= 11 / 9 * 30 + 2 / 3


@pytest.mark.parametrize("seed", range(4))
def test_balanced_is_within_a_third_of_the_best_maximum(seed: int) -> None:
    """Against all assignments of nine documents to three packs (Graham 1969: 4/3 - 1/(3 m))."""
    lengths = drawn(seed, 9, 100)
    work = squares(lengths)
    packs, _ = balanced(lengths, work, 10_000, 3)
    best = min(
        max(sum(w for w, own in zip(work, choice, strict=True) if own == pack) for pack in range(3))
        for choice in product(range(3), repeat=9)
    )
    assert best <= max(float(squares(pack).sum()) for pack in packs) <= (4 / 3 - 1 / 9) * best + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_balanced_has_no_more_work_at_most_than_first_fit(seed: int) -> None:
    lengths = drawn(seed, 100, 400)
    packs = -(-sum(lengths) // 1000) + 2
    own, left = balanced(lengths, squares(lengths), 1200, packs)
    other, over = first_fit(lengths, 1200, packs)
    assert not left and not over
    assert max(squares(one).sum() for one in own) <= max(squares(one).sum() for one in other if one)


def test_microbatches_are_dealt_to_and_fro() -> None:
    """8, 7 | 3, 6 | 2, 1: sums of 13 and 14."""
    assert dealt([8, 1, 7, 2, 6, 3], 2) == [[0, 5, 3], [2, 4, 1]]
