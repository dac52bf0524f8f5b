"""Published serving rows: reading without trust, mapping to scenarios, scores, the shipped rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli import main
from simulator.interop.rows.jsonl import Refused, read_lines, read_row, sample
from simulator.interop.rows.serving import MappedServing, ServingRow
from simulator.interop.rows.serving_names import cluster, model, stack, stack_name
from simulator.interop.rows.stated.formats import known
from simulator.interop.rows.words import vocabulary
from simulator.report.validation.page import page
from simulator.run.measured.scores import WAVES, Part, duration, run_mapped
from simulator.run.measured.serving import map_serving_row
from simulator.specs import data_root, load_spec
from simulator.specs.model import Model
from simulator.study.validate.published import KINDS, chosen
from simulator.study.validate.serving import ServingOutcome, validate_serving_row

ROW: dict[str, Any] = {
    "id": "s1",
    "source": "test",
    "kind": "offline_throughput",
    "model": "Llama-2-7B",
    "engine": "TensorRT-LLM",
    "engine_version": "0.20",
    "accelerator": "NVIDIA H100 SXM 80GB",
    "num_accelerators": 1,
    "num_nodes": 1,
    "parallelism": {"tp": 1, "pp": 1},
    "precision": {"compute": "fp8", "kv": "fp8"},
    "input_len": 512,
    "output_len": 128,
    "num_requests": 200,
    "metrics": {"output_tokens_per_s": 5000.0},
}
SHIPPED = data_root() / "workloads" / "measurements" / "serving.jsonl"


def row(**changes: Any) -> dict[str, Any]:
    """A row with some keys changed; None takes one away."""
    return {key: value for key, value in (ROW | changes).items() if value is not None}


def mapped(**changes: Any) -> MappedServing:
    """A changed row as a scenario."""
    return map_serving_row(read_row(ServingRow, row(**changes)))


def outcome(**changes: Any) -> ServingOutcome:
    """A changed row simulated."""
    return validate_serving_row(read_row(ServingRow, row(**changes)))


ONE = {"num_requests": None, "batch_size": 1}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input_len": "long"}, "key `input_len`"),
        ({"num_accelerators": -8}, "key `num_accelerators`"),
        ({"metrics": {"output_tokens_per_s": float("nan")}}, "key `metrics"),
        ({"metrics": None}, "key `metrics`"),
        ({"metrics": {}}, "measured values are missing"),
        ({"kind": "guesswork"}, "kind `guesswork`"),
        ({"accelerator": "Zilog Z80"}, "accelerator `Zilog Z80`"),
        ({"model": "../../etc/passwd"}, "model `"),
        ({"model": "Unheard-9B"}, "model `Unheard-9B`"),
        ({"engine": "Abacus"}, "engine `Abacus`"),
        ({"precision": {"compute": "fp3"}}, "precision `fp3`"),
        ({"parallelism": {"tp": 3}, "num_accelerators": 2}, "is not 2 accelerators"),
        ({"parallelism": {"tp": 16}, "num_accelerators": 16, "num_nodes": 1}, "16 accelerators of 8"),
        ({"parallelism": {"tp": -1, "dp": -1}}, "parallel size below 1"),
        (
            {"parallelism": {"tp": 8, "ep": 3}, "num_accelerators": 8},
            "attention tp 8 x dp 1, experts tp 2 x ep 3: not the same devices",
        ),
        ({"parallelism": {"attention_dp": 2, "ep": 2}, "num_accelerators": 2}, "without experts to spread"),
        ({"kind": "pd_disaggregated"}, "how many workers there are"),
        ({"input_len": None, "output_len": None}, "lengths of prompts and answers are not stated"),
        ({"kind": "online_serving", "request_rate_per_s": 0}, "request_rate_per_s"),
        ({"kind": "static_batch_throughput", "batch_size": 10_000_000}, "a batch of 10,000,000"),
        ({"num_nodes": 2, "kind": "prefill_throughput"}, "several nodes, and how many prompts"),
        ({"num_nodes": 2, "parallelism": {"tp": 3}, "num_accelerators": 3}, "2 nodes with 3 accelerators of 8 in each"),
    ],
)
def test_a_row_that_cannot_be_simulated_says_why(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        mapped(**changes)


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("DeepSeek-R1", "DeepSeek-R1"),
        ("DeepSeek-R1-0528", "DeepSeek-R1"),
        ("deepseek-ai/DeepSeek-V3", "DeepSeek-V3"),
        ("DeepSeek-V2-Lite", "DeepSeek-V2-Lite"),
        ("Kimi-K2-Instruct", "Kimi-K2"),
    ],
)
def test_models_with_latent_attention_are_simulated(name: str, profile: str) -> None:
    assert mapped(model=name, accelerator="NVIDIA H200 SXM 141GB").scenario.model.name == profile


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("DeepSeek-V3.1-Terminus", "deepseek-v3"),
        ("nvidia/DeepSeek-R1-0528-FP4-v2", "deepseek-r1"),
        ("Kimi-K2-Thinking", "kimi-k2"),
        ("GLM-4.6", "glm-4.5"),
        ("MiniMax-M2", "minimax-m2.5"),
        ("Qwen3-VL-235B-A22B-Instruct", "qwen3-235b-a22b"),
        ("Qwen3-30B-A3B-Thinking-2507", "qwen3-30b-a3b"),
        ("Llama-4-Maverick-17B-128E-Instruct-FP8", "llama-4-maverick"),
        ("DeepSeek-R1-Distill-Llama-70B", "r1-distill-llama-70b"),
    ],
)
def test_names_of_one_shape(name: str, profile: str) -> None:
    assert model(name) == load_spec(Model, profile)


def test_an_engine_over_several_nodes_takes_their_network() -> None:
    spread = {"parallelism": {"tp": 8, "pp": 2}, "num_accelerators": 16, "num_nodes": 2}
    found = mapped(model="Llama-3.1-405B", accelerator="NVIDIA H100 SXM 80GB", **spread).scenario
    assert (found.cluster.nodes, found.serving.parallel.pp) == (2, 2)
    rack = {"parallelism": {"tp": 8}, "num_accelerators": 8, "num_nodes": 2}
    assert mapped(accelerator="NVIDIA GB200 192GB (NVL72)", **rack).scenario.cluster.nodes == 1


def test_experts_over_attention_in_data_parallel_leave_each_rank_its_own_requests() -> None:
    spread = {
        "parallelism": {"attention_dp": 4, "ep": 4},
        "num_accelerators": 4,
        "accelerator": "NVIDIA B200 SXM 180GB",
    }
    found = mapped(model="DeepSeek-R1-0528", precision={"compute": "fp4", "kv": "fp8"}, **spread).scenario.serving
    assert (found.replicas, found.parallel.ep, found.parallel.tp) == (4, 4, 1)


def test_a_model_without_room_is_refused() -> None:
    assert "does not fit" in outcome(model="Llama-3.1-405B").refused


@pytest.mark.parametrize(
    ("engine", "version", "name"),
    [
        ("TensorRT-LLM", "0.5.0", "tensorrt-llm-0.5"),
        ("TensorRT-LLM", "0.9.0", "tensorrt-llm-0.9"),
        ("TensorRT-LLM", "1.x (developer-guide)", "tensorrt-llm-pytorch"),
        ("TensorRT-LLM", "0.20", "tensorrt-llm-pytorch"),
        ("TensorRT-LLM", "0.17", "tensorrt-llm"),
        ("TensorRT-LLM + Triton backend", "0.14.0", "tensorrt-llm-triton"),
        ("vLLM", "0.5.3", "vllm-0.5"),
        ("vLLM", "0.6.3.dev116", "vllm-v0"),
        ("vLLM", "0.10.1", "vllm"),
        ("vllm", "2025-03", "vllm-v0"),
        ("vllm", "2025-04", "vllm"),
        ("vllm", None, "vllm"),
        ("vLLM", "v0.6.1", "vllm-v0"),
        ("TRT-LLM", "v0.12", "tensorrt-llm-0.12"),
        ("TensorRT-LLM", "0.7.1", "tensorrt-llm-0.8"),
        ("Ollama / llama.cpp", None, "llama.cpp"),
        ("Ollama / llama.cpp", "2025-12", "llama.cpp"),
        ("llama.cpp", "2025-12", "llama.cpp-2025"),
        ("llama.cpp", "b7340", "llama.cpp-2025"),
        ("llama.cpp", "2025-07", "llama.cpp"),
        ("SGLang", "0.4", "sglang"),
    ],
)
def test_engine_and_version_choose_the_stack(engine: str, version: str | None, name: str) -> None:
    assert stack_name(engine, version) == name


def test_azures_script_runs_the_python_runtime() -> None:
    row = {"kind": "static_batch_throughput", "batch_size": 32, "engine_version": None}
    assert mapped(**row, source="Azure AI benchmarking guide").stack == "tensorrt-llm-python"
    assert mapped(**row).stack == "tensorrt-llm-0.9"


@pytest.mark.parametrize(
    ("changes", "stack"),
    [
        ({"accelerator": "NVIDIA B200 SXM 180GB", "engine_version": "0.9.0"}, "tensorrt-llm"),
        ({"accelerator": "NVIDIA B200 SXM 180GB", "engine_version": None}, "tensorrt-llm"),
        ({"accelerator": "NVIDIA B200", "engine": "vLLM", "engine_version": "0.6.3"}, "vllm-offline"),
        ({"engine_version": None}, "tensorrt-llm-0.9"),
        ({"engine_version": None, "measured_on": "2025-11-03"}, "tensorrt-llm"),
        ({"engine_version": "0.8.1.post2"}, "tensorrt-llm"),  # of Dynamo's image
        ({"engine": "vLLM v0.6.3", "engine_version": None}, "vllm-v0"),
        ({"engine": "TensorRT LLM"}, "tensorrt-llm-pytorch"),
    ],
)
def test_an_engine_is_no_older_than_its_accelerator(changes: dict[str, Any], stack: str) -> None:
    found = mapped(**changes)
    assert found.stack == stack
    if "B200" in changes.get("accelerator", ""):
        assert any("the first that knows the accelerator" in text for text in found.assumed)


@pytest.mark.parametrize(
    "changes",
    [
        {"accelerator": "H100-SXM5-80GB"},
        {"accelerator": "NVIDIA H100 80GB HBM3"},
        {"precision": {"compute": "FP8", "kv": "fp8_e4m3"}},
        {"precision": {"compute": "float8", "kv": "FP8"}},
        {"precision": {"weights": "fp8 (per-tensor scaling)", "kv": "fp8"}},
        {"parallelism": {"tensor_parallel_size": "1", "PP": 1}},
        {"input_len": "512", "output_len": 128.0, "num_requests": "200"},
        {"metrics": {"output_tokens_per_s": "5,000"}},
        {"engine": "TRT-LLM", "engine_version": "v0.20.0"},
        {"spec_decoding": "none", "complete": True},
    ],
)
def test_other_words_mean_the_same(changes: dict[str, Any]) -> None:
    found, plain = mapped(**changes), mapped()
    assert found.scenario == plain.scenario
    assert (found.stack, found.assumed) == (plain.stack, plain.assumed)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"accelerator": "NVIDIA H200 NVL"}, "accelerator"),
        ({"accelerator": "NVIDIA A16"}, "accelerator"),
        ({"accelerator": "H100 and A100"}, "accelerator"),
        ({"precision": {"compute": "fp8/int4"}}, "precision"),
        ({"precision": {"compute": "fp8 with something new"}}, "precision"),
        ({"precision": {"compute": "fp8", "kv": "fp3"}}, "precision"),
        ({"engine": "vLLM with EAGLE-3"}, "engine"),
        ({"engine_version": 0.20}, "key `engine_version`"),  # 0.2 or 0.20?
        ({"spec_decoding": "mtp"}, "no module for multi-token prediction"),
        ({"spec_decoding": "unknown"}, "speculative decoding `unknown`"),
        ({"complete": False, "reason": "the load is unknown"}, "not complete: the load is unknown"),
        ({"arrivals": "open loop of a kind"}, "arrivals"),
        ({"parallelism": {"tp": 1, "cp": 2}}, "parallelism `cp`"),
        ({"parallelism": {"tp": 8, "moe_ep": 8}, "num_accelerators": 8}, "dense model, without experts"),
        (
            {"parallelism": {"tp": 1, "attention_dp": 4, "ep": 3}, "num_accelerators": 4},
            "attention tp 1 x dp 4, experts tp 1 x ep 3: not the same devices",
        ),
        ({"parallelism": {"tp": "two"}}, "parallelism.tp"),
        ({"length_range": [2, 3]}, "lengths between"),
        ({"length_range": [1]}, "length_range"),
    ],
)
def test_unknown_words_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        mapped(**changes)


def test_the_checkpoints_own_formats_decide() -> None:
    """gpt-oss is published in MXFP4 with the rest, and the cache, in 16 bits."""
    chosen = {"model": "GPT-OSS-120B", "precision": {"compute": "fp8", "kv": "auto"}}
    formats = mapped(**chosen).scenario.serving.precision
    assert (formats.weights, formats.weight_bits, formats.embeddings) == ("bf16", None, None)
    assert (formats.experts, formats.expert_activations, formats.kv) == ("fp4", "fp16", None)
    assert any("MXFP4" in text for text in mapped(**chosen).assumed)
    narrow = mapped(precision={"compute": "fp8", "kv": "auto"})
    assert narrow.scenario.serving.precision.kv == "fp8"  # NVIDIA's fp8 checkpoints ask for it
    assert mapped(precision={"compute": "fp8", "kv": "default"}).scenario.serving.precision.kv == "fp16"
    vllm = mapped(precision={"compute": "fp8", "kv": "auto"}, engine="vLLM", engine_version="0.19")
    assert vllm.scenario.serving.precision.kv is None


CLOSED: dict[str, Any] = {
    "kind": "online_serving",
    "arrivals": "closed loop",
    "concurrency": 4,
    "num_requests": None,
    "length_range": [0.8, 1.0],
    "metrics": {"ttft_s": 0.05, "tpot_s": 0.005},
}


def test_a_closed_loop_keeps_its_requests_in_flight() -> None:
    found = mapped(**CLOSED)
    requests = found.scenario.requests
    assert requests.arrivals.closed_loop is not None and requests.arrivals.closed_loop.clients == 4
    assert requests.count == found.requests == 40
    assert requests.lengths is not None and requests.lengths.prompt.uniform == (410, 512)
    assert any("10 for each in flight" in text for text in found.assumed)


def test_a_closed_loop_scores_the_time_per_token_and_lists_all_three() -> None:
    found = outcome(**CLOSED)
    ttft, tpot = found.parts
    assert found.error == found.errors["tpot"] == tpot.error
    later = 0.9 * 128 - 1
    expected = (ttft.predicted + later * tpot.predicted) / (0.05 + later * 0.005) - 1
    assert found.errors == {"ttft": ttft.error, "tpot": tpot.error, "throughput": pytest.approx(expected)}
    assert outcome(kind="online_serving", concurrency=4, metrics=CLOSED["metrics"]).errors == {}


def test_an_error_over_several_figures_has_an_interval_of_their_mean() -> None:
    found = outcome(kind="online_serving", request_rate_per_s=1.0, metrics=CLOSED["metrics"])
    assert len(found.parts) == 2 and found.interval is not None
    ends = [found.interval_of(part) for part in found.parts]
    assert found.interval == tuple(sum(one[side] for one in ends if one) / 2 for side in (0, 1))


def test_every_name_stands_for_a_profile() -> None:
    words = vocabulary().serving
    for name in words.clusters.values():
        assert (data_root() / "hardware_profiles" / "clusters" / f"{name}.yaml").is_file()
    for name in words.models:
        assert model(name).layers
    for one in words.stacks:
        assert one.name is None or stack(one.name).kind == "serving"
    assert cluster("NVIDIA H200 SXM 141GB").node.devices == 8
    assert known("q4_k_m")[:2] == ("int4", 4.85)


@pytest.mark.parametrize(
    ("name", "layers"),
    [("meta-llama/Meta-Llama-3-8B-Instruct", 32), ("Llama 3.1 70B", 80), ("Qwen/Qwen2.5-7B-Instruct", 28)],
)
def test_models_go_by_other_names_too(name: str, layers: int) -> None:
    assert model(name).layers == layers


@pytest.mark.parametrize("name", ["../../etc/passwd", "..", "", "x" * 5000, "llama-2-7b\n"])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(Refused):
        model(name)


def test_what_a_row_leaves_open_is_listed() -> None:
    assert mapped(kind="static_batch_throughput", batch_size=4).assumed == ()
    assert any("keys and values in fp8" in text for text in mapped(precision={"compute": "fp8"}).assumed)
    assert any("requests" in text for text in mapped(num_requests=None).assumed)
    assert any("as trtllm-bench derives them" in text for text in mapped().assumed)
    own = mapped(model="DeepSeek-R1", num_accelerators=8, parallelism={"tp": 8, "pp": 1}, precision={"weights": "fp8"})
    assert any("no rule of trtllm-bench is taken" in text for text in own.assumed)
    assert any("version" in text for text in mapped(engine_version=None).assumed)


def test_lengths_of_a_named_workload() -> None:
    named = mapped(input_len=None, output_len=None, workload="LMSYS-Chat-1M")
    assert named.scenario.requests.lengths is not None
    assert named.scenario.requests.lengths.name.startswith("LMSYS")
    metrics = {"requests_per_s": 2.0, "total_tokens_per_s": 1000.0, "output_tokens_per_s": 400.0}
    stated = mapped(input_len=None, output_len=None, workload="ShareGPT", metrics=metrics)
    assert any("300 and 200" in text for text in stated.assumed)


def test_stated_lengths_of_conversations_are_means() -> None:
    """The longest of 200 answers decides when a batch ends, which lengths that are all alike do not show."""
    talk = mapped(workload="ShareGPT", input_len=213, output_len=218).scenario.requests.lengths
    assert talk is not None and talk.output.lognormal is not None and talk.output.high == 1024
    assert any("213 and 218" in text for text in mapped(workload="ShareGPT", input_len=213, output_len=218).assumed)
    alike = mapped(workload="random", input_len=213, output_len=218).scenario.requests.lengths
    assert alike is not None and alike.output.fixed == 218


def test_a_client_with_a_rate_and_places_keeps_to_both() -> None:
    online = {"kind": "online_serving", "concurrency": 8}
    both = mapped(**online, request_rate_per_s=4).scenario.requests.arrivals.closed_loop
    assert both is not None and (both.clients, both.rate) == (8, 4.0)
    unpaced = mapped(**online, request_rate_per_s="inf").scenario.requests.arrivals.closed_loop
    assert unpaced is not None and (unpaced.clients, unpaced.rate) == (8, None)
    assert "0` or less" in outcome(**online, request_rate_per_s=0).refused


def test_batches_of_replicas_are_their_own() -> None:
    two = mapped(num_requests=None, batch_size=4, parallelism={"tp": 2, "dp": 2}, num_accelerators=4)
    assert two.scenario.serving.replicas == 2
    assert two.requests == 8


def test_replicas_share_experts() -> None:
    shared = mapped(
        model="Qwen3-30B-A3B", parallelism={"attention_dp": 4, "ep": 4, "tp": 1}, num_accelerators=4, num_requests=None
    )
    assert (shared.scenario.serving.replicas, shared.scenario.serving.parallel.ep) == (4, 4)


def test_engine_options_are_taken() -> None:
    options = "chunked-prefill=TRUE, max-num-batched-tokens=512"
    online = mapped(
        kind="online_serving",
        engine="vLLM",
        engine_version="0.6",
        request_rate_per_s=4.0,
        engine_options=options,
        max_num_seqs=64,
        precision={"compute": "bf16"},
    )
    batching = online.scenario.serving.batching
    assert (batching.policy, batching.token_budget, batching.max_sequences) == ("vllm-v1", 512, 64)


def test_mxfp4_of_quark_multiplies_in_four_bits_and_that_of_gpt_oss_does_not() -> None:
    """Quark's checkpoints quantise both factors on MI355X (rocm.blogs.amd.com, mxfp4-mxfp6-quantization)."""
    amd = {
        "engine": "vLLM",
        "engine_version": "0.11",
        "accelerator": "AMD MI355X 288GB",
        "precision": {"weights": "mxfp4"},
    }
    dense = mapped(**amd, model="Llama-3.1-8B").scenario.serving.precision
    assert (dense.weights, dense.activations) == ("fp4", None)
    own = mapped(**amd, model="GPT-OSS-20B").scenario.serving.precision
    assert own.experts == "fp4" and own.expert_activations == "fp16"


