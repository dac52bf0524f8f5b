"""Vocabulary and default limits that rows found after the fits asked for."""

import json
from typing import Any

import pytest

from simulator.interop.rows.jsonl import read_row
from simulator.interop.rows.serving import ServingRow, draft_serving
from simulator.specs import load_spec
from simulator.specs.serving import ServingStack

ROW: dict[str, Any] = {
    "id": "row",
    "source": "test",
    "kind": "online_serving",
    "model": "Llama-3.1-8B",
    "engine": "vLLM",
    "engine_version": "0.11.0",
    "accelerator": "NVIDIA H100 SXM 80GB",
    "num_accelerators": 1,
    "precision": {"weights": "bf16"},
    "input_len": 128,
    "output_len": 16,
    "request_rate_per_s": "inf",
    "num_requests": 4,
    "metrics": {"ttft_s": 1.0},
}


def drafted(**changed: Any) -> Any:
    """The row with other keys, as a scenario."""
    return draft_serving(read_row(ServingRow, json.loads(json.dumps(ROW | changed))))


@pytest.mark.parametrize(
    ("accelerator", "kind", "limits"),
    [
        ("NVIDIA H100 SXM 80GB", "online_serving", (1024, 8192)),
        ("NVIDIA H100 SXM 80GB", "offline_throughput", (1024, 16_384)),
        ("NVIDIA A100 SXM 80GB", "online_serving", (256, 2048)),
        ("NVIDIA RTX 4090 24GB", "offline_throughput", (256, 8192)),
    ],
)
def test_limits_of_vllm_follow_device_and_use(accelerator: str, kind: str, limits: tuple[int, int]) -> None:
    found = drafted(accelerator=accelerator, kind=kind, metrics={"ttft_s": 1.0, "output_tokens_per_s": 1.0})
    batching = found.scenario.serving.batching
    assert (batching.max_sequences, batching.token_budget) == limits
    assert any("defaults of device and use" in words for words in found.assumed)


def test_iterations_that_a_row_schedules_at_once() -> None:
    metrics = {"ttft_median_s": 0.1, "tpot_median_s": 0.014}
    row = {"engine_version": "0.6.0", "kind": "online_serving", "concurrency": 4, "metrics": metrics}
    told = (drafted(engine_options=options, **row) for options in (None, "num-scheduler-steps 10, max_model_len 4096"))
    assert [found.scenario.serving.batching.decode_steps for found in told] == [1, 10]


@pytest.mark.parametrize(
    ("model", "weights", "blocks"),
    [
        ("Qwen3-14B", "fp8", True),
        ("DeepSeek-R1", "fp8", True),
        ("Qwen3-14B", "bf16", False),
        ("Llama-3.1-8B", "fp8", False),
    ],
)
def test_weights_have_scales_of_blocks_where_they_are_published_so(model: str, weights: str, blocks: bool) -> None:
    row = {"model": model, "precision": {"weights": weights}, "num_accelerators": 8, "parallelism": {"tp": 8}}
    assert drafted(**row).scenario.serving.precision.weight_blocks is blocks


def test_limits_that_a_row_states_stay() -> None:
    found = drafted(max_num_seqs=64, engine_options="max-num-batched-tokens=512")
    batching = found.scenario.serving.batching
    assert (batching.max_sequences, batching.token_budget) == (64, 512)


@pytest.mark.parametrize(
    ("engine", "version", "stack"),
    [
        ("vLLM --async-scheduling", "0.11.0", "vllm-async"),
        ("LMDeploy (TurboMind)", "0.1.0a1", "lmdeploy"),
        ("LMDeploy", "0.6", "lmdeploy"),
        ("LMDeploy (PyTorch engine)", "0.6", "vllm-v0"),
        ("SGLang", "0.3.0", "sglang-0.3"),
        ("SGLang", "0.4.1", "sglang"),
        ("MindIE", "2.1", "vllm-serve"),
        ("Optimum Habana", "SynapseAI 1.18.0", "optimum-habana"),
    ],
)
def test_engines_found(engine: str, version: str, stack: str) -> None:
    assert drafted(engine=engine, engine_version=version).stack == stack


@pytest.mark.parametrize(
    ("engine", "kind", "stack"),
    [
        ("vLLM", "online_serving", "vllm-serve"),
        ("vLLM", "offline_throughput", "vllm-offline"),
        ("vLLM", "single_stream_decode", "vllm"),
        ("vLLM --async-scheduling", "online_serving", "vllm-async"),
    ],
)
def test_vllm_is_behind_its_server_where_clients_measure_and_called_where_all_is_asked_at_once(
    engine: str, kind: str, stack: str
) -> None:
    metrics = {"ttft_s": 1.0, "output_tokens_per_s": 1.0}
    assert drafted(engine=engine, kind=kind, metrics=metrics).stack == stack


def test_a_call_of_vllm_changes_host_times_alone() -> None:
    engine, called = (load_spec(ServingStack, name) for name in ("vllm", "vllm-offline"))
    before, after = engine.model_dump(), called.model_dump()
    assert {key for key in before if before[key] != after[key]} == {
        *("name", "notes", "iteration_overhead", "sequence_overhead"),
    }
    assert called.sequence_overhead.value == 4 * engine.sequence_overhead.value


def test_the_server_of_vllm_adds_host_times_alone() -> None:
    offline, served = (load_spec(ServingStack, name).model_dump() for name in ("vllm", "vllm-serve"))
    assert {key for key in offline if offline[key] != served[key]} == {
        *("name", "notes", "sequence_overhead", "request_handling"),
    }


def test_fp8_on_gaudi_keeps_the_cache_in_8_bits() -> None:
    gaudi = {"engine": "Optimum Habana", "engine_version": "SynapseAI 1.18.0", "accelerator": "Intel Gaudi 3"}
    assert drafted(**gaudi, precision={"weights": "fp8"}).scenario.serving.precision.kv == "fp8"
    assert drafted(**gaudi, precision={"weights": "bf16"}).scenario.serving.precision.kv != "fp8"
