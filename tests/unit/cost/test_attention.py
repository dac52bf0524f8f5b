"""The walk of fused attention, against counting it block by block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cost.attention import AttentionCurve, attention_seconds, rate_at, walked, walked_within
from simulator.cost.work import attended_pairs

PLAIN = AttentionCurve(
    peak=1e15,
    bandwidth=1e30,
    cores=100,
    rows=128,
    forward=((64, 5e12), (128, 1e13)),
    backward=((128, 5e12),),
    launch=0.0,
    block=0.0,
    backward_block=0.0,
    tail=0.0,
)


def _counted(query: int, context: int, causal: bool, rows: int) -> int:
    total = 0
    for block in range(-(-query // rows)):
        last = min(query, (block + 1) * rows)
        total += max(0, context - query + last) if causal else context
    return total


@given(st.integers(1, 5000), st.integers(0, 5000), st.booleans(), st.sampled_from([64, 128]))
def test_keys_walked_over(query: int, cached: int, causal: bool, rows: int) -> None:
    blocks, keys = walked(query, query + cached, causal, rows)
    assert blocks == -(-query // rows)
    assert keys == _counted(query, query + cached, causal, rows)


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_keys_walked_over_where_queries_outnumber_them(query: int, context: int) -> None:
    assert walked(query, context, True, 128)[1] == _counted(query, context, True, 128)


def test_rates_between_head_sizes() -> None:
    assert rate_at(96, PLAIN.forward) == pytest.approx(7.5e12)
    assert rate_at(32, PLAIN.forward) == pytest.approx(2.5e12)
    assert rate_at(64, PLAIN.forward) == 5e12
    assert rate_at(256, PLAIN.forward) == 1e13


def test_many_heads_run_at_the_rate_of_all_cores() -> None:
    time, _, _ = attention_seconds(1000, 1024, 1024, 128, False, False, 0.0, PLAIN)
    assert time == pytest.approx(4.0 * 1000 * 1024 * 1024 * 128 / (100 * 1e13))


def test_causal_attention_costs_a_little_more_than_half() -> None:
    full = attention_seconds(1000, 4096, 4096, 128, False, False, 0.0, PLAIN)[0]
    causal = attention_seconds(1000, 4096, 4096, 128, True, False, 0.0, PLAIN)[0]
    assert 0.5 < causal / full < 0.53


def test_the_backward_pass_has_five_products_at_its_own_rate() -> None:
    forward = attention_seconds(1000, 1024, 1024, 128, False, False, 0.0, PLAIN)[0]
    backward = attention_seconds(1000, 1024, 1024, 128, False, True, 0.0, PLAIN)[0]
    assert backward == pytest.approx(forward * 2.5 * 2)


def test_one_head_cannot_be_faster_than_its_longest_block() -> None:
    time, _, _ = attention_seconds(1, 1024, 65536, 128, True, False, 0.0, PLAIN)
    assert time == pytest.approx(65536 * 4.0 * 128 * 128 / 1e13)


@given(st.integers(1, 3000), st.integers(1, 3000), st.booleans())
def test_blocks_under_a_window_walk_from_a_window_before_their_first_row(
    length: int, window: int, chunked: bool
) -> None:
    if window >= length:
        return
    _, keys, most = walked_within(length, length, window, chunked, 128)
    if chunked:
        sizes = [min(window, length - start) for start in range(0, length, window)]
        assert keys == sum(walked(size, size, True, 128)[1] for size in sizes)
    else:
        starts = range(0, length, 128)
        assert keys == sum(min(start + 128, length) - max(0, start - window) for start in starts)
    assert most <= length


@given(st.integers(1, 200), st.integers(1, 200), st.booleans())
def test_pairs_within_a_window_are_counted_one_by_one(length: int, window: int, chunked: bool) -> None:
    first = (lambda i: i // window * window) if chunked else (lambda i: max(0, i - window + 1))
    counted = sum(i - first(i) + 1 for i in range(length))
    if window < length:
        assert attended_pairs(length, length, True, window, chunked) == counted
    else:
        assert attended_pairs(length, length, True, window, chunked) == length**2 / 2


def test_heads_with_narrow_values_take_their_share() -> None:
    """192 elements of keys and 128 of values: forward (192 + 128) / 2 in place of a head's size, backward three
    products of the one and two of the other."""
    for backward, share in ((False, (192 + 128) / (2 * 192)), (True, (3 * 192 + 2 * 128) / (5 * 192))):
        wide, narrow = (
            attention_seconds(1000, 1024, 1024, 192, False, backward, 0.0, PLAIN, value_dim=values)[0]
            for values in (None, 128)
        )
        assert narrow / wide == pytest.approx(share)


def test_a_window_is_never_slower_and_a_short_one_is_linear() -> None:
    full, long, double = (
        attention_seconds(1000, length, length, 128, True, False, 0.0, PLAIN, window=window)[0]
        for length, window in ((16384, None), (16384, 1024), (32768, 1024))
    )
    assert long < full / 5
    assert double / long == pytest.approx(2.0, rel=0.05)