def test_deepseek_behind_tensorrt_llm_runs_its_pytorch_flow_before_it_was_the_default() -> None:
    online = {"kind": "online_serving", "concurrency": 4, "engine_version": "0.21.0rc2"}
    deep = {"model": "DeepSeek-R1", "num_accelerators": 8, "parallelism": {"tp": 8}, "precision": {"weights": "fp8"}}
    assert mapped(**online | deep).stack == "tensorrt-llm-serve"
    assert mapped(**online).stack == "tensorrt-llm"


def test_requests_of_a_client_that_sends_all_at_once_pass_the_front_end() -> None:
    """Through a server they reach the engine one after the other, in 6 ms each, where a batch offline is there."""
    online = {"engine": "vLLM", "engine_version": "0.11", "kind": "online_serving", "num_requests": 400}
    online |= {"input_len": 16, "output_len": 2, "metrics": {"ttft_mean_s": 1.0}, "precision": {"weights": "bf16"}}
    found = outcome(**online, request_rate_per_s="inf").predicted
    assert found is not None and found > 200 * 6e-3


@pytest.mark.parametrize("option", ["max-model-len 1024, enforce-eager", "disable-cuda-graph", "--enforce_eager"])
def test_an_engine_that_captures_nothing_has_no_graphs(option: str) -> None:
    eager = {"engine": "vLLM", "engine_version": "0.9.1", "precision": {"compute": "bf16"}}
    assert mapped(**eager, engine_options=option).scenario.stack.graphs is None
    assert mapped(**eager, engine_options="enforce-eager=false").scenario.stack.graphs is not None


