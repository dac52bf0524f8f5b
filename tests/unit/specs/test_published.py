"""Published figures of a scenario are held against their metric when the file is read."""

import subprocess
import sys
from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.specs import load_scenario

ROOT = Path(__file__).parents[3]
HEAD = "extends: quickstart\npublished:\n"


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("hardware_flops_per_device", "163 GB", "`GB` is a unit of bytes, not of flop rate"),
        ("hardware_flops_per_device", "163", "has no unit: write a unit, for example `163 TFLOP/s`"),
        ("mfu", "much", "`much` is no quantity"),
        ("p99_ttft_ms", "3", "has no unit"),
    ],
)
def test_a_value_that_is_none_of_its_metric_is_refused_where_it_stands(
    metric: str, value: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"{HEAD}  - metric: {metric}\n    value: {value}\n    source: a paper\n")
    with pytest.raises(InputError) as caught:
        load_scenario(file)
    assert str(caught.value).startswith(f"{file}:4:12: published.0.value: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(("metric", "value"), [("mfu", "40 %"), ("step_time_s", "3 s"), ("of_a_plugin", "9 xyz")])
def test_values_of_their_metric_and_metrics_that_are_not_known_pass(metric: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"{HEAD}  - {{metric: {metric}, value: {value}, source: a paper}}\n")
    assert load_scenario(tmp_path / "s.yaml").scenario.published[0].value == value


def test_no_arithmetic_is_loaded_to_check_them() -> None:
    """`clustersim explain` of a scenario with published figures costs what it costs without."""
    read = "load_scenario('scenarios/training/megatron-1t.yaml').scenario.published"
    imports = "import sys, simulator.run; from simulator.specs import load_scenario"
    code = f"{imports}; assert {read}; print('numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False"]
