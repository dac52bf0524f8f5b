"""What the words of published serving rows stand for: accelerators, models, engines, number formats."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from simulator.interop.rows.accelerators import card
from simulator.interop.rows.accelerators import plain as plain_words
from simulator.interop.rows.jsonl import Refused
from simulator.specs import data_root, load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Lengths
from simulator.specs.serving import NumberFormats, ServingStack

CLUSTERS = {
    "a100-sxm-80gb": "dgx-a100",
    "a100-sxm-40gb": "dgx-a100-40gb",
    "a100-pcie-80gb": "server-4x-a100-pcie-80gb",
    "h100-sxm": "dgx-h100",
    "h100-pcie": "server-8x-h100-pcie",
    "h200-sxm": "dgx-h200",
    "gb200": "gb200-nvl72",
    "gh200": "gh200",
    "b200": "dgx-b200",
    "b300": "dgx-b300",
    "mi300x": "mi300x-cluster",
    "l40s": "l40s-cluster",
    "rtx-pro-6000": "server-8x-rtx-pro-6000",
    "rtx-6000-ada": "workstation-4x-rtx-6000-ada",
    "rtx-5000-ada": "workstation-4x-rtx-5000-ada",
    "rtx-4000-ada": "workstation-4x-rtx-4000-ada",
    "a6000": "workstation-4x-a6000",
    "a40": "server-4x-a40",
    "rtx-4090": "workstation-4x-rtx-4090",
    "rtx-4070-ti": "workstation-4x-rtx-4070-ti",
    "rtx-3090": "server-8x-rtx-3090",
    "rtx-3080-ti": "workstation-4x-rtx-3080-ti",
    "rtx-3070": "workstation-4x-rtx-3070",
    "arc-b60": "workstation-4x-arc-b60",
    "m2-ultra": "mac-studio-m2-ultra",
    "m1-max": "mac-m1-max",
    "m4": "mac-mini-m4",
    "kv260-tellme": "kv260-tellme",
}
"""Cluster by the accelerator of a row. A slot of a small host feeds a card enough for one stream."""

BLACKWELL = ("b200", "gb200", "b300", "rtx-pro-6000")
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
}
"""The newest stack of an engine by its older ones."""

MODELS = {
    "Llama-2-7B": "llama-2-7b",
    "Llama-2-13B": "llama-2-13b",
    "Llama-2-70B": "llama-2-70b",
    "Llama-1/2-7B": "llama-2-7b",
    "Llama-3-8B": "llama-3-8b",
    "Llama-3-70B": "llama-3-70b",
    "Llama-3.1-8B": "llama-3.1-8b",
    "Llama-3.1-70B": "llama-3.1-70b",
    "Llama-3.1-405B": "llama-3.1-405b",
    "Llama-3.3-70B": "llama-3.3-70b",
    "Llama 3.2:3b": "llama-3.2-3b",
    "Llama 3.1:70b": "llama-3.1-70b",
    "Llama 3.1:405b": "llama-3.1-405b",
    "DeepSeek R1 14b": "r1-distill-qwen-14b",
    "DeepSeek R1 671b": "deepseek-r1",
    "DeepSeek-67B": "deepseek-67b",
    "GPT-J-6B": "gpt-j-6b",
    "GPT-OSS-20B": "gpt-oss-20b",
    "gpt-oss 20b": "gpt-oss-20b",
    "GPT-OSS-120B": "gpt-oss-120b",
    "Mistral-7B": "mistral-7b",
    "Mixtral-8x7B": "mixtral-8x7b",
    "Qwen2-72B": "qwen2-72b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
    "Yi-34B": "yi-34b",
    "BitNet 0.73B (ternary)": "bitnet-b1.58-0.7b",
}
"""Model profile by a row's `model`; others are looked up as they are written, in small letters."""

VARIANT = r"(-(instruct|chat|base|hf|it|fp8|awq|gptq|kv|v0\.\d|2507|0528|0324))+$"
"""Ends of names that say how a model was tuned or stored, and not its shape."""

STACKS = (
    (r"swiftkv|nanoflow|tpi-llm|cloudmatrix|sarathi|medusa|eagle|speculat|lookahead|lmcache|mooncake", r"", None),
    (r"tensorrt-llm|trt-llm", r"^0\.\d+\.\d+(\.post|-rc)", "tensorrt-llm"),  # a version of Dynamo's image
    (r"(tensorrt-llm|trt-llm).*triton", r"^0\.1[34](\.|$)", "tensorrt-llm-triton"),
    (r"tensorrt-llm|trt-llm", r"^0\.[0-5](\.|$)", "tensorrt-llm-0.5"),
    (r"tensorrt-llm|trt-llm", r"^0\.[6-8](\.|$)|2023", "tensorrt-llm-0.8"),
    (r"tensorrt-llm|trt-llm", r"^0\.1[12](\.|$)", "tensorrt-llm-0.12"),
    (r"tensorrt-llm|trt-llm", r"^0\.(9|10)(\.|$)|^$|2024-0[1-9]", "tensorrt-llm-0.9"),
    (r"tensorrt-llm|trt-llm", r"", "tensorrt-llm"),
    (r"vllm", r"^0\.[0-5](\.|$)|2023|2024-0[1-8]", "vllm-0.5"),
    (r"vllm", r"^0\.[67](\.|$)|2024|2025-0[1-3]", "vllm-v0"),  # 0.8 is of 18 March 2025
    (r"vllm-based", r"", "vllm-0.5"),
    (r"vllm", r"^0\.(1[4-9]|[2-9]\d)(\.|$)|nightly", "vllm-async"),
    (r"vllm", r"", "vllm"),
    (r"sglang", r"", "sglang"),
    (r"deepspeed-(fastgen|mii)", r"", "deepspeed-fastgen"),
    (r"fastertransformer", r"", "fastertransformer"),
    (r"text-generation-inference|\btgi\b", r"", "tgi"),
    (r"llama\.cpp|ollama", r"", "llama.cpp"),
    (r"tellme", r"", "bare-metal"),
)
"""Stack by words of a row's `engine` and its `engine_version`, first match; None: nothing like it is simulated."""

VERSIONED = ("tensorrt-llm", "tensorrt-llm-0.5", "tensorrt-llm-0.9", "vllm", "vllm-async", "vllm-0.5", "vllm-v0")
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
    (r"sharegpt", "sharegpt"),
)
"""Distribution of lengths by words of a row's `workload` and source."""

GGUF = ("llama.cpp",)
"""Stacks that dequantise weights to 16 bits as they read them."""


@cache
def cluster(accelerator: str) -> Cluster:
    """The machine with an accelerator; raises Refused where no profile has it."""
    name, _ = card(accelerator)
    if name not in CLUSTERS:
        raise Refused(f"accelerator `{accelerator}`")
    return load_spec(Cluster, CLUSTERS[name])


@cache
def model(name: str) -> Model:
    """The model of a name; raises Refused where no profile stands for it."""
    if name in MODELS:
        return load_spec(Model, MODELS[name])
    plain = re.sub(r"[ _]", "-", name.rpartition("/")[2].lower()).removeprefix("meta-")
    known = re.sub(VARIANT, "", plain)
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
    for words, versions, name in STACKS:
        if re.search(words, known[0]) and re.search(versions, known[1]):
            if name is not None:
                return name
            break
    raise Refused(f"engine `{engine}`")


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
    if str(words).lower().startswith("mxfp4"):
        return plain
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
    if stack_of.startswith("tensorrt-llm") and weights in ("fp8", "fp4"):
        assumed.append("keys and values in fp8")
        return "fp8"
    return None