# ---- scores --------------------------------------------------------------------------------------------------------


def test_the_sign_of_an_error_is_of_time() -> None:
    assert Part("ttft_s", 1.0, 1.5, False).error == pytest.approx(0.5)
    assert Part("output_tokens_per_s", 150.0, 100.0, True).error == pytest.approx(0.5)


def test_figures_of_opposite_errors_do_not_cancel() -> None:
    both = ServingOutcome("x", parts=(Part("ttft_s", 1.0, 1.5, False), Part("tpot_s", 1.0, 0.7, False)))
    assert both.error == pytest.approx(0.4)
    assert both.measured is not None and both.predicted == pytest.approx(both.measured * 1.4)
    assert ServingOutcome("y").error is None


@pytest.mark.parametrize(
    ("changes", "metric"),
    [
        ({}, "output_tokens_per_s"),
        ({"metrics": {"total_tokens_per_s": 9000.0}}, "total_tokens_per_s"),
        ({"metrics": {"makespan_s": 10.0}}, "makespan_s"),
        ({"kind": "static_batch_throughput", "batch_size": 16}, "output_tokens_per_s"),
        ({"kind": "first_token_latency", "metrics": {"ttft_s": 0.01}} | ONE, "ttft_s"),
        ({"kind": "single_stream_prefill", "metrics": {"input_tokens_per_s": 9000.0}} | ONE, "input_tokens_per_s"),
        ({"kind": "single_stream_decode"} | ONE, "output_tokens_per_s"),
        ({"kind": "single_stream_decode", "metrics": {"tpot_s": 0.01}} | ONE, "tpot_s"),
        (
            {"kind": "online_serving", "request_rate_per_s": 4, "metrics": {"ttft_mean_s": 0.1, "itl_mean_s": 0.01}},
            "ttft_mean_s and itl_mean_s",
        ),
        (
            {"kind": "online_serving", "concurrency": 8, "metrics": {"ttft_mean_s": 0.1, "tpot_mean_s": 0.01}},
            "ttft_mean_s and tpot_mean_s",
        ),
        (
            {"kind": "online_serving", "concurrency": 8, "metrics": {"ttft_median_s": 0.1, "tpot_median_s": 0.01}},
            "ttft_median_s and tpot_median_s",
        ),
        ({"kind": "online_serving", "concurrency": 8, "metrics": {"e2e_latency_mean_s": 1.0}}, "e2e_latency_mean_s"),
        ({"kind": "online_serving", "concurrency": 8}, "output_tokens_per_s"),
        ({"kind": "online_serving", "concurrency": 8, "metrics": {"requests_per_s": 9.0}}, "requests_per_s"),
    ],
)
def test_what_is_scored(changes: dict[str, Any], metric: str) -> None:
    found = outcome(**changes)
    assert found.metric == metric, found.refused
    assert found.predicted is not None and found.predicted > 0


