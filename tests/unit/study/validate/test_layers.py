"""Published kernels of latent attention and of mixtures: what a row stands for, and what it takes."""

import json
from typing import Any

import pytest

from simulator.interop.rows.jsonl import Line, Refused, read_row
from simulator.interop.rows.kernels import KernelRow
from simulator.interop.rows.single.layers import Latents, Mixture, latents_of, mixture_of
from simulator.run.measured.kernels import benchmark_device
from simulator.run.measured.layers import attended, mixed
from simulator.study.validate.kernels import validate_kernel_line
from simulator.study.validate.timed import TimedOutcome

LATENT: dict[str, Any] = {
    "id": "l1",
    "op": "mla_decode_dense",
    "source": "test",
    "accelerator": "NVIDIA H800 SXM5 80GB",
    "dtype": "bf16",
    "library": "FlashMLA",
    "metrics": {"flops_per_s": 580e12},
}
EXPERTS: dict[str, Any] = LATENT | {
    "op": "moe_layer_prefill",
    "accelerator": "NVIDIA GB200 192GB (NVL72)",
    "dtype": "nvfp4",
    "library": "flashinfer_trtllm_nvfp4",
    "shape": {"tokens": 8192, "experts": 256, "topk": 8, "model": "DeepSeek-R1"},
    "metrics": {"time_s": 2.2e-3},
}


def latents(**changes: Any) -> tuple[Latents, list[str]]:
    assumed: list[str] = []
    return latents_of(read_row(KernelRow, LATENT | changes), assumed), assumed


def mixture(**changes: Any) -> Mixture:
    return mixture_of(read_row(KernelRow, EXPERTS | changes), [])


def validated(row: dict[str, Any]) -> TimedOutcome:
    return validate_kernel_line(Line("rows.jsonl", 1, json.dumps(row)))


def test_an_expert_that_is_cut_to_nothing_is_refused() -> None:
    with pytest.raises(Refused, match="narrower than the devices"):
        mixture(shape=EXPERTS["shape"] | {"tp": 4096})


def test_a_decode_that_states_nothing_is_that_of_deepseek() -> None:
    found, assumed = latents()
    assert found == Latents(128, 8192, 1, 128, 512, 64, (192, 128), 2.0, "decode")
    assert assumed == ["sizes of DeepSeek-V3", "128 sequences of 8,192 tokens"]
    few, _ = latents(metrics={"bytes_per_s": 3e12})
    bound, _ = latents(op="mla_memory_bound", metrics={"fraction_of_peak_bandwidth": 0.9})
    assert (few.heads, bound.heads) == (16, 16)


def test_a_decode_states_its_shape() -> None:
    shape = {"batch": 64, "context": 4096, "heads": 128, "tp": 8, "seqlen_q": 2}
    found, assumed = latents(shape=shape, dtype="fp8 kv, bf16 mma")
    assert (found.sequences, found.tokens, found.heads, found.rows, found.kv_bytes) == (64, 4096, 16, 2, 1.0)
    assert assumed == []
    named, _ = latents(shape={"model": "DeepSeek-R1", "batch": 1, "context": 1024})
    assert (named.heads, named.cached, named.rotated, named.expanded) == (128, 512, 64, (192, 128))


def test_a_rate_is_of_both_products_over_latents() -> None:
    """2 x 128 heads x (576 + 512) FLOPs a cached token; a share is one of the peak that the profile has."""
    work = 128 * 8192 * 2 * 128 * (576 + 512)
    device = benchmark_device("h800-sxm")
    row = read_row(KernelRow, LATENT)
    measured, metric, ours = attended(row, latents_of(row, []), device)
    assert (measured, metric) == (pytest.approx(work / 580e12), "flops_per_s")
    assert ours == pytest.approx(measured, rel=0.06)
    share = read_row(KernelRow, LATENT | {"op": "mla_compute_bound", "metrics": {"fraction_of_spec": 0.5}})
    assert attended(share, latents_of(share, []), device)[0] == pytest.approx(work / (0.5 * 989e12))


