"""What rows say about a fitted number, on losses whose minimum and sensitivity are known."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simulator.calibration.identified import Interval, worse
from simulator.calibration.stacks import training as fit_stacks
from simulator.calibration.stacks.between import Between
from simulator.calibration.stacks.prior import Prior
from simulator.specs.base import Figure


def test_a_rise_counts_from_its_standard_error_on() -> None:
    base, weights = np.full(16, 0.05), np.ones(16)
    noise = 0.01 * np.resize([1.0, -1.0], 16)
    assert worse(base, base + 0.005 + noise, weights)
    assert not worse(base, base + 0.001 + noise, weights)
    assert not worse(base, base, weights)


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        (Interval(0.8, 0.7, 0.9, (0.5, 1.0)), "identified"),
        (Interval(1.0, 0.9, 1.0, (0.5, 1.0)), "at its bound"),
        (Interval(0.9, 0.8, 1.0, (0.5, 1.0)), "bounded on one side"),
        (Interval(0.9, 0.5, 1.0, (0.5, 1.0)), "not identified"),
        (Interval(0.9, 0.9, 0.9, (0.5, 1.0), fitted=False), "not fitted"),
    ],
)
def test_only_what_rows_identify_is_written_as_measured(interval: Interval, verdict: str) -> None:
    assert interval.verdict == verdict
    written = fit_stacks.figure("compute_efficiency", interval, "fitted on rows")
    assert ("status: measured" in written) == (verdict == "identified")
    assert Figure[float].model_validate({"value": interval.value, "status": "estimate", "source": written})


USUAL = Prior((0.8, 1e-3), (0.1, 0.5))
"""What other stacks have."""


def fit(ratios: Any, count: int = 20, known: Prior = USUAL) -> tuple[fit_stacks.Point, tuple[Interval, ...]]:
    """A fit on some rows whose log ratios are a function of (row, point)."""
    rows: Any = [SimpleNamespace(row=SimpleNamespace(id=str(i), source="one")) for i in range(count)]
    times = Between(lambda tasks: [ratios(int(name), point) for name, point in tasks])
    found: tuple[fit_stacks.Point, tuple[Interval, ...]] = fit_stacks.Fit(times, rows, known).fitted()
    return found


def busy(row: int, point: fit_stacks.Point) -> float:
    """Step times that follow the efficiency alone, of devices that are never waiting for their host."""
    return float(np.log(0.7 / point[0]) + 0.002 * (row % 3 - 1))


def test_a_number_that_rows_do_not_tell_stays_at_what_other_stacks_have() -> None:
    point, intervals = fit(busy)
    assert point == pytest.approx((0.7, 1e-3), abs=1e-9)
    assert [i.verdict for i in intervals] == ["identified", "not identified"]
    assert "kept near other stacks, 100 us to 3000 us" in fit_stacks.said("layer_overhead", intervals[1])


def test_a_number_does_not_run_to_its_bound_for_what_rows_hardly_tell() -> None:
    """Steps that want ever more of the host by a hundredth a millisecond, and are scattered by five."""

    def ratios(row: int, point: fit_stacks.Point) -> float:
        return busy(row, point) + 0.05 * (-1) ** row - 10 * (3e-3 - point[1]) * (row % 2)

    assert fit(ratios)[0][1] <= 1.5e-3
    assert fit(ratios, known=Prior((0.8, 1e-3), (0.1, 50.0)))[0][1] == pytest.approx(3e-3)


def test_few_rows_move_numbers_less_than_many() -> None:
    """Devices that wait for a host of two milliseconds a layer in some rows, beside others."""

    def ratios(row: int, point: fit_stacks.Point) -> float:
        return busy(row, point) + 60 * (point[1] - 2e-3) * (row % 4 == 0)

    few, many = (fit(ratios, count)[0][1] for count in (4, 40))
    assert 1e-3 <= few < many == pytest.approx(2e-3, rel=0.1)


def test_below_four_rows_and_by_definition_nothing_is_fitted() -> None:
    point, intervals = fit(busy, 3)
    assert point == USUAL.middle and not any(interval.fitted for interval in intervals)
    compiled = fit(busy, known=Prior((0.8, 0.0), (0.1, 0.0)))
    assert compiled[0] == pytest.approx((0.7, 0.0)) and [i.fitted for i in compiled[1]] == [True, False]


def test_numbers_that_rows_tell_are_found() -> None:
    """Each number moves rows of its own."""
    wanted = (0.7, 500e-6)

    def ratios(row: int, point: fit_stacks.Point) -> float:
        scale = (1.0, 1e3)[row % 2]
        return scale * (point[row % 2] - wanted[row % 2]) + 0.001 * (row % 3)

    point, intervals = fit(ratios)
    assert point == pytest.approx(wanted)
    assert all(interval.verdict == "identified" for interval in intervals)