def test_a_row_without_its_figure_is_refused() -> None:
    assert "no latency and no rate" in outcome(metrics={"ttft_s": 1.0}).refused
    assert "no time to the first token" in outcome(kind="first_token_latency", **ONE).refused


def test_a_short_prompt_under_sglang_waits_for_the_host_that_launches_its_kernels() -> None:
    """It depends on the layers and not on the prompt: 0.18 to 0.20 s from 128 to 4,096 tokens of DeepSeek-R1 on two
    nodes (tt-inference-server issue 356), 0.03 s of Qwen3-8B (GPUStack performance lab)."""
    alone = {
        "engine": "SGLang",
        "engine_version": "0.5",
        "kind": "first_token_latency",
        "metrics": {"ttft_s": 0.1},
    } | ONE
    deep = {"model": "DeepSeek-R1", "num_accelerators": 8, "parallelism": {"tp": 8}, "precision": {"weights": "fp8"}}
    deep |= {"accelerator": "NVIDIA H200 141GB"}
    long, short = (outcome(**alone | deep, input_len=length).predicted for length in (1024, 128))
    small = outcome(**alone, model="Qwen3-8B", precision={"weights": "bf16"}, input_len=128).predicted
    assert short is not None and long is not None and small is not None
    assert 0.1 < short < long < 1.2 * short
    assert small < 0.05


