"""What the words of published serving rows stand for: accelerators, models, engines, number formats."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from simulator.interop.rows.accelerators import card
from simulator.interop.rows.accelerators import plain as plain_words
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.words import vocabulary
from simulator.specs import data_root, load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Lengths
from simulator.specs.serving import NumberFormats, ServingStack

BLACKWELL = ("b200", "gb200", "b300", "gb300", "rtx-pro-6000", "rtx-5090")
"""Accelerators that engines know since early 2025."""
SINCE = {"tensorrt-llm": "0.17", "vllm": "0.8"}
"""First versions that know them (release notes of TensorRT-LLM 0.17; vLLM 0.8), by the newest stack of the engine."""
BEFORE = {
    "tensorrt-llm-0.5": "tensorrt-llm",
    "tensorrt-llm-0.8": "tensorrt-llm",
    "tensorrt-llm-0.9": "tensorrt-llm",
    "tensorrt-llm-0.12": "tensorrt-llm",
    "tensorrt-llm-triton": "tensorrt-llm",
    "vllm-0.5": "vllm",
    "vllm-v0": "vllm",
    "vllm-v0-blocks": "vllm",
}
"""The newest stack of an engine by its older ones."""

ROCM_V0 = re.compile(r"^v?0\.(8|9\.[01])\b|2025-0(4|5|6-0)")
"""Versions, or days, of vLLM whose V1 engine was off by default on ROCm (vllm-project/vllm pull request 19440, of
2025-06-10, turns it on; before, `_is_v1_supported_oracle` fell back to V0 there)."""

VARIANT = (
    r"(-(instruct|chat|base|hf|it|thinking|code|terminus|exp|preview|kv|v0\.\d|2\d0[1-9]|2\d1[0-2]|0[1-9][0-3]\d|1m|latest"
    r"|(fp8|nvfp4|fp4|mxfp4|mxfp8|int4|int8|w4a16|w8a8|w4a8|awq|gptq|bf16|block|dynamic|static)(-v\d)?|(17b-)?\d+e))+$"
)
"""Ends of names that say how a model was tuned or stored, and not its shape."""

SAME = (
    (r"deepseek-v3\.1", "deepseek-v3"),
    (r"minimax-m2(\.[1-7])?", "minimax-m2.5"),
    (r"kimi-k2\.[5-7]", "kimi-k2.5"),
    (r"glm-4\.[67]", "glm-4.5"),
    (r"glm-5\.1", "glm-5"),
    (r"glm-5\.3", "glm-5.2"),
    (r"qwen3-vl-(235b-a22b|30b-a3b|32b|8b|4b)", r"qwen3-\1"),
    (r"(deepseek-)?r1-distill-(.*)", r"r1-distill-\2"),
    (r"mistral-small-3(\.\d)?-24b", "mistral-small-24b"),
    (r"qwen3\.6-35b-a3b", "qwen3.5-35b-a3b"),
    (r"qwq-32b", "qwen2.5-32b"),
)
"""Models of one shape, by the whole of a name without such ends (`config.json` of each at Hugging Face; of models that
see images the part that reads and writes text)."""

VERSIONED = (
    *("tensorrt-llm", "tensorrt-llm-0.5", "tensorrt-llm-0.9"),
    *("vllm", "vllm-serve", "vllm-async", "vllm-0.5", "vllm-v0"),
)
"""Stacks of engines that have several: which one a row without a version ran is assumed."""

FORMATS = {
    "fp32": ("fp32", None),
    "f32": ("fp32", None),
    "bf16": ("bf16", None),
    "fp16": ("fp16", None),
    "f16": ("fp16", None),
    "fp16/bf16": ("bf16", None),
    "fp8": ("fp8", None),
    "int8": ("int8", None),
    "fp4": ("fp4", None),
    "nvfp4": ("fp4", 4.5),
    "mxfp4": ("fp4", 4.25),
    "int4": ("int4", None),
    "awq": ("int4", None),
    "gptq": ("int4", None),
    "q4_k_m": ("int4", 4.85),
    "q4_0": ("int4", 4.5),
    "q5_k_m": ("int4", 5.7),
    "q6_k": ("int8", 6.6),
    "q8_0": ("int8", 8.5),
    "q4": ("int4", 4.85),
    "meta-fp8": ("fp8", 9.4),
    "1.58-bit": ("ternary", None),
}
"""(format, bits of a weight with its scales where they are not the format's own) by the words of a row."""

LENGTHS = (
    (r"sharegpt.*nanoflow", "sharegpt-nanoflow"),
    (r"azure.*coding", "azure-code"),
    (r"azure.*conversation", "azure-conversation"),
    (r"splitwise", "splitwise"),
    (r"lmsys", "lmsys-chat"),
    (r"sharegpt.*distserve", "sharegpt"),
    (r"sharegpt", "sharegpt-clients"),
)
"""Distribution of lengths by words of a row's `workload` and source."""

GGUF = ("llama.cpp", "llama.cpp-2024")
"""Stacks that dequantise weights to 16 bits as they read them."""

INC = ("optimum-habana",)
"""Stacks of Intel's Neural Compressor, whose fp8 runs quantise the cache too (vllm docs/features/quantization/inc.md
lists it; 768 requests of 2,176 tokens of Llama 3.1 8B fit into 128 GB in 8 bits alone)."""


@cache
def cluster(accelerator: str) -> Cluster:
    """The machine with an accelerator; raises Refused where no profile has it."""
    name, _ = card(accelerator)
    clusters = vocabulary().serving.clusters
    if name is None or name not in clusters:
        raise Refused(f"accelerator `{accelerator}`")
    return load_spec(Cluster, clusters[name])


@cache
def model(name: str) -> Model:
    """The model of a name; raises Refused where no profile stands for it."""
    models = vocabulary().serving.models
    if name in models:
        return load_spec(Model, models[name])
    plain = re.sub(r"[ _]", "-", name.rpartition("/")[2].lower()).removeprefix("meta-")
    known = re.sub(VARIANT, "", plain)
    same = ((re.fullmatch(words, known), name) for words, name in SAME)
    known = next((found.expand(name) for found, name in same if found), known)
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,60}", known) or not _profile(known).is_file():
        raise Refused(f"model `{name}`")
    return load_spec(Model, known)


