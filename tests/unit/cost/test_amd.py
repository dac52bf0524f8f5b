"""AMD's devices: published kernels of CDNA 3 and 4 that no NVIDIA device's shapes foretell."""

import pytest

from simulator.cost import compile_device
from simulator.cost.gemm import gemm_seconds
from simulator.cost.kernel import seconds
from simulator.cost.work import Attention
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator

GAP = 2e-6
"""From one kernel to the next, which a table of kernels alone leaves out."""


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "microseconds"),
    [  # ROCm/aiter: a8w8_blockscale_tuned_gemm_qwen_glm_dsv4_gfx942.csv, bf16_tuned_gemm.csv
        ("mi300x", "fp8", (1, 17408, 4096), 24.4),
        ("mi300x", "fp8", (64, 17408, 4096), 34.0),
        ("mi300x", "fp8", (128, 5120, 17408), 75.1),
        ("mi300x", "fp8", (256, 17408, 4096), 68.0),
        ("mi300x", "fp8", (4096, 34816, 5120), 1492.1),
        ("mi300x", "bf16", (4096, 4096, 4096), 243.7),
        ("mi355x", "bf16", (128, 6144, 3072), 21.6),
        ("mi355x", "bf16", (512, 50016, 6144), 339.7),
        ("mi355x", "bf16", (2048, 50016, 6144), 1036.5),
    ],
)
def test_products_of_middle_rows_are_slower_than_of_many(
    name: str, dtype: str, shape: tuple[int, int, int], microseconds: float
) -> None:
    curve = compile_device(load_spec(Accelerator, name)).gemm[dtype]
    assert gemm_seconds(*shape, 1, curve)[0] == pytest.approx(microseconds * 1e-6 + GAP, rel=0.27)


@pytest.mark.parametrize(("rows", "share"), [(16_384, 0.38), (256, 0.19)])
def test_products_in_8_bits_reach_less_of_their_peak_than_those_in_16(rows: int, share: float) -> None:
    """990 TFLOP/s of 2,615 and 620 to 668 of 1,307 (SemiAnalysis, December 2024; stas00/ml-engineering); 256 rows reach
    0.195 on the 228 units of MI300A (ROCm/aiter a8w8_tuned_gemm.csv)."""
    device = compile_device(load_spec(Accelerator, "mi300x"))
    narrow, wide = (
        2 * rows * 8192 * 8192 / gemm_seconds(rows, 8192, 8192, 1, device.gemm[dtype])[0] / device.peaks[dtype]
        for dtype in ("fp8", "bf16")
    )
    assert narrow == pytest.approx(share, rel=0.1) and narrow < 0.85 * wide


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [("mi300x", 592.16e12, 468.71e12), ("mi355x", 1407.58e12, 798e12)],
)
def test_assembly_kernels_of_attention_are_the_best(name: str, forward: float, backward: float) -> None:
    device = compile_device(load_spec(Accelerator, name))
    work = 4.0 * 4 * 64 * 8192**2 * 128
    pairs = ((False, 1.0, forward), (True, 2.5, backward))
    for reverse, times, rate in pairs:
        found = seconds(Attention(4, 64, 8, 8192, 8192, 128, False, backward=reverse), device)
        assert found == pytest.approx(times * work / rate, rel=0.05)
        older = seconds(Attention(4, 64, 8, 8192, 8192, 128, False, backward=reverse, kernel="fa2"), device)
        assert older > 1.15 * found


@pytest.mark.parametrize(("name", "gibibytes"), [("mi300x", 192), ("mi325x", 256), ("mi350x", 288), ("mi355x", 288)])
def test_memory_is_counted_in_powers_of_two(name: str, gibibytes: int) -> None:
    """191.98, 255.98 and 287.98 GiB under ROCm."""
    assert load_spec(Accelerator, name).memory.capacity.value == gibibytes * 2**30
