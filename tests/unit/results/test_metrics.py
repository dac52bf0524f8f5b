import math

import pytest

from simulator import units
from simulator.errors import InputError
from simulator.metrics import METRICS
from simulator.results.metrics import compare, error_of_time, exposed, mean, metric, run_metrics, training_metrics

BREAKDOWN = ({"compute": 6.0, "exposed_tp": 1.0, "bubble": 3.0}, {"compute": 8.0, "exposed_dp": 2.0})
RANKS = (1, 3)


def figures() -> dict[str, float]:
    return training_metrics(
        step_s=10.0,
        tokens=4000.0,
        samples=40.0,
        devices=4,
        model_flops=1.2e15,
        hardware_flops=1.6e15,
        peak_flops=1e14,
        breakdown=BREAKDOWN,
        ranks=RANKS,
        peak_memory=5e9,
    )


def test_training_metrics() -> None:
    found = figures()
    assert found["tokens_per_s"] == 400
    assert found["tokens_per_s_per_device"] == 100
    assert found["samples_per_s"] == 4
    assert found["model_flops_per_device"] == pytest.approx(3e13)
    assert found["mfu"] == pytest.approx(0.3)
    assert found["hfu"] == pytest.approx(0.4)
    assert found["bubble_fraction"] == pytest.approx(3 / 4 / 10)
    assert found["exposed_communication_s"] == pytest.approx((1 + 3 * 2) / 4)
    assert found["peak_memory_bytes"] == 5e9


def test_names_are_those_of_the_design_and_all_are_described() -> None:
    assert list(figures()) == [name for name in METRICS if name in figures()]
    assert all(described.dimension in units.DIMENSIONS for described in METRICS.values())


def test_mean_weighs_by_ranks_and_counts_what_is_missing_as_zero() -> None:
    average = mean(BREAKDOWN, RANKS)
    assert average == pytest.approx({"compute": 7.5, "exposed_tp": 0.25, "bubble": 0.75, "exposed_dp": 1.5})
    assert sum(average.values()) == pytest.approx(10)


def test_exposed_communication_by_axis() -> None:
    assert exposed({"compute": 1.0, "exposed_tp": 2.0, "exposed_pp": 3.0}) == {"tp": 2.0, "pp": 3.0}


def test_run_takes_as_many_steps_as_its_tokens_need() -> None:
    assert run_metrics({"step_time_s": 2.0, "energy_j": 5.0}, 100.0, 1000.0) == {
        "run_time_s": 20.0,
        "run_energy_j": 50.0,
    }


@pytest.mark.parametrize(
    ("name", "measured", "predicted", "error"),
    [
        ("step_time_s", 2.0, 3.0, 0.5),
        ("tokens_per_s", 3.0, 2.0, 0.5),
        ("mfu", 0.4, 0.5, -0.2),
        ("peak_memory_bytes", 4.0, 5.0, 0.25),
    ],
)
def test_error_is_of_time(name: str, measured: float, predicted: float, error: float) -> None:
    assert error_of_time(name, measured, predicted) == pytest.approx(error)


def test_error_without_a_divisor_is_not_a_number() -> None:
    assert math.isnan(error_of_time("mfu", 0.5, 0.0))


def test_comparison_reads_the_published_text() -> None:
    row = compare("hardware_flops_per_device", "163 TFLOP/s", 160e12, "Table 1")
    assert (row.published, row.error, row.note) == (163e12, pytest.approx(163 / 160 - 1), "")
    assert compare("mfu", 0.5, 0.5, "x").error == 0
    assert compare("mfu", "50 %", 0.5, "x").published == 0.5


def test_comparison_needs_a_unit_and_a_known_metric() -> None:
    with pytest.raises(ValueError, match="write a unit"):
        compare("step_time_s", 12.0, 10.0, "x")
    with pytest.raises(InputError, match="did you mean `mfu`"):
        metric("mfuu")
