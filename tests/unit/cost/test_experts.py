"""Mixtures of experts."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.cost import compile_device
from simulator.cost.experts import ExpertCurve, expert_seconds, experts_hit
from simulator.cost.rows import Weights, product_seconds
from simulator.report.catalogue.profiles import ROOMS
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.serving import ServingStack

FREE = ExpertCurve(launch=0.0, rate=1.0, memory=1.0, ramp=0.0, passes=0.0)


def test_experts_hit() -> None:
    hit = experts_hit(np.array([1, 2, 10_000]), 8, 2)
    assert hit == pytest.approx([2.0, 8 * (1 - 0.75**2), 8.0])


def test_experts_that_are_chosen_more_often_than_others_leave_others_without_rows() -> None:
    """As drawn: popularity of a beta distribution with mean 4 / 128 and half its square as variance."""
    rows, mean = np.array([1, 8, 32, 256]), 4 / 128
    random, a = np.random.default_rng(0), 2.0
    popular = random.beta(a, a * (1 / mean - 1), 400_000)
    drawn = [128 * np.mean(1 - (1 - popular) ** n) for n in rows]
    found = experts_hit(rows, 128, 4, 0.5)
    assert found == pytest.approx(drawn, rel=0.005)
    assert found[0] == pytest.approx(4)
    assert found[2] < 0.9 * experts_hit(rows, 128, 4)[2]
    assert experts_hit(rows, 128, 4, 1e-3) == pytest.approx(experts_hit(rows, 128, 4), rel=1e-2)
    assert experts_hit(rows, 2, 2, 0.5) == pytest.approx([2.0] * 4)


def test_one_expert_is_a_dense_mlp() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    curve, rows = replace(device.gemm["bf16"], launch=0.0, ramp=0.0), np.array([64, 512])
    found = expert_seconds(rows, experts_hit(rows, 1, 1), 1, 4096, 14336, True, FREE, curve, Weights(2.0))
    slim = Weights(2.0, slim=True)  # kernels of experts have tiles for few rows
    up, down = (product_seconds(rows, n, k, curve, slim) for n, k in ((28672, 4096), (4096, 14336)))
    assert found == pytest.approx(up + down)


def test_few_rows_cost_the_weights_of_the_experts_they_hit() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    rows = np.array([1, 1024])
    hit, curve = experts_hit(rows, 8, 2), device.mixture(("triton",), "bf16")
    times = expert_seconds(rows, hit, 2, 4096, 14336, True, curve, device.gemm["bf16"], Weights(2.0))
    one = 2 * 3 * 4096 * 14336 * 2.0 / device.bandwidth
    assert one < times[0] < 1.3 * one
    assert times[1] > 4 * one


@pytest.mark.parametrize(
    ("family", "dtype", "tokens", "microseconds"),
    [  # large fp8 ones of `cutlass` are priced too slow: the table of dense products is of a card that throttles
        ("triton", "bf16", 1, 257),
        ("triton", "bf16", 64, 969),
        ("triton", "bf16", 4096, 5625),
        ("triton", "bf16", 16384, 22561),
        ("triton", "fp8", 8192, 9221),
        ("cutlass", "bf16", 64, 969),
        ("cutlass", "bf16", 8192, 7147),
        ("cutlass", "fp8", 1, 143),
        ("cutlass", "fp8", 64, 499),
    ],
)
def test_near_what_was_measured(family: str, dtype: str, tokens: int, microseconds: float) -> None:
    """Mixtral 8x7B's experts on one H100, evenly chosen, in the fitted tables of each family."""
    device, rows = compile_device(load_spec(Accelerator, "h100-sxm")), np.array([tokens])
    hit, weights = np.minimum(8.0, rows * 2.0), Weights(2.0 if dtype == "bf16" else 1.0)
    products = replace(device.gemm[dtype], result_size=2.0)
    time = expert_seconds(rows, hit, 2, 4096, 14336, True, device.mixture((family,), dtype), products, weights)
    assert time[0] == pytest.approx(microseconds * 1e-6, rel=0.35)


def test_block_scaled_and_per_tensor_kernels_differ_as_measured() -> None:
    """8,192 rows of Mixtral 8x7B in fp8 on H100: 9.2 ms by vLLM's kernel, 3.9 ms by that of TensorRT-LLM."""
    device, rows = compile_device(load_spec(Accelerator, "h100-sxm")), np.array([8192])
    curve, hit = replace(device.gemm["fp8"], result_size=2.0), np.array([8.0])
    triton, cutlass = (
        expert_seconds(rows, hit, 2, 4096, 14336, True, device.mixture((family,), "fp8"), curve, Weights(1.0))[0]
        for family in ("triton", "cutlass")
    )
    assert triton == pytest.approx(9.2e-3, rel=0.15)
    assert cutlass < 0.65 * triton
    assert cutlass == pytest.approx(5.8e-3, rel=0.05)  # measured 3.9 ms: the known error of large fp8 mixtures


