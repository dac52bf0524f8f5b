"""What serving rows state in other words than ours: formats, models, lengths, layouts, options, kinds."""

from typing import Any

import pytest

from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.serving import MappedServing, ServingRow, draft_serving
from simulator.interop.rows.serving_names import model
from simulator.interop.rows.stated.formats import known, of_name
from simulator.interop.rows.stated.options import options
from simulator.interop.rows.words import vocabulary
from simulator.run.measured.serving import map_serving_row
from simulator.specs import load_spec
from simulator.specs.model import Model
from simulator.specs.requests import Lengths

ROW: dict[str, Any] = {
    "id": "a row",
    "source": "a page",
    "kind": "online_serving",
    "model": "Llama-3.1-8B",
    "engine": "vLLM",
    "engine_version": "0.10.1",
    "accelerator": "NVIDIA H100 SXM 80GB",
    "num_accelerators": 1,
    "parallelism": {"tp": 1},
    "input_len": 1024,
    "output_len": 128,
    "concurrency": 16,
    "metrics": {"output_tokens_per_s": 1000.0},
}


def drafted(**changes: Any) -> MappedServing:
    return draft_serving(ServingRow.model_validate({**ROW, **changes}))


@pytest.mark.parametrize(
    ("words", "name", "bits", "rows"),
    [
        ("FP8 W8A8", "fp8", None, None),
        ("W8A8 FP8 dynamic per-token", "fp8", None, None),
        ("compressed-tensors fp8", "fp8", None, None),
        ("w8a8 int8", "int8", None, None),
        ("INT8 weight-only", "int8", None, "plain"),
        ("W8A16", "int8", None, "plain"),
        ("AWQ-Marlin", "int4", None, None),
        ("GPTQ 4bit g128", "int4", None, None),
        ("AWQ-INT4 (group size 128)", "int4", None, None),
        ("w4a8kv4", "int4", None, "int8"),
        ("bitsandbytes nf4", "int4", 4.5, "plain"),
        ("EXL2 4.65 bpw", "int4", 4.65, "plain"),
        ("exl2 8.0bpw", "int8", 8.0, "plain"),
        ("Q4_K_S", "int4", 4.58, None),
        ("IQ4_XS", "int4", 4.46, None),
        ("modelopt_fp4", "fp4", None, None),
        ("W4A4 NVFP4", "fp4", 4.5, None),
        ("bf16 (auto)", "bf16", None, None),
    ],
)
def test_formats_by_other_words(words: str, name: str, bits: float | None, rows: str | None) -> None:
    assert known(words) == (name, bits, rows)


@pytest.mark.parametrize(
    ("name", "words", "stack"),
    [
        ("DeepSeek-V3", None, "vllm-v0-blocks"),
        ("DeepSeek-V3", "auto", "vllm-v0-blocks"),
        ("Qwen3-8B", None, "vllm-v0"),
        ("Qwen3-8B-FP8", None, "vllm-v0-blocks"),
        ("Qwen3-8B", "bf16", "vllm-v0"),
    ],
)
def test_kernels_for_scaled_blocks_are_of_models_that_have_them(name: str, words: str | None, stack: str) -> None:
    many = {"num_accelerators": 8, "parallelism": {"tp": 8}, "accelerator": "H200"}
    assert drafted(model=name, engine_version="0.7.3", precision={"weights": words}, **many).stack == stack


def test_eight_bits_are_whole_numbers_where_a_device_has_no_others() -> None:
    formats = [
        drafted(accelerator=device, precision={"weights": "W8A8"}).scenario.serving.precision.weights
        for device in ("A100 80GB", "H100 SXM")
    ]
    assert formats == ["int8", "fp8"]


