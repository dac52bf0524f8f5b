"""Energy and money."""

import pytest

from simulator.cost import cost_usd, energy_j


def test_power_is_linear_between_idle_and_peak() -> None:
    assert energy_j(400.0, 50.0, 0.0, 10.0) == 500.0
    assert energy_j(400.0, 50.0, 1.0, 10.0) == 4000.0
    assert energy_j(400.0, 50.0, 0.5, 10.0) == 2250.0


def test_busy_is_a_fraction() -> None:
    with pytest.raises(ValueError, match="fraction"):
        energy_j(400.0, 50.0, 1.2, 10.0)


def test_rent() -> None:
    assert cost_usd(3.6 / 3600, 8, 3600.0) == pytest.approx(28.8)
