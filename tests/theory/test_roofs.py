"""No price is above a roof, and more work never takes less time (up to the granularity of tiles and splits)."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.cost import Attention, Device, Gemm, Stream, Work, compile_device, seconds
from simulator.specs import load_spec, names
from simulator.specs.hardware import Accelerator
from tests.effort import examples

NAMES = names(Accelerator)
MEASURED = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")
GRANULARITY = 1.15
"""A larger product may find a split of its sum that a smaller one is too short for."""

sides = st.integers(1, 20_000)
devices = st.sampled_from(NAMES)
measured = st.sampled_from(MEASURED)
formats = st.sampled_from(["bf16", "fp16", "fp8", "tf32", "fp32", "int8"])


@cache
def _device(name: str) -> Device:
    return compile_device(load_spec(Accelerator, name))


def _below_roofs(work: Work, device: Device, dtype: str) -> None:
    time = seconds(work, device)
    assert time > 0
    assert time >= work.flops / device.peak(dtype)
    assert time >= work.bytes / device.bandwidth


def _computable(device: Device, dtype: str) -> bool:
    wider = {"tf32": ("tf32", "fp32"), "fp32": ("fp32",)}
    return any(format in device.peaks for format in wider.get(dtype, device.peaks))


@examples(300)
@given(devices, sides, sides, sides, st.integers(1, 64), formats)
def test_products_stay_below_the_roofs(name: str, m: int, n: int, k: int, batch: int, dtype: str) -> None:
    device = _device(name)
    if _computable(device, dtype):
        _below_roofs(Gemm(m, n, k, batch, dtype), device, dtype)


@examples(300)
@given(
    devices,
    st.integers(1, 32),
    st.integers(1, 16),
    st.integers(1, 8),
    st.integers(1, 20_000),
    st.sampled_from([32, 64, 80, 96, 128, 256]),
    st.booleans(),
    st.booleans(),
)
def test_attention_stays_below_the_roofs(
    name: str, batch: int, kv_heads: int, group: int, length: int, size: int, causal: bool, backward: bool
) -> None:
    work = Attention(batch, kv_heads * group, kv_heads, length, length, size, causal, "bf16", backward)
    _below_roofs(work, _device(name), "bf16")


@given(devices, st.floats(0, 1e12), st.floats(0, 1e12), st.integers(1, 100), st.floats(0, 1e15))
def test_streams_stay_below_the_roofs(name: str, read: float, write: float, kernels: int, flops: float) -> None:
    device = _device(name)
    time = seconds(Stream(read, write, kernels, flops), device)
    assert time >= (read + write) / device.bandwidth
    assert time >= flops / max(device.peaks.values())


@examples(300)
@given(measured, sides, sides, sides, st.sampled_from("mnk"), st.integers(1, 5000))
def test_a_larger_product_takes_longer(name: str, m: int, n: int, k: int, side: str, more: int) -> None:
    device, work = _device(name), Gemm(8 * m, 8 * n, 8 * k)
    larger = replace(work, **{side: getattr(work, side) + 8 * more})
    assert seconds(larger, device) >= seconds(work, device) / GRANULARITY


@example("a100-sxm-80gb", 641, 721, 1185, 2)
@example("a100-sxm-80gb", 321, 321, 2289, 7)
@example("a100-sxm-80gb", 193, 193, 5233, 17)
@example("a100-sxm-80gb", 1023, 152, 19581, 11)
@given(measured, sides, sides, sides, st.integers(2, 64))
def test_a_batch_takes_at_most_its_products_one_by_one(name: str, m: int, n: int, k: int, batch: int) -> None:
    """With aligned sides: others slow a batch, in which either may be contiguous, more than a single product."""
    device, one = _device(name), Gemm(m, 8 * n, 8 * k)
    power = device.gemm["bf16"].limit  # which a long batch reaches and a short product does not
    assert seconds(replace(one, batch=batch), device) <= batch * seconds(one, device) * (1 + 1e-9) / power


@given(measured, st.integers(1, 64), st.integers(1, 16_000), st.integers(0, 4000), st.booleans(), st.booleans())
def test_longer_sequences_take_longer(
    name: str, heads: int, length: int, more: int, causal: bool, backward: bool
) -> None:
    device = _device(name)
    short, long = (Attention(2, heads, heads, s, s, 128, causal, "bf16", backward) for s in (length, length + more))
    assert seconds(long, device) >= seconds(short, device)


@given(devices, st.floats(0, 1e10), st.floats(0, 1e9), st.integers(1, 10))
def test_more_bytes_take_longer(name: str, size: float, more: float, kernels: int) -> None:
    device = _device(name)
    assert seconds(Stream(size + more, 0, kernels), device) >= seconds(Stream(size, 0, kernels), device) * (1 - 1e-12)


@pytest.mark.parametrize("name", MEASURED)
def test_whole_waves_are_the_best_shapes(name: str) -> None:
    """Rates over many widths have their best at 60 to 97 % of the peak, none above."""
    device = _device(name)
    rates = [Gemm(4096, n, 8192).flops / seconds(Gemm(4096, n, 8192), device) for n in range(512, 16384, 128)]
    assert 0.7 * device.peak("bf16") < max(rates) < 0.97 * device.peak("bf16")