@pytest.mark.parametrize("words", ["mixed", "fp8/int4", "fp3", "fp8 with something new", ""])
def test_words_that_are_no_format_are_refused(words: str) -> None:
    with pytest.raises(Refused, match="precision"):
        known(words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Qwen3-235B-A22B-Instruct-2507-FP8", "fp8"),
        ("nvidia/DeepSeek-R1-FP4", "fp4"),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "awq"),
        ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8", "int8"),
        ("DeepSeek-V3-0324", "fp8"),
        ("DeepSeek R1", "fp8"),
        ("Kimi-K2-Thinking", "int4"),
        ("MiniMax-M2", "fp8"),
        ("Llama-3-8B-Q4_K_M", "q4-k-m"),
        ("DeepSeek-R1-Distill-Llama-70B", None),
        ("unsloth/DeepSeek-V3-bf16", None),
        ("Llama-3.1-8B", None),
    ],
)
def test_a_row_without_a_format_ran_what_its_model_is_published_in(name: str, words: str | None) -> None:
    assert of_name(name) == words


def test_what_a_name_says_of_the_format_is_listed_and_a_stated_format_counts() -> None:
    found = drafted(model="Llama-3.1-8B-Instruct-FP8")
    assert found.scenario.serving.precision.weights == "fp8"
    assert any("as it is published" in text for text in found.assumed)
    stated = drafted(model="DeepSeek-V3", num_accelerators=8, parallelism={"tp": 8}, precision={"weights": "bf16"})
    assert stated.scenario.serving.precision.weights == "bf16"
    tag = drafted(engine="Ollama", engine_version="0.6", concurrency=1)
    assert tag.scenario.serving.precision.weight_bits == 4.85


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("llama2-70b", "llama-2-70b"),
        ("Llama3-8B", "llama-3-8b"),
        ("lmsys/vicuna-13b-v1.5", "vicuna-13b"),
        ("bigscience/bloom-7b1", "bloom-7.1b"),
        ("GPT-3 175B", "gpt3-175b"),
        ("Qwen/Qwen1.5-72B-Chat", "qwen-72b"),
        ("Qwen/Qwen2.5-Coder-32B-Instruct", "qwen2.5-32b"),
        ("mistralai/Devstral-Small-2507", "mistral-small-24b"),
        ("mistralai/Mistral-Large-Instruct-2407", "mistral-large-123b"),
        ("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini"),
        ("DeepSeek-R1-0528-Qwen3-8B", "qwen3-8b"),
        ("DeepSeek-V3 671B", "deepseek-v3"),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1_5", "llama-3.3-nemotron-super-49b"),
        ("ibm-granite/granite-3.3-8b-instruct", "granite-3-8b"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "llama-3.1-8b"),
    ],
)
def test_models_by_other_names(name: str, profile: str) -> None:
    found, known = (one.model_copy(update={"max_sequence": None}) for one in (model(name), load_spec(Model, profile)))
    assert found == known


def test_every_word_of_a_workload_stands_for_lengths() -> None:
    for one in vocabulary().serving.lengths:
        assert load_spec(Lengths, one.name).source


@pytest.mark.parametrize(
    ("workload", "prompt", "answer"),
    [
        ("ISL 2048 OSL 128", 2048, 128),
        ("1k/1k", 1024, 1024),
        ("1K in 8K out", 1024, 8192),
        ("random 1000/2000", 1000, 2000),
        ("input 3,000, output 300", 3000, 300),
        ("prompt 512 tokens, generation 256", 512, 256),
        ("Sonnet", 550, 150),
        ("random", 1024, 128),
    ],
)
def test_lengths_in_the_words_of_a_workload(workload: str, prompt: int, answer: int) -> None:
    lengths = drafted(input_len=None, output_len=None, workload=workload).scenario.requests.lengths
    assert lengths is not None
    assert (lengths.prompt.fixed, lengths.output.fixed) == (prompt, answer)


def test_quantiles_are_a_lognormal_through_both() -> None:
    said = "coding chat, input p50 3500 p90 10000, output p50 200 p90 400"
    lengths = drafted(input_len=None, output_len=None, workload=said).scenario.requests.lengths
    assert lengths is not None and lengths.prompt.lognormal is not None
    assert lengths.prompt.lognormal == pytest.approx((3500, 0.819), abs=1e-3)


