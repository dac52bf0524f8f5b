"""The times of several steps in a result file and among the metrics."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.metrics import METRICS
from simulator.results import read, save
from simulator.results.metrics import step_metrics
from tests.factories import assert_same, training_result


def test_round_trip(tmp_path: Path) -> None:
    result = training_result(step_times=np.array([3, 1, 2], np.int64))
    save(result, tmp_path / "steps")
    assert_same(result, read(tmp_path / "steps"))


def test_files_of_one_step_have_no_such_column(tmp_path: Path) -> None:
    save(training_result(), tmp_path / "step")
    with zipfile.ZipFile(tmp_path / "step") as archive:
        assert "step_times.npy" not in archive.namelist()


@pytest.mark.parametrize("column", [np.array([1]), np.array([1, -2]), np.array([1.5, 2.5])])
def test_columns_that_are_no_times(tmp_path: Path, column: np.ndarray) -> None:
    save(training_result(), tmp_path / "step")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, column)
    with zipfile.ZipFile(tmp_path / "step", "a") as archive:
        archive.writestr("step_times.npy", buffer.getvalue())
    with pytest.raises(InputError, match="no result file"):
        read(tmp_path / "step")


def test_percentiles_lie_between_steps() -> None:
    ticks = np.arange(101) * 10**12
    found = step_metrics(ticks, {"step_time_s": 50.0, "tokens_per_s": 2.0, "cost_usd": 3.0})
    assert [found[f"step_time_p{p}_s"] for p in (50, 90, 95, 99)] == [50.0, 90.0, 95.0, 99.0]
    assert found["step_time_max_s"] == 100.0
    assert found["tokens_per_day"] == 172_800
    assert found["cost_per_day_usd"] == pytest.approx(3.0 / 50 * 86_400)
    assert set(found) <= set(METRICS)


def test_without_a_price_a_day_costs_nothing_known() -> None:
    assert "cost_per_day_usd" not in step_metrics(np.array([1, 2]), {"step_time_s": 1.0, "tokens_per_s": 1.0})
