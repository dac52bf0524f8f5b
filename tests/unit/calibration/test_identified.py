"""What rows say about a fitted number, on losses whose minimum and sensitivity are known."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simulator.calibration.identified import Interval, worse
from simulator.calibration.stacks import training as fit_stacks
from simulator.calibration.stacks.between import Between
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


def fit(ratios: Any) -> tuple[fit_stacks.Point, tuple[Interval, ...]]:
    """A fit on twenty rows whose log ratios are a function of (row, point)."""
    rows: Any = [SimpleNamespace(row=SimpleNamespace(id=str(i), source="one")) for i in range(20)]
    times = Between(lambda tasks: [ratios(int(name), point) for name, point in tasks])
    found: tuple[fit_stacks.Point, tuple[Interval, ...]] = fit_stacks.Fit(times, rows).fitted()
    return found


def test_numbers_that_rows_do_not_tell_are_dropped_or_kept_where_they_start() -> None:
    """Step times that follow the efficiency alone: no overhead is claimed."""
    point, intervals = fit(lambda row, point: np.log(0.7 / point[0]) + 0.002 * (row % 3 - 1))
    assert point == (0.7, 0.0)
    assert [i.verdict for i in intervals] == ["identified", "not identified"]
    assert "dropped" in fit_stacks.said("layer_overhead", intervals[1])


def test_numbers_that_rows_tell_are_found() -> None:
    """Each number moves rows of its own."""
    wanted = (0.7, 500e-6)

    def ratios(row: int, point: fit_stacks.Point) -> float:
        scale = (1.0, 1e3)[row % 2]
        return scale * (point[row % 2] - wanted[row % 2]) + 0.001 * (row % 3)

    point, intervals = fit(ratios)
    assert point == pytest.approx(wanted)
    assert all(interval.verdict == "identified" for interval in intervals)
