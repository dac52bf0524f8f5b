"""Command lines of vLLM, SGLang and TensorRT-LLM as scenarios, and scenarios as command lines."""

import re
from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.interop.engines.write import ENGINES, command_lines
from simulator.interop.machine import Machine
from simulator.run.imports import import_file
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario

MACHINE = Machine("dgx-h200")
DEEPSEEK = "scenarios/serving/deepseek-v3.yaml"
DENSE = "scenarios/serving/disaggregated-70b-h100.yaml"


def imported(text: str, folder: Path, machine: Machine = MACHINE) -> tuple[str, ServingScenario]:
    """The text of the scenario that a script becomes, and the scenario."""
    script, out = folder / "start.sh", folder / "made.yaml"
    script.write_text(text)
    out.write_text(import_file(str(script), machine))
    scenario = load_scenario(out).scenario
    assert isinstance(scenario, ServingScenario)
    return out.read_text(), scenario


def test_every_flag_of_vllm_is_mapped_or_named(tmp_path: Path) -> None:
    text, scenario = imported(
        "vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 4 --pipeline-parallel-size=2 --max-num-seqs 128 \\\n"
        "  --max-num-batched-tokens 4096 --quantization fp8 --kv-cache-dtype fp8 --no-enable-prefix-caching \\\n"
        "  --gpu-memory-utilization 0.85 --max-model-len 16384 --block-size 32 --port 8001 --enforce-eager \\\n"
        "  --max-num-sequences 3 --frobnicate 3\n",
        tmp_path,
    )
    serving = scenario.serving
    assert (serving.parallel.tp, serving.parallel.pp, serving.context) == (4, 2, 16384)
    assert (serving.batching.max_sequences, serving.batching.token_budget) == (128, 4096)
    assert (serving.kv_cache.memory_share, serving.kv_cache.block_size, serving.kv_cache.prefix_caching) == (
        0.85,
        32,
        "none",
    )
    assert (serving.precision.weights, serving.precision.activations, serving.precision.kv) == ("fp8", None, "fp8")
    head = text[: text.index("version: 1")]
    assert "--port" in head
    assert "--enforce-eager: whether graphs are captured is the stack's" in head
    assert "--frobnicate: not known here" in head
    assert "--max-num-sequences (did you mean" in head


def test_iterations_that_are_scheduled_at_once_keep_their_number(tmp_path: Path) -> None:
    vllm = "vllm serve meta-llama/Llama-3.1-8B-Instruct --num-scheduler-steps 10\n"
    sglang = "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct {}\n"
    several = imported(vllm, tmp_path)[1], imported(sglang.format("--num-continuous-decode-steps 4"), tmp_path)[1]
    assert [scenario.serving.batching.decode_steps for scenario in several] == [10, 4]
    assert imported(sglang.format(""), tmp_path)[1].serving.batching.decode_steps == 1
    assert "--num-scheduler-steps 10" in command_lines(several[0], "vllm")
    assert "--num-continuous-decode-steps 4" in command_lines(several[1], "sglang")


EXTRA = "cat << EOF > extra.yml\ncuda_graph_config:\n  {}\nEOF\ntrtllm-serve Qwen/Qwen3-32B --config extra.yml"
SGLANG_32B = "python -m sglang.launch_server --model-path Qwen/Qwen3-32B"


@pytest.mark.parametrize(
    ("text", "largest"),
    [
        ("vllm serve Qwen/Qwen3-32B --cuda-graph-sizes 64 128 --max-seq-len-to-capture 4096", 128),
        ("vllm serve Qwen/Qwen3-32B --max-cudagraph-capture-size 256", 256),
        ("""vllm serve Qwen/Qwen3-32B --compilation-config '{"cudagraph_capture_sizes": [1, 2, 64]}'""", 64),
        ("vllm serve Qwen/Qwen3-32B --compilation-config.cudagraph_capture_sizes [1,2,32]", 32),
        ("vllm serve Qwen/Qwen3-32B --compilation-config 3", 512),
        ("vllm serve Qwen/Qwen3-32B --max-cudagraph-capture-size 0", 512),
        (f"{SGLANG_32B} --cuda-graph-max-bs 640", 640),
        (f"{SGLANG_32B} --cuda-graph-bs 1 2 4", 4),
        (EXTRA.format("enable_padding: true\n  max_batch_size: 256"), 256),
        (EXTRA.format("batch_sizes: [1, 2, 48]"), 48),
    ],
)
def test_the_largest_captured_batch_is_the_commands(text: str, largest: int, tmp_path: Path) -> None:
    made, scenario = imported(text, tmp_path)
    assert scenario.stack.graphs == largest
    assert "not known here" not in made