def test_draws_from_nothing_up_start_at_one_token() -> None:
    lengths = drafted(length_range=[0.0, 1.0]).scenario.requests.lengths
    assert lengths is not None and lengths.prompt.uniform == (1, 1024)


def test_a_missing_prompt_is_short_and_listed() -> None:
    found = drafted(input_len=None)
    assert found.scenario.requests.lengths is not None and found.scenario.requests.lengths.prompt.fixed == 64
    assert any("prompts of 64 tokens, which are not stated" in text for text in found.assumed)


def test_a_client_that_is_told_nothing_sends_a_thousand_requests_at_once() -> None:
    found = drafted(concurrency=None)
    assert found.requests == 1000
    assert found.scenario.requests.arrivals.constant is not None
    assert any("all requests at once" in text for text in found.assumed)
    assert drafted(concurrency=None, batch_size=8).scenario.requests.arrivals.closed_loop is not None


def test_the_largest_batch_that_fits_where_none_is_stated() -> None:
    open_batch = {**ROW, "model": "Llama-2-13B", "kind": "static_batch_throughput", "concurrency": None}
    found = map_serving_row(ServingRow.model_validate(open_batch))
    assert any("the largest batch that fits" in text for text in found.assumed)
    held = 85e9 - 26e9
    assert 0.7 * held < found.requests * (1024 + 128) * 819_200 <= held
    stated = ServingRow.model_validate({**ROW, "kind": "static_batch", "concurrency": 8})
    assert (map_serving_row(stated).requests, stated.kind) == (8, "static_batch_throughput")


MOE = {"model": "Qwen3-235B-A22B-FP8", "accelerator": "H200", "num_accelerators": 8}


@pytest.mark.parametrize(
    ("parallelism", "tp", "ep", "replicas"),
    [
        ({"tensor_parallel_size": 8}, 8, 1, 1),
        ({"tp": 2, "replicas": 4}, 2, 1, 4),
        ({"tp": 4}, 4, 1, 2),
        ({"tp": 8, "enable_expert_parallel": True}, 8, 8, 1),
        ({"tep": 8}, 8, 8, 1),
        ({"dep": 8}, 1, 8, 8),
        ({"tp": 8, "dp": 8}, 1, 1, 8),
        ({"tp": 8, "attention_dp": 8, "ep": 8}, 1, 8, 8),
        ({"tp": 1, "dp": 8, "ep": 8}, 1, 8, 8),
        ({"tp": 8, "ep": 2}, 8, 2, 1),
    ],
)
def test_layouts_by_other_words(parallelism: dict[str, Any], tp: int, ep: int, replicas: int) -> None:
    serving = drafted(**MOE, parallelism=parallelism).scenario.serving
    assert serving.parallel is not None
    assert (serving.parallel.tp, serving.parallel.ep, serving.replicas) == (tp, ep, replicas)


def test_attention_ranks_by_an_option() -> None:
    serving = drafted(**MOE, engine="SGLang", parallelism={"tp": 8}, engine_options="--enable-dp-attention").scenario
    assert serving.serving.replicas == 8


