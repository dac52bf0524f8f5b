"""Which attention kernels a stack runs, and at what rate."""

from dataclasses import replace

import pytest

from simulator.cost import Attention, Device, Gemm, compile_device
from simulator.cost.kernel import kernel_cost
from simulator.specs.base import Figure
from simulator.specs.hardware import Accelerator
from simulator.specs.resolve import load_spec
from simulator.training.build import build_job
from simulator.training.pass_costs import LONG_RUNS, PassCosts
from simulator.training.step import Kernel, Work, with_casts
from tests import jobs

LATENT = Attention(1, 128, 128, 4096, 4096, 192, True, backward=True, value_dim=128, kernel="cudnn")


def device(name: str) -> Device:
    return compile_device(load_spec(Accelerator, name))


def test_latent_attention_of_cudnn_is_as_measured_on_hopper() -> None:
    found = kernel_cost(LATENT, device("h200-sxm"))
    assert found.valid
    assert found.seconds == pytest.approx(4.424e-3, rel=0.02)
    assert found.seconds > 1.15 * kernel_cost(replace(LATENT, kernel="fa3"), device("h200-sxm")).seconds


def test_where_cudnn_is_not_known_the_best_kernels_run() -> None:
    a100 = device("a100-sxm-80gb")
    plain = replace(LATENT, head_dim=128, value_dim=None)
    assert kernel_cost(plain, a100) == kernel_cost(replace(plain, kernel=None), a100)
    assert kernel_cost(plain, a100).valid


def ticks(work: Work, **changes: object) -> int:
    """Of a kernel under a stack."""
    job = build_job(jobs.scenario(software=jobs.stack("megatron-core", **changes)))
    return PassCosts(job, device("h100-sxm"), lambda comm: 0).kernel(work).total


def test_an_efficiency_of_attention_is_of_attention_alone() -> None:
    whole = {"attention_efficiency": Figure[float](value=1.0, status="estimate", source="test")}
    share = jobs.stack("megatron-core").compute_efficiency.value
    product = Gemm(4096, 4096, 4096)
    assert ticks(product, **whole) == ticks(product)
    assert ticks(LATENT, **whole) == pytest.approx(share * ticks(LATENT), rel=1e-6)


def test_a_device_with_a_stated_clock_does_not_lose_that_of_others() -> None:
    """Efficiencies of stacks hold what the clocks of A100 and H100 fall by in long runs; an H20's does not fall."""
    job = build_job(jobs.scenario(software=jobs.stack("megatron-core")))
    share, work, steady = job.stack.compute_efficiency.value, Gemm(4096, 4096, 4096), device("h20-sxm")
    found = PassCosts(job, steady, lambda comm: 0).kernel(work).total
    assert found == pytest.approx(kernel_cost(work, steady).seconds / (share / LONG_RUNS) * 1e12, rel=1e-6)
    assert ticks(work) == pytest.approx(kernel_cost(work, device("h100-sxm")).seconds / share * 1e12, rel=1e-6)


@pytest.mark.parametrize(
    ("heads", "size", "backward", "published"),
    [
        (128, 192, False, 0.978 / 0.682),
        (128, 192, True, 3.359 / 2.533),
        (64, 128, False, 0.410 / 0.329),
        (64, 128, True, 1.191 / 1.327),
    ],
)
def test_attention_in_8_bits_on_blackwell(heads: int, size: int, backward: bool, published: float) -> None:
    """cuDNN 9.24 on GB200, bf16 over MXFP8, 4,096 tokens (NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training)."""
    wide = Attention(2, heads, heads, 4096, 4096, size, True, backward=backward, value_dim=128, kernel="cudnn")
    narrow, blackwell = replace(wide, dtype="fp8"), device("gb200")
    found = kernel_cost(wide, blackwell).seconds / kernel_cost(narrow, blackwell).seconds
    assert found == pytest.approx(published, rel=0.06)


@pytest.mark.parametrize(
    ("size", "backward", "published"),
    [(128, False, 0.893 / 0.627), (128, True, 2.779 / 4.391), (192, False, 2.248 / 2.32)],
)
def test_attention_in_8_bits_on_hopper(size: int, backward: bool, published: float) -> None:
    """cuDNN 9.27 on H200, bf16 over fp8, 4,096 tokens (NVIDIA/cudnn-frontend, benchmark/attention_training)."""
    heads = (64, 8) if size == 128 else (128, 128)
    wide = Attention(2, *heads, 4096, 4096, size, True, backward=backward, value_dim=128, kernel="cudnn")
    seconds = [kernel_cost(one, device("h200-sxm")).seconds for one in (wide, replace(wide, dtype="fp8"))]
    assert seconds[0] / seconds[1] == pytest.approx(published, rel=0.06)


@pytest.mark.parametrize(
    ("on", "kernel"), [("dgx-a100-40gb", "fa2"), ("dgx-h100", "fa2"), ("dgx-b200", "cudnn"), ("gb200-nvl72", "cudnn")]
)
def test_torchtitan_asks_for_the_kernel_of_cudnn_on_blackwell(on: str, kernel: str) -> None:
    job = build_job(jobs.scenario(on=on, software=jobs.stack("fsdp-eager"), training={}))
    assert job.attention_kernel == kernel


def test_devices_of_others_run_flash_attention_where_torch_chooses() -> None:
    job = build_job(jobs.scenario(on="mi355x-cluster", software=jobs.stack("fsdp-compiled"), training={}))
    assert job.attention_kernel == "fa2"


def test_what_attention_multiplies_in_8_bits_is_cast_before_it() -> None:
    narrow = replace(LATENT, dtype="fp8")
    cast, kernel = with_casts(narrow)
    assert kernel.work is narrow
    assert with_casts(LATENT) == (Kernel("attention", LATENT),)
    assert cast.work.bytes == 4 * 128 * 4096 * 128  # the gradient of the result
    assert with_casts(replace(narrow, backward=False))[0].work.bytes == 4 * 128 * 4096 * (192 + 192 + 128)
    job = build_job(
        jobs.scenario(
            on="dgx-b200", software=jobs.stack("nemo"), training={"quantized_attention": True, "precision": "mxfp8"}
        )
    )
    assert job.attention_format == "fp8"
    assert replace(job, quantized_attention=False).attention_format == "bf16"
