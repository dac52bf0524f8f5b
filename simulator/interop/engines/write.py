"""A serving scenario as command lines of an engine, the other way round of `translate`."""

import json

from simulator.errors import InputError, Problem
from simulator.interop.engines.commands import SGLANG, TENSORRT, VLLM
from simulator.interop.engines.speculation import flags
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Batching, KvCache, Layout, Pool

ENGINES = (VLLM, SGLANG, TENSORRT)
"""Engines whose command lines are written."""
FIRST_PORT = 8000
_EXTRA = "extra_llm_api_options.yaml"


def _no_parts(layout: Layout, engine: str) -> None:
    if layout.dcp > 1:
        message = f"dcp {layout.dcp}: {engine} has no flag by which devices of a group share cached tokens"
        raise InputError(Problem(message, path="serving.parallel.dcp", hint="leave it out, or write vllm"))


def command_lines(scenario: ServingScenario, engine: str) -> str:
    """A script that starts each replica of a scenario, one command each.

    InputError for what the engine has no flag for.
    """
    name = (scenario.model.name or "MODEL").lower().replace(" ", "-")
    lines, port = ["#!/bin/bash", f"# {scenario.name}: each command on devices of its own"], FIRST_PORT
    for pool in scenario.serving.all_pools:
        batching, cache = pool.batching or scenario.serving.batching, pool.kv_cache or scenario.serving.kv_cache
        layout = pool.parallel or scenario.serving.parallel
        if engine == TENSORRT and pool.role != "both":
            hint = "write vllm or sglang"
            raise InputError(Problem("TensorRT-LLM's workers apart are started by a file of their own", hint=hint))
        for _ in range(pool.replicas):
            words = _WRITERS[engine](scenario, name, pool, layout, batching, cache)
            lines.append(" ".join([*words, "--port", str(port)]))
            port += 1
    if engine == TENSORRT:
        lines[2:2] = _extra(scenario)
    return "\n".join(lines) + "\n"


def _vllm(
    scenario: ServingScenario, name: str, pool: Pool, layout: Layout, batching: Batching, cache: KvCache
) -> list[str]:
    words = ["vllm", "serve", name, *_sizes("--tensor-parallel-size", layout.tp)]
    words += _sizes("--pipeline-parallel-size", layout.pp) + _sizes("--data-parallel-size", layout.ranks)
    words += _sizes("--decode-context-parallel-size", layout.dcp)
    if layout.ep > 1:
        _whole(layout, "vLLM spreads experts over all devices of a replica, or cuts them over all of these")
        words.append("--enable-expert-parallel")
    words += _given("--max-num-seqs", batching.max_sequences)
    words += _given("--max-num-batched-tokens", batching.token_budget)
    words += _sizes("--num-scheduler-steps", batching.decode_steps)
    words += _given("--gpu-memory-utilization", cache.memory_share) + _given("--block-size", cache.block_size)
    words += _given("--max-model-len", scenario.serving.context) + _formats(scenario, "--quantization")
    if cache.prefix_caching is not None:
        words.append("--no-enable-prefix-caching" if cache.prefix_caching == "none" else "--enable-prefix-caching")
    if pool.role != "both":
        role = "kv_producer" if pool.role == "prefill" else "kv_consumer"
        config = json.dumps({"kv_connector": "NixlConnector", "kv_role": role}, separators=(",", ":"))
        words += ["--kv-transfer-config", f"'{config}'"]
    words += _drafts(scenario, VLLM)
    return words + (["--enable-dbo"] if scenario.serving.overlap.batches == "two" else [])