def test_nodes_follow_from_the_accelerators() -> None:
    many = {"num_accelerators": 16, "parallelism": {"tp": 8, "pp": 2}}
    assert drafted(model="Llama-3.1-405B", **many).scenario.cluster.nodes == 2
    host = drafted(accelerator="RTX 3090", num_accelerators=16, num_nodes=1, parallelism={"tp": 8, "pp": 2})
    assert (host.scenario.cluster.nodes, host.scenario.cluster.node.devices) == (1, 16)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("--max-num-seqs 256 --max-num-batched-tokens=8192", {"sequences": 256, "tokens": 8192}),
        ("gpu-memory-utilization 0.85, enforce_eager", {"memory_share": 0.85, "eager": True}),
        ("mem-fraction-static 0.8, disable-cuda-graph", {"memory_share": 0.8, "eager": True}),
        ("chunked-prefill=true", {"cuts_prompts": True}),
        ("enable-chunked-prefill=false", {"cuts_prompts": False}),
        ("no chunked prefill", {"cuts_prompts": False}),
        ("chunked-prefill-size 4096", {"tokens": 4096}),
        ("enforce_eager=false", {}),
        ("kv-cache-dtype fp8", {"kv": "fp8"}),
        ("--cuda-graph-max-bs 640, 8 GPUs, --max-running-requests 2560", {"graphs": 640, "sequences": 2560}),
        ("cuda_graph_bs 1 2 4 8, mem-fraction-static 0.8", {"graphs": 8, "memory_share": 0.8}),
        ("cudagraph_capture_sizes: [1,2,4,512], max_num_seqs 1024", {"graphs": 512, "sequences": 1024}),
        ('--compilation-config {"cudagraph_capture_sizes": [1, 2, 4]}', {"graphs": 4}),
        ("--cuda-graph-sizes 1024", {"graphs": 1024}),
        ("max_cudagraph_capture_size=2048", {"graphs": 2048}),
        ("cuda_graph_config.max_batch_size=128", {"graphs": 128}),
        (
            "cuda_graph_config: {enable_padding: true, max_batch_size: 256}, max_batch_size: 512",
            {"graphs": 256, "sequences": 512},
        ),
        ("cuda-graph-max-bs 0", {}),
        ("--max-model-len 4096 --max-seq-len-to-capture 2048", {"context": 4096, "graph_context": 2048}),
        ("context_length 140000", {"context": 140_000}),
        ("gpu-memory-utilization 90", {}),
        ("", {}),
        (None, {}),
    ],
)
def test_options_of_engines(words: str | None, found: dict[str, Any]) -> None:
    assert options(words).model_dump(exclude_defaults=True) == found


@pytest.mark.parametrize(
    ("engine", "version", "stack"),
    [
        ("ExLlamaV2", "0.1", "llama.cpp"),
        ("QServe", "2024", "tensorrt-llm-0.9"),
        ("DeepSpeed-Inference", "0.7.3", "fastertransformer"),
        ("NVIDIA NIM", "1.8", "tensorrt-llm"),
        ("NVIDIA Dynamo (vLLM)", "0.4", "vllm-serve"),
        ("HuggingFace Transformers", "4.40", "vllm-0.2"),
        ("MLC-LLM", "2023-10-19", "tensorrt-llm-0.9"),
        ("DeepSpeed-MII", "2023-09", "fastertransformer"),
    ],
)
def test_engines_that_others_stand_in_for(engine: str, version: str, stack: str) -> None:
    found = drafted(engine=engine, engine_version=version)
    assert found.stack == stack
    assert any("the most like it" in text for text in found.assumed) == ("Dynamo" not in engine)
    assert "Transformers" not in engine or found.scenario.stack.graphs is None


@pytest.mark.parametrize(
    ("changes", "stack"),
    [
        ({"engine": "DeepSpeed-MII", "engine_version": "2024-01-26"}, "deepspeed-fastgen"),
        ({"engine": "LightLLM", "engine_version": None}, "vllm-v0"),
        ({"engine": "TensorRT-LLM (PyTorch backend)", "engine_version": "0.19"}, "tensorrt-llm-serve"),
        (
            {"engine": "TensorRT-LLM PyTorch flow", "engine_version": "0.18", "kind": "offline_throughput"},
            "tensorrt-llm-pytorch",
        ),
        ({"engine": "TensorRT-LLM", "engine_version": "0.18", "kind": "offline_throughput"}, "tensorrt-llm"),
        ({"engine": "mlx-lm", "engine_version": None, "accelerator": "Apple M3 Ultra 256GB"}, "mlx"),
        ({"engine_version": None, "measured_on": "2025-03-03"}, "vllm-v0"),
        ({"engine_version": None, "measured_on": "2025-03-28"}, "vllm-serve"),
        ({"engine_version": "2025-03"}, "vllm-v0"),
        ({"engine_version": None, "measured_on": "2025-03-28", "accelerator": "AMD MI300X 192GB"}, "vllm-v0-rocm"),
    ],
)
def test_engines_by_their_words_and_days(changes: dict[str, Any], stack: str) -> None:
    found = drafted(**changes)
    assert found.stack == stack
    assert any("the most like it" in text for text in found.assumed) == (
        changes["engine"] == "LightLLM" if "engine" in changes else False
    )


