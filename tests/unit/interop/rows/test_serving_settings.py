"""Settings of engines that a benchmark states, and what rows make of them."""

import json
from typing import Any

import pytest

from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.serving import MappedServing, ServingRow, draft_serving
from simulator.interop.rows.serving_settings import Case, Told, known, settings
from simulator.specs import load_spec
from simulator.specs.serving import ServingStack

ROW = {
    "id": "x",
    "source": "InferenceX",
    "kind": "online_serving",
    "model": "GPT-OSS-120B",
    "engine": "vLLM",
    "engine_version": "0.15.1",
    "accelerator": "NVIDIA B200 SXM 180GB",
    "num_accelerators": 4,
    "parallelism": {"tp": 4, "pp": 1, "attention_dp": 1, "moe_tp": 4, "moe_ep": 1},
    "precision": {"weights": "mxfp4 experts, bf16 rest", "kv": "fp8"},
    "input_len": 1024,
    "output_len": 1024,
    "concurrency": 16,
    "arrivals": "closed loop",
    "metrics": {"ttft_s": 0.1, "tpot_s": 0.01},
}


def mapped(**changes: Any) -> MappedServing:
    return draft_serving(ServingRow.model_validate_json(json.dumps(ROW | changes)))


def test_scripts_choose_kernels_and_formats_of_experts() -> None:
    scenario = mapped().scenario
    assert scenario.stack.expert_kernels[0] == "trtllm-gen"
    precision = scenario.serving.precision
    assert (precision.weights, precision.experts, precision.expert_activations) == ("bf16", "fp4", "fp8")
    assert (scenario.serving.batching.token_budget, scenario.serving.batching.max_sequences) == (8192, 512)
    assert mapped().stack == "vllm-async"


def test_rows_choose_some_experts_more_often_than_others() -> None:
    """Also where experts are whole on every device; models without experts have none to choose."""
    for found in (mapped(), mapped(parallelism={"tp": 4, "pp": 1, "attention_dp": 1, "moe_tp": 1, "moe_ep": 4})):
        assert found.scenario.serving.experts.routing.load == "uneven"
        assert any("some experts more often than others" in text for text in found.assumed)
    dense = mapped(model="Llama-3.1-70B", precision={"weights": "fp8"})
    assert dense.scenario.serving.experts.routing.load == "balanced"
    assert not any("experts" in text for text in dense.assumed)


def test_triton_mixtures_under_tensorrt_llm_are_launched_from_python() -> None:
    """InferenceX's scripts of GPT-OSS on H200 choose them; those of B200 choose kernels that C++ launches."""
    row = {"engine": "TensorRT-LLM", "engine_version": "1.2.0rc2"}
    h200, b200 = mapped(**row, accelerator="NVIDIA H200 SXM 141GB"), mapped(**row)
    assert (h200.stack, h200.scenario.stack.expert_kernels[0]) == ("tensorrt-llm-serve", "cutlass")
    assert h200.scenario.stack.experts_launch == load_spec(ServingStack, "sglang").experts_launch
    assert (b200.scenario.stack.expert_kernels[0], b200.scenario.stack.experts_launch) == ("trtllm-gen", None)


def test_deepseek_in_8_bits_runs_kernels_with_a_scale_for_each_block() -> None:
    """Those of TensorRT-LLM on Hopper; on B200 what the scripts said then, with attention in data parallel too."""
    eight = {"tp": 8, "pp": 1, "attention_dp": 1, "moe_tp": 8, "moe_ep": 1}
    row = {
        "model": "DeepSeek-R1",
        "engine": "TensorRT-LLM",
        "engine_version": "1.1.0rc2",
        "precision": {"weights": "fp8"},
    }
    row |= {"num_accelerators": 8, "parallelism": eight}

    def kernels(**changes: Any) -> tuple[str, ...]:
        return mapped(**(row | changes)).scenario.stack.expert_kernels

    hopper = kernels(accelerator="NVIDIA H200 SXM 141GB", source="elsewhere")
    assert hopper[:2] == ("cutlass-blocks", "cutlass")
    apart = {"tp": 1, "pp": 1, "attention_dp": 8, "moe_tp": 1, "moe_ep": 8}
    days = ("2025-12-15", "2026-02-05")
    assert [kernels(measured_on=day)[0] for day in days] == ["deepgemm", "trtllm-gen"]
    assert [kernels(measured_on=day, parallelism=apart)[0] for day in days] == ["deepgemm", "deepgemm"]
    assert kernels(precision={"weights": "nvfp4"})[0] == "trtllm-gen"