def _sglang(
    scenario: ServingScenario, name: str, pool: Pool, layout: Layout, batching: Batching, cache: KvCache
) -> list[str]:
    _no_parts(layout, "SGLang")
    ranks = layout.ranks
    words = ["python", "-m", "sglang.launch_server", "--model-path", name, *_sizes("--tp-size", layout.tp * ranks)]
    words += _sizes("--pp-size", layout.pp)
    if ranks > 1:
        words += ["--dp-size", str(ranks), "--enable-dp-attention"]
    words += _sizes("--ep-size", layout.ep)
    words += _given("--max-running-requests", batching.max_sequences and batching.max_sequences * ranks)
    words += _given("--chunked-prefill-size", batching.token_budget and batching.token_budget * ranks)
    words += _sizes("--num-continuous-decode-steps", batching.decode_steps)
    words += _given("--mem-fraction-static", cache.memory_share) + _given("--page-size", cache.block_size)
    words += _given("--context-length", scenario.serving.context) + _formats(scenario, "--quantization")
    words += ["--disable-radix-cache"] if cache.prefix_caching == "none" else []
    words += ["--disaggregation-mode", pool.role] if pool.role != "both" else []
    words += _drafts(scenario, SGLANG)
    return words + (["--enable-two-batch-overlap"] if scenario.serving.overlap.batches == "two" else [])


def _tensorrt(
    scenario: ServingScenario, name: str, pool: Pool, layout: Layout, batching: Batching, cache: KvCache
) -> list[str]:
    del pool
    _no_parts(layout, "TensorRT-LLM")
    if layout.ranks > 1 and layout.tp > 1:
        hint = "write sglang, or choose tp 1 for attention ranks"
        raise InputError(Problem("an attention rank of TensorRT-LLM is one device", hint=hint))
    words = ["trtllm-serve", name, "--backend", "pytorch", *_sizes("--tp_size", layout.tp * layout.ranks)]
    words += _sizes("--pp_size", layout.pp) + _sizes("--ep_size", layout.ep)
    words += _given("--max_batch_size", batching.max_sequences) + _given("--max_num_tokens", batching.token_budget)
    words += _given("--kv_cache_free_gpu_memory_fraction", cache.free_share)
    words += _given("--max_seq_len", scenario.serving.context)
    return [*words, "--extra_llm_api_options", _EXTRA] if _options(scenario) else words


_WRITERS = {VLLM: _vllm, SGLANG: _sglang, TENSORRT: _tensorrt}


def _extra(scenario: ServingScenario) -> list[str]:
    options = _options(scenario)
    return [f"cat << EOF > {_EXTRA}", *options, "EOF"] if options else []


def _options(scenario: ServingScenario) -> list[str]:
    """Lines of the YAML of extra options."""
    serving = scenario.serving
    found = ["enable_attention_dp: true"] if serving.parallel.ranks > 1 else []
    cache = {
        "dtype": serving.precision.kv,
        "tokens_per_block": serving.kv_cache.block_size,
        "enable_block_reuse": {None: None, "none": "false"}.get(serving.kv_cache.prefix_caching, "true"),
    }
    told = [f"  {key}: {value}" for key, value in cache.items() if value is not None]
    found += ["kv_cache_config:", *told] if told else []
    found += _drafts(scenario, TENSORRT)
    weights = serving.precision.weights
    return found + ([f"quantization: {weights}"] if weights == "fp8" else [])


def _drafts(scenario: ServingScenario, engine: str) -> list[str]:
    told = scenario.serving.speculation
    return [] if told is None else flags(told, engine)


def _whole(layout: Layout, why: str) -> None:
    if layout.expert_cut > 1:
        message = f"experts on etp {layout.expert_cut} x ep {layout.ep} have no flags: {why}"
        raise InputError(Problem(message, path="serving.parallel.etp", hint="choose etp 1, or write sglang"))


def _sizes(flag: str, size: int) -> list[str]:
    return [flag, str(size)] if size > 1 else []


def _given(flag: str, value: float | None) -> list[str]:
    return [] if value is None else [flag, f"{value:g}" if isinstance(value, float) else str(value)]


def _formats(scenario: ServingScenario, flag: str) -> list[str]:
    formats = scenario.serving.precision
    words = {"fp8": "fp8", "int4": "awq", "fp4": "modelopt_fp4"}
    quantized = [flag, words[formats.weights]] if formats.weights in words else []
    return quantized + (["--kv-cache-dtype", "fp8"] if formats.kv == "fp8" else [])
