"""Products for many row counts at once."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.cost import Gemm, compile_device, seconds
from simulator.cost.rows import Weights, _least, known_products, product_seconds
from simulator.cost.stream import stream_rows
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h100-sxm", "mi300x"])
@pytest.mark.parametrize(("n", "k"), [(12288, 4096), (64, 64), (32000, 4096), (640, 8192)])
def test_equal_to_the_model_for_one_product(name: str, n: int, k: int) -> None:
    device = compile_device(load_spec(Accelerator, name))
    rows = np.array([1, 2, 15, 16, 17, 100, 255, 256, 512, 5000])
    found = product_seconds(rows, n, k, device.gemm["bf16"], Weights(2.0))
    assert found == pytest.approx([seconds(Gemm(int(m), n, k), device) for m in rows], rel=1e-12)


def test_a_batch_is_that_of_the_model() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    found = product_seconds(np.array([16, 300]), 1536, 2048, device.gemm["bf16"], Weights(2.0), np.array([8.0, 128.0]))
    expected = [seconds(Gemm(16, 1536, 2048, 8), device), seconds(Gemm(300, 1536, 2048, 128), device)]
    assert found == pytest.approx(expected, rel=1e-12)


def test_prices_do_not_depend_on_their_neighbours() -> None:
    curve = compile_device(load_spec(Accelerator, "h100-sxm")).gemm["bf16"]
    alone = product_seconds(np.array([77]), 4096, 4096, curve, Weights(2.0))
    assert product_seconds(np.arange(1, 200), 4096, 4096, curve, Weights(2.0))[76] == alone[0]


def test_narrow_weights_are_read_faster_and_multiplied_slower() -> None:
    curve = compile_device(load_spec(Accelerator, "a100-sxm-80gb")).gemm["bf16"]
    few, many = np.array([1]), np.array([8192])
    wide, narrow = Weights(2.0), Weights(0.53, 0.8, 0.95, slim=True)
    assert 2.0 < product_seconds(few, 8192, 8192, curve, wide) / product_seconds(few, 8192, 8192, curve, narrow) < 4.0
    slower = product_seconds(many, 8192, 8192, curve, narrow) / product_seconds(many, 8192, 8192, curve, wide)
    assert 1.0 < slower[0] < 1.0 / 0.8


@pytest.mark.parametrize(
    ("rows", "n", "k", "measured"),
    [  # ai-dynamo/aiconfigurator b200_sxm/gemm/vllm/0.24.0 nvfp4, with the rounding of activations
        (256, 8192, 8192, 15.5e-6),
        (512, 8192, 8192, 24.9e-6),
        (512, 16384, 8192, 45.8e-6),
        (512, 65536, 8192, 140.2e-6),
        (2048, 16384, 8192, 123.8e-6),
    ],
)
def test_fp4_products_take_what_their_table_has(rows: int, n: int, k: int, measured: float) -> None:
    device = compile_device(load_spec(Accelerator, "b200"))
    curve = replace(device.gemm["fp4"], size=4.5 / 8, result_size=2.0)
    product = product_seconds(np.array([rows]), n, k, curve, Weights(4.5 / 8))
    rounding = stream_rows(np.array([rows * k * (2.0 + 4.5 / 8)]), 1, device.stream)
    assert (product + rounding)[0] == pytest.approx(measured, rel=0.13)


@pytest.mark.parametrize("name", ["m1-max", "m4"])
def test_caches_of_apple_are_no_slower_than_the_memory(name: str) -> None:
    """One row times weights of 4.85 bits is bound by the memory: llama.cpp reaches 0.56 and 0.85 of it."""
    device = compile_device(load_spec(Accelerator, name))
    weights = Weights(4.85 / 8, *device.dequantising, slim=True)
    time = product_seconds(np.array([1]), 28672, 4096, device.gemm["bf16"], weights)[0]
    assert 4.85 / 8 * 28672 * 4096 / time > 0.5 * device.bandwidth


def test_reading_never_beats_the_memory() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    time = product_seconds(np.array([1]), 16384, 16384, device.gemm["bf16"], Weights(0.5, memory=5.0, slim=True))
    assert time[0] >= 0.5 * 16384**2 / device.bandwidth


def test_the_least_of_all_tiles_is_that_of_their_fourth_powers() -> None:
    """Candidates are found by squares of squares, which differ in the last digits."""
    random = np.random.default_rng(1)
    times = random.uniform(1e-6, 2e-6, (3, 20, 500))
    times[:, 1] = times[:, 0] * (1.0 + random.uniform(-4e-16, 4e-16, (3, 500)))  # near ties
    barred = random.uniform(size=(20, 500)) < 0.3
    barred[2] = False
    expected = times[0] ** 4 + times[1] ** 4 + times[2] ** 4
    expected[barred] = np.inf
    assert (_least(*times, barred) == expected.min(axis=0)).all()


def test_remembered_products_are_the_same_and_cannot_be_changed() -> None:
    curve, rows = compile_device(load_spec(Accelerator, "h100-sxm")).gemm["bf16"], np.arange(1, 300)
    found = known_products(rows.tobytes(), 4096, 1024, curve, Weights(2.0))
    assert (found == product_seconds(rows, 4096, 1024, curve, Weights(2.0))).all()
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1.0