def test_weights_of_mlx_have_a_scale_and_an_offset_for_each_64() -> None:
    apple = {"engine": "MLX", "engine_version": None, "accelerator": "Apple M3 Ultra 256GB"}
    kept = [
        drafted(**apple, precision={"weights": words}).scenario.serving.precision for words in ("4bit", "int8", "bf16")
    ]
    assert [one.weight_bits for one in kept] == [4.5, 8.5, None]
    assert [one.activations for one in kept] == ["fp16", "fp16", None]


def test_the_largest_captured_batch_is_that_of_the_options() -> None:
    said = {"engine": "SGLang", "engine_version": "0.5.3"}
    assert drafted(**said, engine_options="--cuda-graph-max-bs 640").scenario.stack.graphs == 640
    assert drafted(**said).scenario.stack.graphs == 512
    assert drafted(**said, engine_options="--cuda-graph-max-bs 640, disable-cuda-graph").scenario.stack.graphs is None
    old = {"engine_version": "0.6.3", "engine_options": "--max-seq-len-to-capture 32768"}
    assert drafted(**old).scenario.stack.graph_context == 32_768
    assert drafted(engine_options="--max-seq-len-to-capture 32768").scenario.stack.graph_context is None


def test_the_context_that_a_row_states_decides_whether_prompts_are_cut() -> None:
    old = {"engine_version": "0.6.3"}
    batching = [
        drafted(**old, **more).scenario.serving.batching
        for more in (
            {},
            {"engine_options": "--max-model-len 4096"},
            {"engine_options": "max_model_len=1024"},
            {"model": "Qwen2.5-7B-Instruct"},
            {"model": "Qwen2.5-7B"},
        )
    ]
    assert [one.token_budget for one in batching] == [512, 4096, 2048, 32_768, 512]
    assert [one.policy for one in batching] == ["vllm-v1", None, None, None, "vllm-v1"]


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("Qwen/Qwen2.5-72B-Instruct", 32_768),
        ("Qwen2.5-32B-Instruct-AWQ", 32_768),
        ("Qwen2.5 14B Instruct", 32_768),
        ("Qwen2.5-Coder-32B-Instruct", 32_768),
        ("Qwen2.5-72B", 131_072),
        ("Qwen2.5-7B-Instruct-1M", 131_072),
        ("Qwen2.5-VL-7B-Instruct", 131_072),
    ],
)
def test_the_longest_sequence_of_a_tuned_model(name: str, tokens: int) -> None:
    assert model(name).max_sequence == tokens


def test_a_closed_loop_of_a_program_keeps_its_requests_in_flight() -> None:
    loop = {"kind": "offline_throughput", "concurrency": 32, "num_requests": 500}
    found = drafted(**loop, arrivals="closed loop")
    assert found.scenario.requests.arrivals.closed_loop is not None
    assert (found.scenario.requests.arrivals.closed_loop.clients, found.steady) == (32, False)
    assert drafted(**loop).scenario.requests.arrivals.at_once


def test_what_is_not_known_of_a_device_is_listed() -> None:
    many = {"num_accelerators": 8, "parallelism": {"tp": 8}, "model": "DeepSeek-R1"}
    taken = "accelerator `NVIDIA H20` taken as h20-sxm"
    assert taken in drafted(**many, accelerator="NVIDIA H20").assumed
    assert not any("taken as" in text for text in drafted(**many, accelerator="NVIDIA H20 96GB").assumed)
    neuron = drafted(accelerator="AWS Trainium2")
    assert "the engine's kernels on Neuron are not known: those of `vllm-serve`" in neuron.assumed