def test_workers_with_other_captured_batches_share_the_largest(tmp_path: Path) -> None:
    workers = "\n".join(
        f"{SGLANG_32B} --disaggregation-mode {role} --cuda-graph-max-bs {size}"
        for role, size in (("prefill", 16), ("decode", 256))
    )
    made, scenario = imported(workers, tmp_path)
    assert scenario.stack.graphs == 256
    assert "largest captured batches of 16" in made


def test_attention_ranks_of_each_engine_are_the_same_mesh(tmp_path: Path) -> None:
    vllm = "vllm serve deepseek-ai/DeepSeek-R1 --data-parallel-size 16 --enable-expert-parallel --max-num-seqs 128"
    sglang = (
        "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp 16 --dp 16 --enable-dp-attention"
        " --ep-size 16 --max-running-requests 2048 --nnodes 2 --node-rank 0"
    )
    extra = "cat << EOF > /tmp/extra.yml\nenable_attention_dp: true\nEOF\n"
    tensorrt = "trtllm-serve deepseek-ai/DeepSeek-R1 --tp_size 16 --ep_size 16 --max_batch_size 128"
    found = [
        imported(text, tmp_path)[1].serving
        for text in (vllm, sglang, f"{extra}{tensorrt} --extra_llm_api_options /tmp/extra.yml")
    ]
    for serving in found:
        layout = serving.parallel
        assert (layout.tp, layout.dp, layout.ep, layout.expert_cut) == (1, 16, 16, 1)
        assert serving.batching.max_sequences == 128


def test_ranks_of_a_dense_model_are_replicas(tmp_path: Path) -> None:
    _, scenario = imported("vllm serve Qwen/Qwen3-32B -tp 2 -dp 4", tmp_path)
    assert (scenario.serving.replicas, scenario.serving.parallel.tp, scenario.serving.parallel.dp) == (4, 2, None)


