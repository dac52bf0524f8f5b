"""Sequences filled up with padding."""

from collections import Counter

import pytest

from simulator.training.batches.base import Batch, Shape, batch_of
from simulator.training.batches.padding import Bucket, buckets, by_bucket, filled, in_turn


def test_a_microbatch_is_as_long_as_its_longest() -> None:
    assert filled([(3, 0), (7, 0)], None) == Shape(2, 7)
    assert filled([(3, 20), (7, 10)], None) == Shape(2, 7, 20)
    assert filled([(3, 20), (7, 10)], (8, 32)) == Shape(2, 8, 32)


def test_padding_in_closed_form() -> None:
    """1 - sum(lengths) / (B L), over all microbatches."""
    shape = filled([(3, 0), (7, 0)], None)
    assert batch_of([[shape]], Counter({(3, 0): 1, (7, 0): 1})).padding == pytest.approx(1 - 10 / 14)
    pairs = filled([(3, 20), (7, 10)], None)
    assert batch_of([[pairs]], Counter({(3, 20): 1, (7, 10): 1})).padding == pytest.approx(1 - 40 / 54)


def test_equal_microbatches_are_one_shape() -> None:
    batch = batch_of([[Shape(1, 8), Shape(1, 4)], [Shape(1, 8), Shape(1, 8)]], Counter({(8, 0): 3, (4, 0): 1}))
    assert batch == Batch((Shape(1, 4), Shape(1, 8)), ((1, 0), (1, 1)), ((4, 0, 1), (8, 0, 3)))
    assert (batch.sequences, batch.tokens, batch.padding) == (4, 28, 0.0)


def test_sequences_are_taken_in_turn() -> None:
    assert list(in_turn([(1, 0), (2, 0), (3, 0)], 2)) == [[(1, 0), (2, 0)]]


def test_a_bucket_holds_as_many_as_its_tokens() -> None:
    assert buckets([4, 8], [], 3, None) == [Bucket((4, 0), 3), Bucket((8, 0), 3)]
    assert buckets([4, 8], [], 1, 16) == [Bucket((4, 0), 4), Bucket((8, 0), 2)]
    assert buckets([4], [12, 60], 1, 32) == [Bucket((4, 12), 2), Bucket((4, 60), 1)]


def test_each_goes_to_the_smallest_bucket_that_holds_it() -> None:
    lengths = [(1, 0), (5, 0), (4, 0), (8, 0), (2, 0)]
    found = list(by_bucket(lengths, buckets([4, 8], [], 2, None), 1))
    assert [(one.bound[0], members) for one, members in found] == [(4, [(1, 0), (4, 0)]), (8, [(5, 0), (8, 0)])]


def test_in_two_dimensions_both_bounds_hold() -> None:
    into = buckets([4, 8], [10, 20], 1, None)
    found = {members[0]: one.bound for one, members in by_bucket([(4, 11), (5, 10), (1, 1), (8, 20)], into, 1)}
    assert found == {(4, 11): (4, 20), (5, 10): (8, 10), (1, 1): (4, 10), (8, 20): (8, 20)}


def test_ranks_that_take_from_one_bucket_do_so_one_after_the_other() -> None:
    found = by_bucket([(1, 0), (5, 0), (2, 0), (6, 0)], buckets([4, 8], [], 1, None), 2)
    assert [one.bound[0] for one, _ in found] == [4, 4, 8, 8]