def _profile(name: str) -> Path:
    return data_root() / Model.folder / f"{name}.yaml"


def stack_name(engine: str, version: str | None) -> str:
    """The profile that an engine and its version belong to; raises Refused where there is none."""
    said = re.search(r"\bv?(\d+\.\d+\S*)", engine)
    known = (
        _joined(engine),
        ((said[1] if said and not _dated(version) else version) or "").lower().strip().removeprefix("v"),
    )
    for one in vocabulary().serving.stacks:
        if re.search(one.engine, known[0]) and re.search(one.version, known[1]):
            if one.name is not None:
                return one.name
            break
    raise Refused(f"engine `{engine}`")


def on_device(stack_of: str, version: str | None, accelerator: str) -> str:
    """The stack, or that of vLLM's V0 engine where a release that had both took it on AMD's devices."""
    amd = (card(accelerator)[0] or "").startswith("mi")
    return "vllm-v0" if stack_of == "vllm" and amd and ROCM_V0.search(version or "") else stack_of


def with_blocks(stack_of: str, model_name: str, precision: dict[str, Any], accelerator: str) -> str:
    """The stack, or where weights are in fp8 with a scale for each block the one with that engine's kernels for it."""
    words = precision.get("weights") or precision.get("compute") or "fp8"
    if stack_of != "vllm-v0" or not BLOCKS.search(model_name) or _known(words)[0] != "fp8":
        return stack_of
    return "vllm-v0-blocks-rocm" if (card(accelerator)[0] or "").startswith("mi") else "vllm-v0-blocks"


def served(stack_of: str, kind: str, version: str | None, model_name: str) -> str:
    """The stack of an engine behind its own server, or as workers of a pool, by that of its runs without one.

    TensorRT-LLM's server runs the PyTorch flow by default from 1.0 on, and DeepSeek's models before that too: their
    folder (examples/models/core/deepseek_v3) has no conversion to engines.
    """
    alone = kind == "online_serving"
    if stack_of == "tensorrt-llm-pytorch":
        flow = (version or "").startswith("1.") or DEEPSEEK.search(model_name)
        return "tensorrt-llm-serve" if alone and flow else "tensorrt-llm"
    return "vllm-serve" if alone and stack_of == "vllm" else stack_of


def stands_in(engine: str) -> bool:
    """Whether the stack of an engine's name is that of another engine."""
    known = next((one for one in vocabulary().serving.stacks if re.search(one.engine, _joined(engine))), None)
    return known is not None and known.stands_in


def _dated(version: str | None) -> bool:
    """Whether a version is one rather than missing or a day."""
    return bool(version) and not re.match(r"20\d\d-", version or "")


def _joined(engine: str) -> str:
    """Small letters, with hyphens wherever words are joined."""
    return re.sub(r"[\s_-]+", "-", engine.strip().lower()).replace("tensor-rt", "tensorrt")


def supporting(stack_of: str, accelerator: str, assumed: list[str]) -> str:
    """The stack, or the newest of its engine where it is older than the accelerator."""
    newest = BEFORE.get(stack_of)
    if newest is None or card(accelerator)[0] not in BLACKWELL:
        return stack_of
    assumed.append(f"engine version {SINCE[newest]} or later, the first that knows the accelerator")
    return newest


@cache
def stack(name: str) -> ServingStack:
    """A stack profile."""
    return load_spec(ServingStack, name)


@cache
def lengths(name: str) -> Lengths:
    """A distribution of lengths."""
    return load_spec(Lengths, name)