@pytest.mark.parametrize(
    ("sizes", "replicas", "layout"),
    [
        ((4, 1, 4, 1), 1, (4, 1, 4)),
        ((4, 1, 1, 4), 1, (4, 4, 1)),
        ((1, 4, 1, 4), 4, (1, 4, 1)),
        ((1, 4, 4, 1), 4, (1, 1, 4)),
        ((2, 2, 1, 4), 2, (2, 4, 1)),
    ],
)
def test_both_meshes_of_a_row(sizes: tuple[int, ...], replicas: int, layout: tuple[int, ...]) -> None:
    spread = dict(zip(("tp", "attention_dp", "moe_tp", "moe_ep"), sizes, strict=True))
    serving = mapped(parallelism=spread).scenario.serving
    parallel = serving.parallel
    assert serving.replicas == replicas
    assert (parallel.tp, parallel.ep, parallel.expert_cut) == layout


def test_meshes_of_different_devices_are_refused() -> None:
    with pytest.raises(Refused, match="attention tp 4 x dp 2, experts tp 1 x ep 4: not the same devices"):
        mapped(parallelism={"tp": 4, "attention_dp": 2, "moe_tp": 1, "moe_ep": 4}, num_accelerators=8)


def test_a_merged_row_has_several_days() -> None:
    assert mapped(engine_version=None, measured_on=["2026-03-18", "2026-02-07"]).row.day == "2026-02-07"


CASE = Case("InferenceX", "vLLM", "GPT-OSS-120B", "NVIDIA H200 SXM", "mxfp4", 8, 64, (8192, 1024), "2026-03-25")


@pytest.mark.parametrize(
    ("engine", "model", "device", "weights", "expected"),
    [
        ("TensorRT-LLM", "Llama-3.1-70B", "H200", "fp8", (16_384, 64)),
        ("TensorRT-LLM", "DeepSeek-R1", "B200", "fp8", (8320, 64)),
        ("TensorRT-LLM", "DeepSeek-R1", "B200", "nvfp4", (8320, 64)),
        ("vLLM", "MiniMax-M2.5", "H100", "fp8", (8192, 256)),
        ("SGLang", "DeepSeek-R1", "H200", "fp8", (32_768, 256)),
        ("SGLang", "DeepSeek-R1", "B200", "nvfp4", (16_384, 256)),
        ("SGLang", "DeepSeek-R1", "B200", "fp8", (32_768, 128)),
    ],
)
def test_limits(engine: str, model: str, device: str, weights: str, expected: tuple[int, int]) -> None:
    case = CASE._replace(engine=engine, model=model, device=device, weights=weights)
    found = settings(case)
    assert found is not None and found.limits(64, 8192) == expected
    assert settings(case._replace(source="another benchmark")) is None


@pytest.mark.parametrize(
    ("day", "drafts", "ranks", "expected"),
    [
        ("2025-12-15", False, 1, (1152, 64)),
        ("2026-02-03", False, 8, (8192, 64)),
        ("2026-02-05", True, 1, (1344, 64)),
        ("2026-02-05", True, 8, (1152, 8)),
    ],
)
def test_prompts_join_one_by_one_where_scripts_leave_no_room_for_two(
    day: str, drafts: bool, ranks: int, expected: tuple[int, int]
) -> None:
    """64 requests of 1,024 tokens in flight under TensorRT-LLM, without drafts and with three (one with ranks)."""
    case = CASE._replace(engine="TensorRT-LLM", model="DeepSeek-R1", device="NVIDIA B200", weights="fp8")
    found = settings(case._replace(lengths=(1024, 1024), day=day, drafts=drafts))
    rows = (4 if ranks == 1 else 2) if drafts else 1
    assert found is not None and found.limits(64, 1024, rows, ranks) == expected
    assert (found.balance_iterations, found.balance_wait) == (60, None)


def test_own_runs_of_nvidia_have_the_limits_that_its_generator_writes() -> None:
    own = CASE._replace(source="NVIDIA's own runs, as sampled in aiconfigurator-core", lengths=(1024, 512), day="")
    for engine in ("TensorRT-LLM", "vLLM"):
        found = settings(own._replace(engine=engine))
        assert found is not None and found.limits(64, 1024) == (2624, 64)
        assert found.balance_iterations is None
    assert settings(own._replace(engine="SGLang")) is None


