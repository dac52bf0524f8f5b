"""Energy and money."""

import numpy as np
import pytest

from simulator.cost import cost_usd, energy_j
from simulator.cost.economy import COMPUTE, MEMORY, activity
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator


def test_energy_is_idle_power_and_a_share_of_the_span_above() -> None:
    assert energy_j(400.0, 50.0, 0.0, 10.0) == 500.0
    assert energy_j(400.0, 50.0, 1.0, 10.0) == 4000.0
    assert energy_j(400.0, 50.0, 0.5, 10.0) == 2250.0


def test_the_share_is_a_fraction_but_for_rounding() -> None:
    with pytest.raises(ValueError, match="fraction"):
        energy_j(400.0, 50.0, 1.2, 10.0)
    assert energy_j(400.0, 50.0, 1.0000000000000002, 10.0) == 4000.0


def test_more_work_takes_more_power_up_to_the_peak() -> None:
    assert activity(0.0, 0.0) == 0.0
    assert 0 < activity(0.0, 0.0, 1.0) < activity(0.0, 1.0) < activity(0.2, 1.0) < activity(0.6, 0.5) < 1.0
    assert activity(1.0, 1.0, 1.0) == 1.0
    assert activity(np.array([0.0, 0.25]), 1.0) == pytest.approx([MEMORY, MEMORY + 0.5 * COMPUTE])


def watts(name: str, compute: float, memory: float) -> float:
    accelerator = load_spec(Accelerator, name)
    power = accelerator.power
    assert power is not None and power.idle is not None
    share = MEMORY if power.memory is None else power.memory.value
    return energy_j(power.peak.value, power.idle.value, float(activity(compute, memory, memory_share=share)), 1.0)


@pytest.mark.parametrize(
    ("name", "compute", "memory", "published"),
    [
        ("h100-sxm", 0.003, 1.0, 300.0),  # one sequence of an 8B model: ML.ENERGY Benchmark v3.0
        ("h100-sxm", 0.23, 0.95, 600.0),  # 128 sequences: the same
        ("h200-sxm", 0.65, 0.3, 662.0),  # at load in 16 and in 8 bits: api.serialalice.pt/alice-benchmark
        ("h200-sxm", 0.003, 1.0, 300.0),  # the most that decoding draws: arXiv:2605.11999
        ("rtx-4090", 0.004, 0.95, 246.0),  # one sequence of a 4B model: github.com/noonghunna/club-3090/issues/697
        ("mi300x", 0.015, 0.8, 356.0),  # 1k/8k of gpt-oss-120b: github.com/SemiAnalysisAI/InferenceX/issues/828
    ],
)
def test_near_published_power_of_phases(name: str, compute: float, memory: float, published: float) -> None:
    assert watts(name, compute, memory) == pytest.approx(published, rel=0.15)


def test_rent() -> None:
    assert cost_usd(3.6 / 3600, 8, 3600.0) == pytest.approx(28.8)
