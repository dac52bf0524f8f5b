"""The tile model on numbers that can be checked by hand."""

from dataclasses import replace

import pytest

from simulator.cost.gemm import GemmCurve, gemm_seconds

PLAIN = GemmCurve(
    peak=2.0 * 100 * 128 * 128 / 1e-9,
    bandwidth=1e30,
    cores=100,
    size=2.0,
    result_size=2.0,
    tiles=((128, 128, 1e-9),),
    launch=0.0,
    prologue=0.0,
    store=0.0,
    softness=0.0,
    ramp=0.0,
    split=1.0,
    split_traffic=0.0,
    feed=0.0,
    limit=1.0,
    settle=1.0,
)
"""One tile of 128 x 128 that takes 1 ns per element of depth on each of 100 cores; nothing else costs anything."""


def test_one_full_wave_runs_at_the_peak() -> None:
    time, compute, memory = gemm_seconds(1280, 1280, 1024, 1, PLAIN)
    assert time == pytest.approx(1024e-9)
    assert time == pytest.approx(2.0 * 1280 * 1280 * 1024 / PLAIN.peak)
    assert compute == pytest.approx(time)
    assert memory < 1e-12


def test_one_tile_more_costs_a_whole_wave_or_its_share() -> None:
    assert gemm_seconds(128, 128 * 101, 1024, 1, PLAIN)[0] == pytest.approx(2 * 1024e-9)
    soft = replace(PLAIN, softness=1.0)
    assert gemm_seconds(128, 128 * 101, 1024, 1, soft)[0] == pytest.approx(1.01 * 1024e-9)


def test_a_batch_fills_the_same_waves() -> None:
    assert gemm_seconds(128, 128, 1024, 100, PLAIN)[0] == pytest.approx(gemm_seconds(128, 128, 1024, 1, PLAIN)[0])
    assert gemm_seconds(128, 128, 1024, 101, PLAIN)[0] == pytest.approx(2 * 1024e-9)


def test_splitting_the_sum_fills_idle_cores() -> None:
    free = replace(PLAIN, split=0.0)
    assert gemm_seconds(128, 128, 8192, 1, free)[0] == pytest.approx(8192e-9 / 32)


def test_memory_bounds_a_flat_product() -> None:
    narrow = replace(PLAIN, bandwidth=1e9)
    time, compute, memory = gemm_seconds(1, 1024, 1024, 1, narrow)
    assert memory == pytest.approx((2 * (1 + 1024) * 1024 + 2 * 1024) / 1e9)
    assert time == pytest.approx(memory, rel=1e-3)
    assert compute < memory


def test_orientation_of_a_tile_is_free() -> None:
    tall = replace(PLAIN, tiles=((256, 64, 1e-9),))
    assert gemm_seconds(256, 64, 512, 1, tall) == gemm_seconds(64, 256, 512, 1, tall)


def test_a_long_kernel_falls_to_its_power_limit() -> None:
    limited = replace(PLAIN, limit=0.5, settle=1e-6)
    short, long = (gemm_seconds(1280, 1280, k, 1, limited)[0] / (k * 1e-9) for k in (64, 10**6))
    assert short == pytest.approx(1.0, abs=0.05)
    assert long == pytest.approx(2.0, abs=0.01)


def test_fixed_costs_add_up() -> None:
    slow = replace(PLAIN, launch=1e-6, prologue=2e-6, store=1e-12)
    assert gemm_seconds(128, 128, 64, 1, slow)[0] == pytest.approx(1e-6 + 2e-6 + 128 * 128 * 1e-12 + 64e-9)