def test_entries_that_fit_apply_one_over_the_other() -> None:
    sglang = CASE._replace(engine="SGLang", model="DeepSeek-R1", device="B200", weights="fp8")
    told = settings(sglang), settings(sglang._replace(in_flight=8)), settings(sglang._replace(tp=4, in_flight=32))
    assert [one and one.poll_interval for one in told] == [30, 10, 10]
    assert [one and one.sequences for one in told] == [128, 128, 32]
    marlin, before = settings(CASE), settings(CASE._replace(day="2025-11-20"))
    assert marlin is not None and marlin.experts == "marlin"
    assert before is not None and before.experts is None


def test_every_entry_is_about_some_row_and_names_its_script() -> None:
    for one in known():
        assert one.found_in
        assert one.model_dump(include=set(Told.model_fields), exclude_none=True), one.found_in


def test_prompts_of_small_tensor_parallel_replicas_wait_for_others() -> None:
    llama = {
        "engine": "TensorRT-LLM",
        "engine_version": None,
        "model": "Llama-3.1-70B",
        "precision": {"weights": "fp8"},
    }
    batching = mapped(**llama).scenario.serving.batching
    assert (batching.wait_iterations, batching.wait_share) == (20, 0.9)
    whole = {"parallelism": {"tp": 8, "pp": 1}, "num_accelerators": 8}
    assert mapped(**llama, **whole).scenario.serving.batching.wait_iterations == 0


def test_drafting_engines_are_told_other_limits() -> None:
    """SGLang's scripts of DeepSeek-R1 with and without drafts."""
    deepseek = {
        "model": "DeepSeek-R1",
        "engine": "SGLang",
        "engine_version": "0.5.9",
        "num_accelerators": 8,
        "parallelism": {"tp": 8, "pp": 1, "attention_dp": 1, "moe_tp": 8, "moe_ep": 1},
        "precision": {"weights": "fp8", "kv": "fp8"},
        "concurrency": 512,
    }
    plain, drafts = (mapped(**deepseek, spec_decoding=word).scenario.serving for word in ("none", "mtp"))
    limits = [(one.batching.max_sequences, one.batching.token_budget) for one in (plain, drafts)]
    assert limits == [(128, 32_768), (512, 16_384)]
    assert plain.stream_interval == drafts.stream_interval == 30


DEEPSEEK = {
    "source": "dstack DeepSeek-R1 benchmark",
    "model": "DeepSeek-R1",
    "engine": "vllm",
    "engine_version": "2025-03",
    "accelerator": "NVIDIA H200 SXM 141GB",
    "num_accelerators": 8,
    "parallelism": {"tp": 8},
    "precision": {"compute": "fp8"},
    "input_len": 3200,
    "output_len": 800,
    "arrivals": None,
}


def test_prompts_of_latent_attention_are_read_whole_by_engines_that_cut_others() -> None:
    batching = mapped(**DEEPSEEK).scenario.serving.batching
    assert (batching.policy, batching.token_budget, batching.max_sequences) == (None, 163_840, 256)
    offline = {"kind": "offline_throughput", "concurrency": None, "num_requests": 64, "arrivals": None}
    found = mapped(**DEEPSEEK | offline).scenario.serving.batching
    assert (found.policy, found.token_budget, found.max_sequences) == (None, 32_768, 256)
    llama = DEEPSEEK | {"model": "Llama-3.1-70B", "source": "x", "num_accelerators": 8}
    cut = mapped(**llama).scenario.serving.batching
    assert (cut.policy, cut.token_budget) == ("vllm-v1", 512)


@pytest.mark.parametrize(("version", "expected"), [("0.6.3.dev116", ("vllm-v1", 512)), ("0.7.2", (None, 131_072))])
def test_prompts_are_cut_on_rocm_until_december_2024(version: str, expected: tuple[str | None, int]) -> None:
    llama = {"model": "Llama-3.1-405B", "source": "x", "accelerator": "AMD MI300X 192GB", "engine_version": version}
    batching = mapped(**DEEPSEEK | llama).scenario.serving.batching
    assert (batching.policy, batching.token_budget) == expected


def test_the_first_server_of_the_pytorch_flow_captures_nothing() -> None:
    found = mapped(**DEEPSEEK | {"engine": "trt-llm"})
    assert found.stack == "tensorrt-llm-serve" and found.scenario.stack.graphs is None
    assert found.scenario.serving.precision.kv == "bf16"
    batching = found.scenario.serving.batching
    assert (batching.token_budget, batching.max_sequences) == (16_384, 512)
    built = {"kind": "offline_throughput", "concurrency": None, "num_requests": 64}
    offline = mapped(**DEEPSEEK | {"engine": "trt-llm"} | built)
    assert not offline.tuned and offline.scenario.stack.graphs == 2048
    assert offline.scenario.serving.batching.max_sequences == 2048
    assert offline.stack == "tensorrt-llm-deepseek"