def formats(
    precision: dict[str, Any], stack_of: str, plain: str, assumed: list[str], model_name: str = ""
) -> NumberFormats:
    """Number formats of a row; raises Refused for words that are not known."""
    own = bool(OWN_MXFP4.search(model_name)) and stack_of not in GGUF
    words = precision.get("weights") or precision.get("compute")
    if precision.get("checkpoint") == "meta fp8":
        assumed.append("attention weights in 16 bits, as in Meta's fp8 checkpoint (arXiv:2407.21783, 6.2)")
        words = "meta-fp8"
    if own and _known(words or "mxfp4")[0] in ("fp8", "fp4"):
        if precision.get("weights") is None:
            assumed.append("experts in MXFP4, the rest in 16 bits, as in the model's checkpoint")
        words = "mxfp4"
    if words is None:
        assumed.append("16-bit weights and activations")
        words = "fp16"
    weights, bits = _known(words)
    apart = own and weights == "fp4"
    activations = _activations(precision, stack_of, plain, words, own)
    return NumberFormats(
        weights="bf16" if apart else weights,  # type: ignore[arg-type]
        weight_bits=None if apart else bits,
        activations=None if apart else activations,  # type: ignore[arg-type]
        experts="fp4" if apart else None,
        expert_activations=activations if apart else None,  # type: ignore[arg-type]
        kv=_cache_format(precision, stack_of, "mxfp4" if own else weights, plain, assumed),  # type: ignore[arg-type]
    )


BLOCKS = re.compile(r"deepseek-(v3|r1)(?!-distill)|qwen3-", re.I)
"""Models that are published in fp8 with a scale for each 128 x 128 weights (`weight_block_size` in config.json of
deepseek-ai/DeepSeek-R1 and of Qwen/Qwen3-30B-A3B-FP8)."""
DEEPSEEK = re.compile(r"deepseek-(v3|r1)(?!-distill)", re.I)
"""Models of that shape."""
OWN_MXFP4 = re.compile(r"gpt-?oss", re.I)
"""Models that are published in MXFP4 (openai/gpt-oss-120b config.json, `quantization_config`)."""


def _activations(precision: dict[str, Any], stack_of: str, plain: str, words: Any, own: bool) -> str | None:
    """Format of the other factor; None where the device decides."""
    if precision.get("activations"):
        return _known(precision["activations"])[0]
    if own:  # TensorRT-LLM multiplies MXFP4 by fp8 where the device has fp4, everything else by 16 bits
        return (
            "fp8" if stack_of.startswith("tensorrt-llm") and "fp4" in str(precision.get("compute")).lower() else plain
        )
    weights, _ = _known(words)
    return plain if stack_of in GGUF and weights not in ("fp32", "fp16", "bf16") else None


SPELLINGS = (
    (r"float ?(8|16|32)( ?e4m3| ?e5m2)?\b", r"fp\1"),
    (r"fp8 ?e[45]m[32](fn)?\b", "fp8"),
    (r"(w8a8|mxfp8)( fp8)?\b", "fp8"),
    (r"(bfloat ?16|bf ?16)\b", "bf16"),
    (r"(half|f16|fp ?16)\b", "fp16"),
    (r"(int ?4 )?w4a16( awq| gptq)?\b|awq int4\b|gptq int4\b|int4 (awq|gptq)\b", "int4"),
    (r"w8a8 int8\b|int8 w8a8\b", "int8"),
)
"""Other spellings of formats."""
_USUAL = (
    r"ollama default for that tag|experts|bf16 rest|rest|dynamic|static|per tensor|per channel|block ?wise|weights?"
    r"|activations?|kv|cache|only|quantized|and|with|scaling|e4m3|checkpoint"
)


def _known(words: Any) -> tuple[str, float | None]:
    """The format of some words: the first, with words that only say how it is used."""
    text = plain_words(str(words))
    for pattern, name in SPELLINGS:
        text = re.sub(rf"^(?:{pattern})", name, text)
    for name in sorted(FORMATS, key=len, reverse=True):
        first = plain_words(name)
        if re.fullmatch(rf"{re.escape(first)}(\s+({_USUAL}))*", text):
            return FORMATS[name]
    raise Refused(f"precision `{words}`")


def _cache_format(precision: dict[str, Any], stack_of: str, weights: str, plain: str, assumed: list[str]) -> str | None:
    """Format of keys and values. Where a row leaves it to the checkpoint: NVIDIA's narrow ones ask for fp8."""
    kv = str(precision.get("kv") or "auto").lower()
    if kv in ("default", "16 bit", "16-bit"):
        return plain
    if kv != "auto":
        return _known(kv)[0]
    if (stack_of.startswith("tensorrt-llm") and weights in ("fp8", "fp4")) or (stack_of in INC and weights == "fp8"):
        assumed.append("keys and values in fp8")
        return "fp8"
    return None