def test_rows_of_a_sequence_walk_over_its_latents_together() -> None:
    device = benchmark_device("h800-sxm")
    row = read_row(KernelRow, LATENT)
    times = []
    for shape in ({"heads": 16}, {"heads": 16, "seqlen_q": 2}, {"heads": 128}, {"heads": 128, "seqlen_q": 2}):
        times.append(attended(row, latents(shape=shape)[0], device)[2])
    assert times[1] == pytest.approx(times[0], rel=0.01)  # reading bounds both
    assert times[3] == pytest.approx(2 * times[2], rel=0.05)  # arithmetic bounds both


def test_prompts_expand_keys_and_values() -> None:
    """4 sequences of 2,048 tokens of 128 heads of 192 and 128: 0.69 TFLOP."""
    shape = {"batch": 4, "seqlen": 2048, "tokens": 8192, "model": "DeepSeek-R1"}
    row = read_row(KernelRow, LATENT | {"op": "mla_prefill", "shape": shape, "metrics": {"flops_per_s": 6e14}})
    found = latents_of(row, [])
    assert (found.way, found.rows, found.tokens) == ("prefill", 2048, 2048)
    measured, _, ours = attended(row, found, benchmark_device("h800-sxm"))
    assert measured == pytest.approx(4 * 128 * 2048**2 / 2 * 2 * (192 + 128) / 6e14)
    assert ours == pytest.approx(measured, rel=0.2)


def test_rows_that_choose_latents_work_on_whole_blocks_of_heads() -> None:
    """Hopper fills 64 heads: 32 take as long, and only those that there are count."""
    device = benchmark_device("h800-sxm")
    row = read_row(KernelRow, LATENT | {"op": "mla_prefill_sparse"})
    found = {heads: latents(op=row.op, shape={"heads": heads})[0] for heads in (32, 64)}
    assert {one.way for one in found.values()} == {"chosen"}
    ours = {heads: attended(row, one, device)[2] for heads, one in found.items()}
    measured = {heads: attended(row, one, device)[0] for heads, one in found.items()}
    assert ours[32] == ours[64]
    assert measured[64] == pytest.approx(2 * measured[32])


def test_a_mixture_has_the_sizes_of_its_model_and_the_kernels_of_its_library() -> None:
    found = mixture()
    assert found == Mixture(8192, 7168, 2048, 256, 8, 1, "trtllm-gen", "fp4", 4.5)
    assert validated(EXPERTS).error == pytest.approx(0.0, abs=0.2)
    assert validated(EXPERTS).assumed == ("all experts on the device",)
    rate = validated(EXPERTS | {"metrics": {"tokens_per_s": 8192 / 2.2e-3}})
    assert (rate.measured, rate.metric) == (pytest.approx(2.2e-3), "tokens_per_s")


def test_fewer_tokens_and_spread_experts_read_fewer_weights() -> None:
    device = benchmark_device("gb200")
    row = read_row(KernelRow, EXPERTS)
    shape = EXPERTS["shape"] | {"tokens": 64}
    whole, spread = (mixed(row, mixture(shape=shape | more), device)[2] for more in ({}, {"ep": 8}))
    assert whole > 3 * spread
    cut = mixture(shape=shape | {"tp": 8})
    assert cut.inner == 256


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (LATENT | {"accelerator": "AMD MI50"}, "no accelerator profile"),
        (LATENT | {"shape": {"model": "Llama-3.1-8B"}}, "no latent attention"),
        (LATENT | {"shape": {"heads": "many"}}, "whole number above 0 for heads"),
        (LATENT | {"shape": {"heads": 4, "tp": 8}}, "fewer heads than devices"),
        (LATENT | {"metrics": {"cycles": 4.0}}, "neither a time nor a rate"),
        (EXPERTS | {"shape": {"tokens": 64}}, "mixture without hidden, inner, experts, topk"),
        (EXPERTS | {"dtype": "int3"}, "number format `int3`"),
        (EXPERTS | {"accelerator": "NVIDIA A100 SXM 80GB"}, "fp4 on"),
        (EXPERTS | {"shape": EXPERTS["shape"] | {"topk": 300}}, "300 of 256 experts"),
        (EXPERTS | {"metrics": {"time_s": 2e-3, "tokens_per_s": 1e6}}, "quarantined"),
    ],
)
def test_what_is_refused(row: dict[str, Any], reason: str) -> None:
    assert reason in validated(row).refused


def test_refusals_are_raised_where_rows_are_read() -> None:
    with pytest.raises(Refused, match="Llama"):
        latents(shape={"model": "Llama-3.1-8B"})
