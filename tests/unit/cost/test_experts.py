"""Mixtures of experts."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.cost import compile_device
from simulator.cost.experts import ExpertCurve, expert_seconds, experts_hit
from simulator.cost.rows import Weights, product_seconds
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator

FREE = ExpertCurve(launch=0.0, rate=1.0, memory=1.0, ramp=0.0, passes=0.0)


def test_experts_hit() -> None:
    hit = experts_hit(np.array([1, 2, 10_000]), 8, 2)
    assert hit == pytest.approx([2.0, 8 * (1 - 0.75**2), 8.0])


def test_one_expert_is_a_dense_mlp() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    curve, rows = replace(device.gemm["bf16"], launch=0.0, ramp=0.0), np.array([64, 512])
    found = expert_seconds(rows, experts_hit(rows, 1, 1), 1, 4096, 14336, True, FREE, curve, Weights(2.0))
    up, down = (product_seconds(rows, n, k, curve, Weights(2.0)) for n, k in ((28672, 4096), (4096, 14336)))
    assert found == pytest.approx(up + down)


def test_few_rows_cost_the_weights_of_the_experts_they_hit() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    rows = np.array([1, 1024])
    times = expert_seconds(
        rows, experts_hit(rows, 8, 2), 2, 4096, 14336, True, device.experts["bf16"], device.gemm["bf16"], Weights(2.0)
    )
    one = 2 * 3 * 4096 * 14336 * 2.0 / device.bandwidth
    assert one < times[0] < 1.3 * one
    assert times[1] > 4 * one


@pytest.mark.parametrize(("tokens", "microseconds"), [(1, 257), (64, 969), (4096, 5625), (16384, 22561)])
def test_near_what_was_measured(tokens: int, microseconds: float) -> None:
    """Mixtral 8x7B's experts on one H100, evenly chosen, in the fitted table."""
    device, rows = compile_device(load_spec(Accelerator, "h100-sxm")), np.array([tokens])
    hit = np.minimum(8.0, rows * 2.0)
    time = expert_seconds(rows, hit, 2, 4096, 14336, True, device.experts["bf16"], device.gemm["bf16"], Weights(2.0))
    assert time[0] == pytest.approx(microseconds * 1e-6, rel=0.3)