def test_a_static_batch_takes_its_prefill_too() -> None:
    one = outcome(kind="static_batch_throughput", batch_size=16)
    longer = outcome(kind="static_batch_throughput", batch_size=16, input_len=4096)
    assert one.predicted is not None and longer.predicted is not None
    assert longer.predicted < 0.7 * one.predicted


def test_a_batch_whose_prompts_are_cached_takes_no_prefill() -> None:
    """AMD's static batches ran scripts of vLLM 0.8.5, which repeat their prompts with V1's prefix cache on; 405B of
    2,048 tokens a prompt takes 1.07 times as long as of 128 (README of 0.10.0: 125.5 and 117.0 s for 128 sequences)."""
    row: dict[str, Any] = {"source": "ROCm vLLM dev-docker README", "kind": "static_batch_throughput", "engine": "vLLM"}
    row |= {"model": "Llama-3.1-70B", "accelerator": "AMD MI300X 192GB", "num_accelerators": 8, "batch_size": 64}
    row |= {
        "parallelism": {"tp": 8},
        "precision": {"weights": "fp8"},
        "output_len": 256,
        "metrics": {"makespan_s": 1.0},
    }
    row["num_requests"] = None
    short, long, whole = (
        outcome(**row, engine_version=version, input_len=length).predicted
        for version, length in (("0.10.0", 128), ("0.10.0", 2048), ("0.6.6", 2048))
    )
    assert short is not None and long is not None and whole is not None
    assert short < long < 1.25 * short
    assert whole > 1.5 * long
    elsewhere = outcome(**row | {"source": "another"}, engine_version="0.10.0", input_len=2048).predicted
    assert elsewhere is not None and elsewhere > 1.4 * long