def test_a_benchmark_brings_its_concurrency(tmp_path: Path) -> None:
    (tmp_path / "extra.yaml").write_text("kv_cache_config:\n  dtype: fp8\n  free_gpu_memory_fraction: 0.8\n")
    text = (
        "trtllm-bench --model meta-llama/Llama-3.1-70B throughput --dataset d.json --tp 4 --concurrency 64"
        " --num_requests 500 --max_batch_size 256 --config extra.yaml"
    )
    _, scenario = imported(text, tmp_path)
    closed = scenario.requests.arrivals.closed_loop
    assert closed is not None
    assert (closed.clients, scenario.requests.count) == (64, 500)
    assert (scenario.serving.parallel.tp, scenario.serving.kv_cache.free_share) == (4, 0.8)
    assert scenario.serving.precision.kv == "fp8"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vllm serve nobody/knows-this", "not among those that are shipped"),
        ("vllm serve Qwen/Qwen3-32B -tp many", "takes a whole number"),
        (
            "sglang serve --model-path deepseek-ai/DeepSeek-R1 --tp 8 --dp 3 --enable-dp-attention",
            "no multiple of the --dp-size 3 attention ranks",
        ),
        ("vllm serve Qwen/Qwen3-32B --gpu-memory-utilization 9", "a share from 0 to 1"),
        ("vllm serve Qwen/Qwen3-32B --cuda-graph-sizes many", "takes sizes of batches"),
        (f"vllm serve Qwen/Qwen3-32B --cuda-graph-sizes {'9' * 5000}", "takes sizes of batches"),
        (f"vllm serve Qwen/Qwen3-32B --cuda-graph-sizes {'0' * 20}9999999999", "takes sizes of batches"),
        ("trtllm-serve Qwen/Qwen3-32B --extra_llm_api_options gone.yaml", "is not there"),
        ("python -m sglang.launch_server --model Qwen/Qwen3-32B --disaggregation-mode prefill", "only prefill workers"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_hint(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        imported(text, tmp_path)


def scenario_of(file: str, *overrides: str) -> ServingScenario:
    """A shipped scenario with changes."""
    scenario = load_scenario(file, overrides).scenario
    assert isinstance(scenario, ServingScenario)
    return scenario


@pytest.mark.parametrize("engine", ENGINES)
def test_flags_of_a_scenario_import_as_the_same_system(engine: str, tmp_path: Path) -> None:
    made = scenario_of(
        DEEPSEEK,
        "cluster.nodes=2",
        "serving.parallel={tp: 1, dp: 16, ep: 16, etp: 1}",
        "serving.batching={max_sequences: 128, token_budget: 8192}",
    )
    _, again = imported(command_lines(made, engine), tmp_path)
    assert again.serving.parallel == made.serving.parallel
    assert again.serving.batching == made.serving.batching
    assert again.serving.precision.weights == made.serving.precision.weights
    assert again.model == made.model or again.model.name == made.model.name.replace("V3", "R1")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_pools_go_and_come_back(engine: str, tmp_path: Path) -> None:
    made = scenario_of(DENSE, "serving.kv_cache={}")
    lines = command_lines(made, engine)
    assert lines.count("llama-3.1-70b") == 3
    _, again = imported(lines, tmp_path)
    sizes = [(pool.role, pool.replicas, pool.parallel and pool.parallel.tp) for pool in again.serving.pools]
    assert sizes == [("prefill", 2, 2), ("decode", 1, 4)]
    assert [pool.batching for pool in again.serving.pools] == [pool.batching for pool in made.serving.pools]


def test_what_an_engine_cannot_be_told_is_refused() -> None:
    mixed = scenario_of(DEEPSEEK, "serving.parallel={tp: 4, dp: 2, ep: 4, etp: 2}")
    with pytest.raises(InputError, match="have no flags"):
        command_lines(mixed, "vllm")
    with pytest.raises(InputError, match="is one device"):
        command_lines(mixed, "tensorrt-llm")
    with pytest.raises(InputError, match="file of their own"):
        command_lines(scenario_of(DENSE), "tensorrt-llm")


MTP = {
    "vllm": "vllm serve deepseek-ai/DeepSeek-R1 -tp 8"
    """ --speculative-config '{"method": "mtp", "num_speculative_tokens": 3}'""",
    "dotted": "vllm serve deepseek-ai/DeepSeek-R1 -tp 8 --speculative-config.method mtp"
    " --speculative-config.num_speculative_tokens 3",
    "sglang": "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp 8"
    " --speculative-algorithm EAGLE --speculative-num-steps 3"
    " --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
    "tensorrt": "cat << EOF > extra.yml\nspeculative_config:\n  decoding_type: MTP\n  num_nextn_predict_layers: 3\nEOF"
    "\ntrtllm-serve deepseek-ai/DeepSeek-R1 --tp_size 8 --extra_llm_api_options extra.yml",
}


@pytest.mark.parametrize("text", MTP.values(), ids=MTP)
def test_the_models_own_module_drafts_under_each_engines_flags(text: str, tmp_path: Path) -> None:
    """SGLang calls it EAGLE where no other draft is named."""
    made, scenario = imported(text, tmp_path)
    told = scenario.serving.speculation
    assert told is not None
    assert (told.kind, told.draft_length, told.acceptance) == ("mtp", 3, (0.82, 0.64, 0.64))
    assert "serving.speculation.acceptance: 0.82, 0.64, 0.64" in made[: made.index("version: 1")]


def test_a_draft_model_and_a_tree_come_along_with_a_given_acceptance(tmp_path: Path) -> None:
    vllm = "vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 4 --speculative-config"
    model = """ '{"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 5}' --acceptance 0.6"""
    drafted = imported(vllm + model, tmp_path)[1].serving.speculation
    assert drafted is not None and drafted.model is not None
    assert (drafted.kind, drafted.draft_length, drafted.model.name) == ("draft-model", 5, "Llama 3.2 1B")
    tree = (
        "python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --speculative-algorithm EAGLE3"
        " --speculative-draft-model-path lmsys/head --speculative-num-steps 5 --speculative-eagle-topk 8"
        " --speculative-num-draft-tokens 64 --acceptance 0.7"
    )
    grown = imported(tree, tmp_path)[1].serving.speculation
    assert grown is not None
    assert (grown.kind, grown.draft_length, grown.tree, grown.width) == ("eagle", 5, 63, 8)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ('--speculative-config \'{"method": "ngram", "num_speculative_tokens": 4}\'', "--set acceptance=0.7"),
        ("--speculative-config nonsense", "holds no JSON object"),
        ("--speculative-config '" + '{"a":' * 400 + "'", "holds no JSON object"),
        ('--speculative-config \'{"method": "crystal", "num_speculative_tokens": 4}\'', "`crystal` is not simulated"),
        ('--speculative-config \'{"method": "mtp", "num_speculative_tokens": true}\'', "from 1 to 64, not `True`"),
        ('--speculative-config \'{"method": "eagle", "num_speculative_tokens": 2}\' --acceptance much', "a share"),
        (
            '--speculative-config \'{"model": "nobody/none", "num_speculative_tokens": 2}\' --acceptance 0.5',
            "`nobody/none`",
        ),
    ],
)
def test_speculation_that_says_too_little_or_nonsense_is_refused(flags: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        imported(f"vllm serve deepseek-ai/DeepSeek-R1 -tp 8 {flags}", tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_speculation_goes_out_and_comes_back(engine: str, tmp_path: Path) -> None:
    told = "serving.speculation={kind: mtp, draft_length: 2, acceptance: 0.8}"
    scenario = load_scenario(DEEPSEEK, [f"+{told}"]).scenario
    assert isinstance(scenario, ServingScenario)
    again = imported(command_lines(scenario, engine), tmp_path)[1].serving.speculation
    assert again is not None
    assert (again.kind, again.draft_length) == ("mtp", 2)
