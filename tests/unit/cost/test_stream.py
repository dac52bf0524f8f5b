"""Passes over memory."""

from dataclasses import replace

import pytest

from simulator.cost.stream import StreamCurve, stream_seconds

CURVE = StreamCurve(bandwidth=1e12, efficiency=0.8, cache=40e6, launch=1e-6, vector=1e13)


def test_large_passes_run_at_the_sustained_bandwidth() -> None:
    assert stream_seconds(1e9, 1, 0.0, CURVE)[0] == pytest.approx(1e-6 + 1e9 / 0.8e12)


def test_small_passes_are_found_in_the_cache() -> None:
    assert stream_seconds(1e7, 1, 0.0, CURVE)[0] == pytest.approx(1e-6 + 1e7 / 1e12)
    assert stream_seconds(1e7, 1, 0.0, replace(CURVE, cache=0.0))[0] == pytest.approx(1e-6 + 1e7 / 0.8e12)


def test_every_kernel_is_launched() -> None:
    assert stream_seconds(0.0, 5, 0.0, CURVE)[0] == pytest.approx(5e-6)
    assert stream_seconds(1e9, 0, 0.0, CURVE)[0] == pytest.approx(1e9 / 0.8e12)


def test_arithmetic_may_decide() -> None:
    time, compute, memory = stream_seconds(1e6, 1, 1e12, CURVE)
    assert compute > memory
    assert time == pytest.approx(1e-6 + 0.1)
