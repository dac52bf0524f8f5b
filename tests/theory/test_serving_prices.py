"""Serving prices: no roof is beaten, more work takes no less, and decoding costs the bytes of its cache."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cost import Decode, Device, compile_device, seconds
from simulator.cost.experts import expert_seconds, experts_hit
from simulator.cost.rows import Weights, product_seconds
from simulator.specs import load_spec, names
from simulator.specs.hardware import Accelerator
from tests.effort import examples

NAMES = names(Accelerator)
MEASURED = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")
ROUNDING = 1 - 1e-12

devices = st.sampled_from(NAMES)
counts = st.integers(1, 512)
sides = st.integers(16, 16_384)


@cache
def _device(name: str) -> Device:
    return compile_device(load_spec(Accelerator, name))


@examples(200)
@given(
    devices,
    counts,
    st.integers(0, 8192),
    st.integers(1, 16),
    st.integers(1, 16),
    st.sampled_from([64, 128, 256]),
    st.sampled_from([1.0, 2.0]),
    st.booleans(),
)
def test_decodes_stay_below_the_roofs(
    name: str, sequences: int, each: int, kv_heads: int, group: int, size: int, kv_bytes: float, grouped: bool
) -> None:
    device = _device(name)
    work = Decode(sequences, sequences * each, kv_heads * group, kv_heads, size, kv_bytes, grouped)
    assert seconds(work, device) >= ROUNDING * work.bytes / device.bandwidth
    assert seconds(work, device) >= ROUNDING * work.flops / device.peak("bf16")


@examples(200)
@given(devices, st.integers(1, 8192), sides, sides, st.sampled_from([0.25, 0.53, 1.0, 2.0]), st.booleans())
def test_products_with_narrow_weights_stay_below_the_roofs(
    name: str, rows: int, n: int, k: int, size: float, slim: bool
) -> None:
    device = _device(name)
    curve = device.gemm[device.native("bf16")]
    time = float(product_seconds(np.array([rows]), n, k, curve, Weights(size, 0.9, 1.2, slim))[0])
    assert time >= ROUNDING * 2.0 * rows * n * k / curve.peak
    assert time >= ROUNDING * (size * n * k + curve.size * rows * k) / device.bandwidth


@examples(200)
@given(devices, st.integers(1, 8192), st.integers(1, 8), st.integers(8, 256), st.integers(64, 8192), sides)
def test_experts_stay_below_the_roofs(name: str, count: int, top_k: int, experts: int, hidden: int, inner: int) -> None:
    device, rows = _device(name), np.array([count])
    dtype = device.native("bf16")
    hit = experts_hit(rows, experts, top_k)
    weights = Weights(2.0)
    time = float(
        expert_seconds(
            rows, hit, top_k, hidden, inner, True, device.mixture(("triton",), dtype), device.gemm[dtype], weights
        )[0]
    )
    assert time >= ROUNDING * 6.0 * count * top_k * hidden * inner / device.peaks[dtype]
    assert time >= ROUNDING * float(hit[0]) * 3 * hidden * inner * 2.0 / device.bandwidth


@pytest.mark.parametrize("name", MEASURED)
def test_a_cached_token_costs_its_bytes_over_the_share_of_the_bandwidth(name: str) -> None:
    device = _device(name)
    more, less = (seconds(Decode(64, 64 * each, 32, 8, 128), device) for each in (8192, 4096))
    assert (more - less) / (64 * 4096) == pytest.approx(2 * 8 * 128 * 2.0 / device.decode.bandwidth)


@examples(100)
@given(st.sampled_from(MEASURED), counts, counts, st.integers(1, 10**6), st.integers(0, 10**6))
def test_more_sequences_and_longer_ones_take_no_less(
    name: str, sequences: int, more: int, context: int, longer: int
) -> None:
    device = _device(name)
    base = seconds(Decode(sequences, context, 32, 8, 128), device)
    assert seconds(Decode(sequences, context + longer, 32, 8, 128), device) >= base
    assert seconds(Decode(sequences + more, context, 32, 8, 128), device) >= base


@examples(100)
@given(st.sampled_from(MEASURED), st.integers(1, 4096), st.integers(1, 512), sides, sides)
def test_more_rows_take_longer_up_to_the_granularity_of_tiles(name: str, rows: int, more: int, n: int, k: int) -> None:
    curve = _device(name).gemm["bf16"]
    few, many = product_seconds(np.array([rows, rows + more]), 8 * (n // 8), 8 * (k // 8), curve, Weights(2.0))
    assert many >= few / 1.15


@given(st.integers(1, 10_000), st.integers(1, 64), st.integers(0, 200))
def test_experts_hit_lie_between_those_of_one_row_and_all(rows: int, top_k: int, more: int) -> None:
    experts = top_k + more
    hit = float(experts_hit(np.array([rows]), experts, top_k)[0])
    assert top_k * ROUNDING <= hit <= experts
    assert hit <= rows * top_k * (1 + 1e-9)
