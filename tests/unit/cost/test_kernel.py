"""The one door: what a price says about time, bound and validity."""

from dataclasses import replace

import pytest

from simulator.cost import Attention, Gemm, Stream, compile_device, kernel_cost, seconds
from simulator.cost.kernel import RAGGED
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from tests.unit.cost.conftest import accelerator

PREFILL = Attention(4, 16, 4, 4096, 4096, 128, causal=True)


def test_a_large_product_is_bound_by_compute_and_a_flat_one_by_memory() -> None:
    device = compile_device(accelerator())
    assert kernel_cost(Gemm(4096, 4096, 4096), device).bound == "compute"
    assert kernel_cost(Gemm(1, 16384, 16384), device).bound == "memory"
    assert kernel_cost(Gemm(64, 64, 64), device).bound == "latency"
    assert kernel_cost(Stream(1e9, 1e9), device).bound == "memory"
    assert kernel_cost(Stream(10.0, 10.0), device).bound == "latency"


def test_seconds_is_the_price() -> None:
    device = compile_device(accelerator())
    assert seconds(PREFILL, device) == kernel_cost(PREFILL, device).seconds


def test_shapes_outside_the_checked_range_are_flagged() -> None:
    device = compile_device(accelerator())
    assert kernel_cost(Gemm(4096, 4096, 4096), device).valid
    assert not kernel_cost(Gemm(4096, 4096, 4), device).valid
    assert not kernel_cost(Gemm(4096, 10**6, 4096), device).valid
    assert kernel_cost(PREFILL, device).valid
    assert not kernel_cost(replace(PREFILL, query=1), device).valid
    assert not kernel_cost(replace(PREFILL, head_dim=8), device).valid


def test_a_generation_that_the_device_lacks_is_replaced_and_flagged() -> None:
    device = compile_device(accelerator())
    asked = kernel_cost(replace(PREFILL, kernel="fa3"), device)
    assert not asked.valid
    assert asked.seconds == kernel_cost(PREFILL, device).seconds


def test_generations_of_attention_differ() -> None:
    h100, a100 = (compile_device(load_spec(Accelerator, name)) for name in ("h100-sxm", "a100-sxm-80gb"))
    assert kernel_cost(PREFILL, h100) == kernel_cost(replace(PREFILL, kernel="fa3"), h100)
    assert seconds(replace(PREFILL, kernel="fa2"), h100) > 1.5 * seconds(PREFILL, h100)
    assert seconds(replace(PREFILL, kernel="fa1"), a100) > 1.4 * seconds(PREFILL, a100)


def test_attention_in_narrow_formats_runs_in_sixteen_bits() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    assert kernel_cost(replace(PREFILL, dtype="fp8"), device).valid
    assert seconds(replace(PREFILL, dtype="fp8"), device) == pytest.approx(seconds(PREFILL, device), rel=0.01)


def test_attention_in_wide_formats_is_slower_and_flagged() -> None:
    device = compile_device(load_spec(Accelerator, "a100-sxm-80gb"))
    wide = kernel_cost(replace(PREFILL, dtype="fp32"), device)
    assert not wide.valid
    assert wide.seconds > 8 * seconds(PREFILL, device)


def test_sides_that_are_not_aligned_are_padded_and_slow() -> None:
    device = compile_device(load_spec(Accelerator, "a100-sxm-80gb"))
    ratio = seconds(Gemm(8192, 2048, 50257), device) / seconds(Gemm(8192, 2048, 50264), device)
    assert ratio == pytest.approx(1.0 / device.gemm["bf16"].misaligned)
    result_only = seconds(Gemm(8192, 50257, 2048), device) / seconds(Gemm(8192, 50264, 2048), device)
    assert result_only == pytest.approx(1.0 / RAGGED)


@pytest.mark.parametrize("work", [Gemm(2048, 2048, 108, batch=48), Gemm(2048, 108, 2048, batch=48)])
def test_heads_that_are_not_aligned_slow_both_products_of_an_attention(work: Gemm) -> None:
    device = compile_device(load_spec(Accelerator, "a100-sxm-80gb"))
    padded = replace(work, n=-(-work.n // 8) * 8, k=-(-work.k // 8) * 8)
    assert seconds(work, device) / seconds(padded, device) == pytest.approx(1.0 / device.gemm["fp16"].misaligned_batch)


def test_half_precision_prices_like_bfloat() -> None:
    device = compile_device(load_spec(Accelerator, "a100-sxm-80gb"))
    assert kernel_cost(Gemm(4096, 4096, 4096, dtype="fp16"), device) == kernel_cost(Gemm(4096, 4096, 4096), device)


def test_fp8_is_faster_where_the_device_has_it() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    assert 1.4 < seconds(Gemm(8192, 8192, 8192), device) / seconds(Gemm(8192, 8192, 8192, dtype="fp8"), device) < 2.1