def test_a_long_run_is_continued_in_proportion() -> None:
    """Equal requests come in waves of one batch: three of them tell how long many take, to 2 %."""
    many = mapped(num_requests=600, max_num_seqs=50)
    short = run_mapped(many)
    assert len(short.ledger.finish) == 50 * WAVES
    whole = max(_all(many)) / 1e12
    assert duration(many, short) == pytest.approx(whole, rel=0.02)


def _all(many: MappedServing) -> list[int]:
    from simulator.run.serve import run_serving

    assert many.scenario.requests.count == many.requests
    return run_serving(many.scenario).ledger.finish


# ---- files ---------------------------------------------------------------------------------------------------------


TRAINING = '{"id": "x", "primary_metric": "step_s"}\n'


def test_files_are_recognised_by_their_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("not json\n" + json.dumps(row()) + "\n")
    kind, lines = chosen(list(read_lines(file)))
    assert (kind.name, len(lines)) == ("serving", 2)
    file.write_text("not json\n" + TRAINING)
    assert chosen(list(read_lines(file)))[0].name == "training"


def test_rows_of_two_kinds_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(TRAINING + json.dumps(row()) + "\n" + "not json\n")
    assert main(["validate", str(file), "--quiet"]) == 2
    assert "1 of training and 1 of serving; take those of one with `--kind training`" in capsys.readouterr().err
    kind, lines = chosen(list(read_lines(file)), "serving")
    assert (kind.name, [line.number for line in lines]) == ("serving", [2, 3])