def test_families_are_taken_in_the_order_of_the_stack() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    assert device.mixture(("trtllm-gen", "triton"), "fp8") is device.experts["triton"]["fp8"]
    assert device.mixture(("cutlass",), "fp8") is device.experts["cutlass"]["fp8"]
    assert not device.extrapolated_mixture(("cutlass",), "fp8")


def test_kernels_that_are_not_known_are_named_where_others_stand_in() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    assert device.mixture(("ggml",), "bf16") is device.experts["triton"]["bf16"]
    assert device.extrapolated_mixture(("ggml",), "bf16").startswith("no `ggml` kernels of mixtures of experts")
    older = compile_device(load_spec(Accelerator, "a100-sxm-80gb"))
    assert "known for NVIDIA A100 SXM4 80GB in bf16 only: int8" in older.extrapolated_mixture(("cutlass",), "int8")
    estimated = compile_device(load_spec(Accelerator, "mi300x"))
    assert not estimated.extrapolated_mixture(("cutlass",), "bf16")  # its profile is an estimate for all


def test_every_stack_that_serves_says_what_it_runs() -> None:
    known = {"triton", "cutlass", "trtllm-gen", "ggml"}
    for name in ROOMS["serving stacks"].names():
        families = load_spec(ServingStack, name).expert_kernels
        assert families and set(families) <= known, name
    assert load_spec(ServingStack, "tensorrt-llm-0.5").expert_kernels == ("cutlass",)


def test_some_kernels_take_a_time_for_each_expert_of_the_device() -> None:
    """TensorRT-LLM's with a scale for each block: 256 experts of DeepSeek-V3, each cut in eight, and 32 whole ones."""
    for name, family, measured in (
        ("h200-sxm", "cutlass-blocks", (138e-6, 71e-6)),
        ("b200", "deepgemm", (135e-6, 68e-6)),
    ):
        device = compile_device(load_spec(Accelerator, name))
        curve, products, weights = device.mixture((family,), "fp8"), device.gemm["fp8"], Weights(1.0)
        assert curve is not None and curve.each > 0.0
        rows = np.array([4])
        for inner, held, seconds in zip((256, 2048), (256, 32), measured, strict=True):
            hit = np.array([4.0 * 8 * held / 256])
            here = rows * held / 256
            found = expert_seconds(here, hit, 8, 7168, inner, True, curve, products, weights, held)
            assert found[0] == pytest.approx(seconds, rel=0.15), (family, held)


def test_rows_whose_experts_are_elsewhere_are_passed_over_all_the_same() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    products, rows, hit = device.gemm["bf16"], np.array([256.0, 256.0]), np.array([32.0, 32.0])
    curve = replace(FREE, passes_elsewhere=2.0, apart=1e-5)
    sides = 4, 2048, 1024, True, curve, products, Weights(2.0), 32.0
    alone, gathered = expert_seconds(rows, hit, *sides, np.array([0.0, 768.0]))
    traffic = 2.0 * 768 * 4 * (3 * 1024 + 2 * 2048) * products.result_size
    assert gathered - alone == pytest.approx(1e-5 + traffic / products.bandwidth)


def test_tiles_of_all_rows_are_emptier_where_experts_are_elsewhere() -> None:
    """512 rows of four experts each here, 1,536 elsewhere: 64 rows for each of 32 experts, 256 of all rows."""
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    sides = 2880, 2880, True
    products, held, hit = device.gemm["bf16"], 32.0, np.array([32.0])
    plain, tiled = FREE, replace(FREE, tile=128)
    here, beyond = np.array([512.0]), np.array([1536.0])
    asked = 2048 * 4 / 32
    assert asked == 256  # more than the tallest tile
    given = expert_seconds(here, hit, 4, *sides, tiled, products, Weights(0.53), held, beyond)
    full = expert_seconds(np.array([1024.0]), hit, 4, *sides, plain, products, Weights(0.53), held)
    assert given == pytest.approx(full)  # 64 rows an expert pass as a tile of 128
    assert given > expert_seconds(here, hit, 4, *sides, plain, products, Weights(0.53), held, beyond)
    alone = expert_seconds(here, hit, 4, *sides, tiled, products, Weights(0.53), held)
    assert alone == pytest.approx(expert_seconds(here, hit, 4, *sides, plain, products, Weights(0.53), held))