def test_releases_of_tensorrt_llm_have_the_pytorch_flow_alone_for_deepseek() -> None:
    guide = DEEPSEEK | {"engine": "TensorRT-LLM", "engine_version": "2025 (commit b6261862)", "source": "a guide"}
    guide |= {"kind": "offline_throughput", "concurrency": None, "num_requests": 64}
    assert mapped(**guide).stack == "tensorrt-llm-pytorch"
    assert mapped(**guide | {"model": "Llama-3.1-70B"}).stack == "tensorrt-llm"
    assert mapped(**guide | {"model": "DeepSeek-R1-Distill-Llama-70B"}).stack == "tensorrt-llm"


@pytest.mark.parametrize(
    ("version", "stack"),
    [
        ("0.6.6", "vllm-v0-rocm"),
        ("0.8.5", "vllm-v0-rocm"),
        ("0.9.1", "vllm-v0-rocm"),
        ("main of 2025-05-01", "vllm-v0-rocm"),
        ("0.9.2", "vllm-offline"),
        ("0.10.0", "vllm-offline"),
    ],
)
def test_amd_ran_the_v0_engine_until_june_2025(version: str, stack: str) -> None:
    asked = DEEPSEEK | {"model": "Llama-3.1-70B", "precision": {"weights": "bf16"}, "engine_version": version}
    asked |= {"kind": "offline_throughput", "concurrency": None, "num_requests": 64}
    assert mapped(**asked | {"accelerator": "AMD MI300X 192GB"}).stack == stack
    assert mapped(**asked).stack == ("vllm-v0" if version == "0.6.6" else "vllm-offline")


def test_scales_of_blocks_have_the_kernels_of_their_engine_and_device() -> None:
    rocm = {"accelerator": "AMD MI300X 192GB"}
    stacks = [mapped(**DEEPSEEK).stack, mapped(**DEEPSEEK | rocm).stack]
    assert stacks == ["vllm-v0-blocks", "vllm-v0-blocks-rocm"]
    qwen = DEEPSEEK | rocm | {"model": "Qwen3-30B-A3B", "engine_version": "main of 2025-05-01"}
    assert mapped(**qwen).stack == "vllm-v0-blocks-rocm"
    distilled = {"model": "DeepSeek-R1-Distill-Llama-70B"}
    assert mapped(**DEEPSEEK | distilled).stack == "vllm-v0"
    assert mapped(**DEEPSEEK | {"precision": {"weights": "bf16"}, "model": "DeepSeek-V3"}).stack == "vllm-v0"


@pytest.mark.parametrize(
    ("changes", "stack"),
    [
        ({"engine_version": "0.4.1.post2"}, "sglang-blocks"),
        ({"engine_version": "February 2025"}, "sglang-blocks"),
        ({"engine_version": "0.4.8"}, "sglang"),
        ({"engine_version": "0.4.1", "model": "Llama-3.1-70B"}, "sglang"),
        ({"engine_version": "0.4.1", "precision": {"weights": "bf16"}}, "sglang"),
        ({"engine_version": "0.4.1", "accelerator": "AMD MI300X 192GB"}, "sglang-blocks-rocm"),
        ({"engine_version": "2025-03", "source": "dstack DeepSeek-R1 benchmark"}, "sglang-blocks"),
    ],
)
def test_sglang_multiplied_with_scales_of_blocks_in_triton_at_first(changes: dict[str, Any], stack: str) -> None:
    asked = DEEPSEEK | {"engine": "SGLang", "source": "a user", "model": "DeepSeek-V3"} | changes
    assert mapped(**asked).stack == stack


def test_nanoflow_runs_nano_batches_beside_each_other() -> None:
    llama = {
        "source": "NanoFlow repo/paper",
        "kind": "offline_throughput",
        "model": "Llama-2-70B",
        "engine": "NanoFlow",
        "engine_version": "2024-09",
        "accelerator": "NVIDIA A100 SXM 80GB",
        "num_accelerators": 8,
        "parallelism": {"tp": 8},
        "precision": {"compute": "fp16"},
        "concurrency": None,
        "arrivals": None,
    }
    found = mapped(**llama)
    assert (found.stack, found.scenario.serving.overlap.batches) == ("nanoflow", "nano")
    assert mapped(**llama | {"engine": "vLLM"}).scenario.serving.overlap.batches == "none"