def test_a_file_without_rows_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("\n \n")
    assert main(["validate", str(file), "--quiet"]) == 2
    assert "rows.jsonl: has no rows" in capsys.readouterr().err


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_page_names_rows_and_lines_and_keeps_to_the_width(tmp_path: Path, width: int) -> None:
    file = tmp_path / "rows.jsonl"
    long = json.dumps(row(id="a-row-with-a-very-long-name-" + 60 * "x", output_len=None, workload="sharegpt"))
    lines = [json.dumps(row()), long, '{"id": "cut-short", "metrics": {}, "kind": 5}', "nonsense"]
    file.write_text("\n".join(lines))
    kind, taken = chosen(list(read_lines(file)), "serving")
    outcomes = kind.validate(taken)
    text = page(kind.document(kind.summary(outcomes, ("source",)), outcomes), ("source",), 10, width)
    flat = " ".join(text.split())
    assert "cut-short (line 3)" in flat
    assert "key `kind`: `5` is not text" in flat
    assert f"{file.name}:4" in "".join(text.split())
    assert max(len(line) for line in text[text.index("refused\n") :].splitlines()) <= width


def test_the_command_writes_every_row(tmp_path: Path) -> None:
    file, out, html = tmp_path / "rows.jsonl", tmp_path / "errors.json", tmp_path / "errors.html"
    lines = [json.dumps(row()), '{"id": "cut', "[1]", json.dumps(row(id="far", kind="pd_disaggregated"))]
    file.write_text("\n".join(lines))
    arguments = ("--json", str(out), "--html", str(html), "--by", "stack,kind", "--quiet")
    assert main(["validate", str(file), *arguments]) == 0
    found = json.loads(out.read_text())
    assert [r["refused"] is None for r in found["rows"]] == [True, False, False, False]
    first = found["rows"][0]
    assert first["error"] == pytest.approx(first["measured"] / first["predicted"] - 1)
    assert found["summary"]["by_stack"]["tensorrt-llm-pytorch"]["rows"] == 1
    assert "By stack" in html.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "changes",
    [
        {"metrics": {"output_tokens_per_s": 1e308}, "num_requests": 1_000_000_000, "output_len": 1},
        {"kind": "online_serving", "concurrency": 10_000_000, "output_len": 10_000_000},
        {"kind": "online_serving", "request_rate_per_s": 1e-300, "metrics": {"ttft_mean_s": 1}},
        {"kind": "online_serving", "request_rate_per_s": 3, "output_len": 1, "metrics": {"tpot_mean_s": 1.0}},
        {"kind": "static_batch_throughput", "batch_size": 20_000, "input_len": 0, "output_len": 0},
        {"input_len": 10_000_000, "output_len": 10_000_000},
        {"max_num_seqs": 10_000_000, "engine_options": "max-num-batched-tokens=9999999"},
    ],
)
def test_absurd_rows_end_soon(changes: dict[str, Any]) -> None:
    found = outcome(**changes)
    assert found.refused or found.error is not None
    json.dumps([found.measured, found.predicted, found.error], allow_nan=False)


