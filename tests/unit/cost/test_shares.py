"""Rates of kernels on shares of a device."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cost.shares import PRODUCT, READING, SENDING, rate


@pytest.mark.parametrize("curve", [PRODUCT, READING, SENDING])
def test_published_points_and_lines_between(curve: tuple[tuple[float, float], ...]) -> None:
    for share, reached in curve:
        assert rate(curve, share) == pytest.approx(reached)
    assert rate(READING, 0.5) == pytest.approx((0.3 + 0.85) / 2)


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_more_of_a_device_is_never_slower_and_no_kernel_is_below_its_share(some: float, other: float) -> None:
    low, high = sorted((some, other))
    for curve in (PRODUCT, READING, SENDING):
        assert rate(curve, low) <= rate(curve, high) + 1e-12
        assert low - 1e-12 <= rate(curve, low) <= 1.0
