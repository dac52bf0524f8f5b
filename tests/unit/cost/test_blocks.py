"""Products with scales of blocks: few rows cost the walk along the inner dimension, many the arithmetic."""

import numpy as np
import pytest

from simulator.cost import compile_device
from simulator.cost.blocks import block_seconds
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.serving import ServingStack


def test_few_rows_cost_the_steps_and_many_the_arithmetic() -> None:
    device = compile_device(load_spec(Accelerator, "mi300x"))
    of = load_spec(ServingStack, "vllm-v0-blocks-rocm").block_products
    assert of is not None
    found = block_seconds(np.array([1, 64, 16_384]), 2112, 7168, of, device)
    assert found[0] == pytest.approx(5e-6 + 56 * 2.2e-6)
    assert found[0] == pytest.approx(128.8e-6, rel=0.02)  # 64 rows, ROCm/aiter pull request 1232
    assert found[2] == pytest.approx(5e-6 + 2 * 16_384 * 2112 * 7168 / (0.03 * 2615e12))


def test_weights_are_read_at_the_rate_of_the_memory_at_most() -> None:
    device = compile_device(load_spec(Accelerator, "h200-sxm"))
    of = load_spec(ServingStack, "vllm-v0-blocks").block_products
    assert of is not None
    assert block_seconds(np.array([1]), 36_864, 7168, of, device)[0] > 36_864 * 7168 / device.bandwidth