def test_cards_of_a_host_that_came_in_other_numbers() -> None:
    for cards in (1, 2, 4):
        node = drafted(accelerator="NVIDIA T4", num_accelerators=cards, num_nodes=1, parallelism={"tp": cards})
        assert node.scenario.cluster.nodes == 1
    sizes = [
        drafted(accelerator=f"NVIDIA RTX PRO 5000 Blackwell {words}").scenario.cluster.node.accelerator.memory.capacity
        for words in ("48GB", "72GB", "")
    ]
    assert [round(size.value / 2**30) for size in sizes] == [48, 72, 48]


def test_a_run_that_was_measured_did_fit() -> None:
    """DeepSeek-R1 takes 83 % of eight H20: more than engines take by default beside what they compute."""
    tight = {**ROW, "model": "DeepSeek-R1", "engine": "SGLang", "accelerator": "NVIDIA H20 96GB"}
    tight |= {"num_accelerators": 8, "parallelism": {"tp": 8}}
    found = map_serving_row(ServingRow.model_validate(tight))
    assert found.scenario.serving.kv_cache.memory_share == 0.97
    assert any("97 % of the memory" in text for text in found.assumed)
    said = ServingRow.model_validate({**tight, "engine_options": "mem-fraction-static 0.8"})
    assert map_serving_row(said).scenario.serving.kv_cache.memory_share == 0.8
    loose = ServingRow.model_validate({**tight, "accelerator": "H200"})
    assert map_serving_row(loose).scenario.serving.kv_cache.memory_share is None


def test_a_run_that_was_measured_did_not_read_the_whole_context_at_once() -> None:
    """V0 of vLLM sets memory aside for prompts of 163,840 tokens of DeepSeek-R1 unless it is told less."""
    row = {**ROW, "model": "DeepSeek-R1", "engine": "vLLM", "engine_version": "0.7.2", "input_len": 100}
    row |= {"output_len": 900, "num_accelerators": 8, "parallelism": {"tp": 8}}
    large, small = (
        map_serving_row(ServingRow.model_validate({**row, "accelerator": card})) for card in ("H200", "NVIDIA H20 96GB")
    )
    budgets = [found.scenario.serving.batching.token_budget for found in (large, small)]
    assert budgets == [163_840, 2048]
    assert small.scenario.serving.kv_cache.memory_share == 0.97
    assert any(text.startswith("started for 2,048 tokens") for text in small.assumed)
    assert not any(text.startswith("started for") for text in large.assumed)


def test_workers_apart_go_by_other_words() -> None:
    apart = {"prefill": {"tp_size": 4, "workers": 1}, "decode": {"ep": 8, "workers": 1}}
    found = drafted(
        kind="pd_disaggregated",
        model="DeepSeek-R1",
        accelerator="H200",
        num_accelerators=12,
        parallelism=apart,
        metrics={"tpot_s": 0.02},
    )
    prefill, decode = found.scenario.serving.pools
    assert prefill.parallel is not None and prefill.parallel.tp == 4
    assert decode.parallel is not None and (decode.parallel.ep, decode.replicas) == (8, 8)


@pytest.mark.parametrize(
    ("accelerator", "sequences", "tokens"),
    [("NVIDIA H100 SXM 80GB", 64, 8192), ("NVIDIA L4", 64, 2048), ("NVIDIA A100 SXM 80GB", 64, 2048)],
)
def test_a_row_that_limits_sequences_leaves_the_tokens_to_the_device(
    accelerator: str, sequences: int, tokens: int
) -> None:
    batching = drafted(accelerator=accelerator, max_num_seqs=sequences).scenario.serving.batching
    assert (batching.max_sequences, batching.token_budget) == (sequences, tokens)


