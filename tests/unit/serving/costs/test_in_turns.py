"""Kernels of llama.cpp one after the other: bytes by hand, and who is bound by what."""

import numpy as np
import pytest

from simulator.cost import Device, compile_device
from simulator.cost.rows import Weights, known_products
from simulator.serving.costs.formats import Formats, resolve_formats
from simulator.serving.costs.in_turns import (
    library,
    library_seconds,
    matrices,
    most_read,
    own_stream,
    queue,
    score_seconds,
)
from simulator.serving.costs.operators import Shard
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.model import Model
from simulator.specs.serving import NumberFormats, ServingStack

OLD, NEW = (load_spec(ServingStack, name) for name in ("llama.cpp-2024", "llama.cpp"))


def device(name: str) -> Device:
    return compile_device(load_spec(Accelerator, name))


def formats(on: Device, weights: str) -> Formats:
    bits = 4.85 if weights == "int4" else None
    return resolve_formats(NumberFormats(weights=weights, weight_bits=bits), on, "fp16")[0]  # type: ignore[arg-type]


def test_the_library_is_the_vendors() -> None:
    assert library(device("a100-pcie-80gb"), OLD) is not None
    assert library(device("m2-ultra"), OLD) is None
    assert library(device("a100-pcie-80gb"), load_spec(ServingStack, "vllm")) is None


def test_narrow_weights_are_written_wide_before_each_product() -> None:
    """4.85 bits read and 16 written of each weight, at the 6.7 bytes a cycle that a multiprocessor of A100 moves."""
    on, rows, n, k = device("a100-pcie-80gb"), np.array([512]), 14336, 4096
    narrow, wide = (
        library_seconds(rows, n, k, formats(on, weights), False, on, OLD)[0] for weights in ("int4", "fp16")
    )
    assert narrow - wide == pytest.approx(n * k * (4.85 / 8 + 2) / (6.7 * 108 * 1.41e9), rel=0.02)


def test_inputs_and_results_of_a_product_are_converted() -> None:
    on, rows, n, k = device("rtx-3090"), np.array([512]), 14336, 4096
    of = formats(on, "fp16")
    product = known_products(rows.tobytes(), n, k, on.gemm[of.compute], Weights(2.0))[0]
    moved = 512 * (n + k) * (2 + 4) / on.bandwidth
    extra = library_seconds(rows, n, k, of, False, on, OLD)[0] - product
    assert moved < extra < 1.3 * moved


def test_own_kernels_move_what_multiprocessors_have_in_flight() -> None:
    """Memory of few bytes a cycle and multiprocessor is not bound by it; what the cache holds is."""
    a100, ada = device("a100-pcie-80gb"), device("rtx-4090")
    assert own_stream(a100, OLD).efficiency * a100.bandwidth == pytest.approx(most_read(a100, OLD))
    assert own_stream(ada, OLD).efficiency == ada.stream.efficiency
    assert own_stream(ada, OLD).cached == most_read(ada, OLD) > ada.bandwidth
    assert own_stream(ada, load_spec(ServingStack, "vllm")) == ada.stream


def test_bytes_of_a_score() -> None:
    """Of products in 16 bits: 4 by them, 20 between them, and the mask's 4 where no cache holds it; 16 in 32 bits."""
    small, large, apple = device("rtx-3090"), device("rtx-4090"), device("m2-ultra")
    assert score_seconds(small, OLD, small.bandwidth) * small.bandwidth == pytest.approx(28, rel=0.01)
    assert score_seconds(large, OLD, large.bandwidth) * large.bandwidth == pytest.approx(24)
    assert score_seconds(apple, OLD, apple.bandwidth) * apple.bandwidth == pytest.approx(16)
    assert score_seconds(small, OLD.model_copy(update={"attention_kernel": None}), 1e12) == 0.0


def test_launches_of_a_layer() -> None:
    """Seven products, each with two conversions, the sums of narrow ones apart, 22 others; one more a product where
    weights are widened."""
    on = device("a100-pcie-80gb")
    model = load_spec(Model, "llama-3-70b")
    shard, narrow = (Shard(model, 1, formats(on, weights), False) for weights in ("fp16", "int4"))
    assert list(matrices(shard))[:2] == [(8192, 8192), (1024, 8192)]
    found = queue(shard, 20, on, OLD)
    assert found is not None and found.places == 1024 and found.ahead == 4
    parted = found.kernels // 20 - 7 * 3 - 22
    assert 2 <= parted <= 7
    assert queue(narrow, 20, on, OLD) == found.__class__(20 * (22 + 7 * 4 + parted), 1024, 4)
    assert queue(narrow, 20, on, NEW) == found.__class__(20 * (22 + 7 * 2 + parted), 1024, 4)
    assert queue(shard, 20, device("m2-ultra"), OLD) is None
