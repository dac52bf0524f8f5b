"""Conventions of FLOP and bytes."""

import pytest

from simulator.cost import Attention, Gemm, Stream


def test_a_product_counts_multiplications_and_additions() -> None:
    assert Gemm(2, 3, 5).flops == 60
    assert Gemm(2, 3, 5, batch=7).flops == 420


def test_a_product_moves_each_matrix_once() -> None:
    assert Gemm(2, 3, 5).bytes == 2 * (10 + 15 + 6)
    assert Gemm(2, 3, 5, batch=7).bytes == 7 * 2 * (10 + 15 + 6)


def test_results_of_narrow_formats_are_written_in_two_bytes() -> None:
    assert Gemm(2, 3, 5, dtype="fp8").bytes == 10 + 15 + 2 * 6


def test_attention_counts_half_the_square_where_causal_and_five_products_backward() -> None:
    full = Attention(2, 8, 2, 128, 128, 64, causal=False)
    assert full.flops == 4 * 2 * 8 * 128 * 128 * 64
    assert Attention(2, 8, 2, 128, 128, 64, causal=True).flops == full.flops / 2
    assert Attention(2, 8, 2, 128, 128, 64, causal=False, backward=True).flops == full.flops * 2.5
    assert Attention(2, 8, 2, 32, 128, 64, causal=True).flops == full.flops / 4 * (1 - 1 / 8)


def test_attention_moves_grouped_keys_once() -> None:
    grouped = Attention(1, 8, 2, 128, 256, 64, causal=True)
    assert grouped.bytes == 2 * 64 * (2 * 8 * 128 + 2 * 2 * 256)


def test_a_stream_moves_what_it_reads_and_writes() -> None:
    assert Stream(3e6, 1e6).bytes == 4e6


@pytest.mark.parametrize("work", [Gemm(1, 1, 1), Attention(1, 1, 1, 1, 1, 1, True), Stream(1, 1)])
def test_work_is_hashable(work: Gemm | Attention | Stream) -> None:
    assert hash(work) == hash(work)