def test_rows_of_the_other_kind_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row()) + "\n")
    assert main(["validate", str(file), "--kind", "training", "--quiet"]) == 2
    assert main(["validate", str(file), "--by", "framework", "--quiet"]) == 2


def test_a_stratified_sample_of_the_shipped_rows() -> None:
    """Below the 23 % of a roofline fitted on all of them; docs/validation.md has all rows."""
    serving = KINDS["serving"]
    outcomes = serving.validate(sample(list(read_lines(SHIPPED)), 2))
    figures = serving.summary([o for o in outcomes if o.in_scope])
    assert figures.coverage_in_scope > 0.7
    assert figures.in_scope.mean < 0.25
    assert figures.in_scope.median < 0.15


@pytest.mark.parametrize(
    ("source", "lengths"),
    [("vLLM pull request 1", "sharegpt-clients"), ("NanoFlow", "sharegpt-nanoflow"), ("DistServe", "sharegpt")],
)
def test_conversations_are_those_that_the_client_sends(source: str, lengths: str) -> None:
    stated = {"workload": "ShareGPT", "request_rate_per_s": 4.0, "input_len": None, "output_len": None}
    found = mapped(kind="online_serving", source=source, **stated)
    assert f"lengths drawn from `{lengths}`" in found.assumed


@pytest.mark.parametrize(
    ("kind", "metrics", "metric"),
    [
        ("first_token_latency", {"ttft_mean_s": 0.05}, "ttft_mean_s"),
        ("single_stream_decode", {"tpot_mean_s": 0.005}, "tpot_mean_s"),
        ("static_batch_throughput", {"e2e_latency_s": 1.0}, "e2e_latency_s"),
        ("online_serving", {"output_tokens_per_s_per_user_p50": 100.0}, "output_tokens_per_s_per_user_p50"),
        ("online_serving", {"itl_median_s": 0.01, "output_tokens_per_s": 500.0}, "output_tokens_per_s"),
    ],
)
def test_figures_in_other_words_are_scored_where_the_usual_ones_are_missing(
    kind: str, metrics: dict[str, float], metric: str
) -> None:
    found = outcome(kind=kind, batch_size=2, concurrency=2, metrics=metrics)
    assert [part.metric for part in found.parts] == [metric]
    assert found.error is not None


def test_a_rate_of_decoding_leaves_the_prompts_out() -> None:
    """Long prompts and few answers: the batch as a whole makes far fewer tokens a second than its decodes do."""
    batch = {"model": "Llama-3.1-8B", "batch_size": 8, "input_len": 2048, "output_len": 64, "num_requests": None}
    whole = outcome(**batch, kind="static_batch_throughput").predicted
    alone = outcome(**batch, kind="decode_throughput").predicted
    short = outcome(**(batch | {"input_len": 16}), kind="static_batch_throughput").predicted
    assert whole is not None and alone is not None and short is not None
    assert alone > 1.2 * whole
    assert alone == pytest.approx(short, rel=0.15)