@pytest.mark.parametrize(
    ("accelerator", "version", "tokens"),
    [
        ("NVIDIA L4", "0.4.4", 2048),
        ("NVIDIA A100 SXM 40GB", "0.4.4", 8192),
        ("NVIDIA A100 SXM 40GB", "0.5.1", 8192),
        ("NVIDIA A100 SXM 40GB", "0.5.6", 4096),
        ("NVIDIA H100 SXM 80GB", "0.5.6", 8192),
        ("NVIDIA H200 SXM 141GB", None, 8192),
        ("NVIDIA B200 SXM 180GB", "0.5.3", 16_384),
        ("AMD MI300X 192GB", "0.4.9", 16_384),
    ],
)
def test_chunks_of_sglang_depend_on_memory_and_release(accelerator: str, version: str | None, tokens: int) -> None:
    found = drafted(engine="SGLang", engine_version=version, accelerator=accelerator)
    assert found.scenario.serving.batching.token_budget == tokens
    said = drafted(
        engine="SGLang", engine_version=version, accelerator=accelerator, engine_options="--chunked-prefill-size 512"
    )
    assert said.scenario.serving.batching.token_budget == 512


def test_files_of_gpt_oss_have_eight_bits_beside_mxfp4_under_llama_cpp_and_sixteen_under_ollama() -> None:
    one = {
        "kind": "single_stream_decode",
        "model": "gpt-oss-20b",
        "accelerator": "NVIDIA RTX 4090",
        "concurrency": None,
    }
    filed = drafted(**one, engine="llama.cpp", engine_version="b6767", precision={"weights": "mxfp4"})
    formats = filed.scenario.serving.precision
    assert (formats.weights, formats.weight_bits, formats.experts, formats.expert_activations) == (
        "int8",
        8.5,
        "fp4",
        formats.activations,
    )
    assert formats.activations in ("bf16", "fp16")
    tag = drafted(**one, engine="Ollama", precision={"weights": "q4 (Ollama default for that tag)"})
    assert (tag.scenario.serving.precision.weights, tag.scenario.serving.precision.experts) == ("bf16", "fp4")


def test_llama_cpp_of_every_year_dequantises_to_sixteen_bits() -> None:
    for version in ("b2000", "b4011", "b6767"):
        one = {"kind": "single_stream_decode", "engine": "llama.cpp", "concurrency": None}
        row = drafted(**one, engine_version=version, precision={"weights": "q4_k_m"})
        assert row.scenario.serving.precision.activations in ("bf16", "fp16")


def test_words_for_arrivals_are_rates() -> None:
    at_random = drafted(arrivals="poisson", request_rate_per_s=4.0, concurrency=None, num_requests=100)
    assert at_random.scenario.requests.arrivals.poisson is not None
    burst = drafted(arrivals="all at once", concurrency=500, num_requests=500).scenario.requests.arrivals
    assert burst.constant is not None and burst.closed_loop is None
    places = drafted(arrivals="all at once", concurrency=16, num_requests=500).scenario.requests.arrivals
    assert places.closed_loop is not None and places.closed_loop.clients == 16


def test_a_share_of_a_gpu_is_that_of_an_accelerator() -> None:
    row = ServingRow.model_validate({**ROW, "metrics": {"input_tokens_per_s_per_gpu": 5.0, "ttft_s": 1.0}})
    assert row.metrics == {"input_tokens_per_s_per_accel": 5.0, "ttft_s": 1.0}


@pytest.mark.parametrize(
    ("words", "cluster"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q", "Workstation with four RTX PRO 6000 Blackwell Max-Q"),
        ("NVIDIA RTX PRO 6000 Blackwell", "Server with eight RTX PRO 6000 Blackwell"),
        ("AMD Ryzen AI Max+ 395 (Radeon 8060S)", "Desktop with Ryzen AI Max+ 395"),
        ("NVIDIA Jetson Thor", "Jetson AGX Thor"),
        ("Apple M3 Pro 18GB", "Mac with M3 Pro"),
        ("AMD MI100", "Server with four MI100"),
    ],
)
def test_small_machines_are_known(words: str, cluster: str) -> None:
    assert drafted(accelerator=words).scenario.cluster.name == cluster
