"""What the words of published serving rows stand for: accelerators, models, engines, number formats."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from simulator.specs import data_root, load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Lengths
from simulator.specs.serving import NumberFormats, ServingStack
from simulator.study.lines import Refused

CLUSTERS = (
    (r"A100 SXM 80GB", "dgx-a100"),
    (r"A100 SXM 40GB", "dgx-a100-40gb"),
    (r"A100 PCIe 80GB", "server-4x-a100-pcie-80gb"),
    (r"H100 SXM 80GB", "dgx-h100"),
    (r"H100 PCIe", "server-8x-h100-pcie"),
    (r"H200 SXM", "dgx-h200"),
    (r"GB200", "gb200-nvl72"),
    (r"GH200 96GB", "gh200"),
    (r"B200 SXM", "dgx-b200"),
    (r"MI300X", "mi300x-cluster"),
    (r"L40S", "l40s-cluster"),
    (r"RTX PRO 6000", "server-8x-rtx-pro-6000"),
    (r"RTX 6000 Ada", "workstation-4x-rtx-6000-ada"),
    (r"RTX 5000 Ada", "workstation-4x-rtx-5000-ada"),
    (r"RTX 4000 Ada", "workstation-4x-rtx-4000-ada"),
    (r"RTX A6000", "workstation-4x-a6000"),
    (r"NVIDIA A40 ", "server-4x-a40"),
    (r"\b4090\b", "workstation-4x-rtx-4090"),
    (r"\b4070 Ti(?! Super)", "workstation-4x-rtx-4070-ti"),
    (r"\b3090\b", "server-8x-rtx-3090"),
    (r"\b3080 Ti", "workstation-4x-rtx-3080-ti"),
    (r"NVIDIA 3070\b", "workstation-4x-rtx-3070"),
    (r"Arc Pro B60", "workstation-4x-arc-b60"),
    (r"M2 Ultra", "mac-studio-m2-ultra"),
    (r"M1 Max", "mac-m1-max"),
    (r"M4 (Mac mini|\(Mac mini)", "mac-mini-m4"),
    (r"KV260", "kv260-tellme"),
    (r"\bA100\b.*\b40", "dgx-a100-40gb"),
    (r"\bA100\b(?!.*PCIe)", "dgx-a100"),
    (r"\bH100\b(?!.*NVL)", "dgx-h100"),
    (r"\bH200\b(?!.*NVL)", "dgx-h200"),
    (r"\bB200\b", "dgx-b200"),
)
"""Cluster by words of a row's `accelerator`, first match. A slot of a small host feeds a card enough for one stream."""

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

VARIANT = r"(-(instruct|chat|base|hf|it|fp8|awq|gptq|kv|v0\.\d|2507))+$"
"""Ends of names that say how a model was tuned or stored, and not its shape."""
NO_MODEL = re.compile(r"deepseek[- ](v3|r1(?! 14b|[- ]distill))|kimi", re.I)
"""Models with multi-head latent attention."""

STACKS = (
    (r"swiftkv|nanoflow|tpi-llm|cloudmatrix|sarathi", r"", None),
    (r"(tensorrt-llm|trt-llm).*triton", r"^0\.1[34](\.|$)", "tensorrt-llm-triton"),
    (r"tensorrt-llm|trt-llm", r"^0\.[0-5](\.|$)", "tensorrt-llm-0.5"),
    (r"tensorrt-llm|trt-llm", r"^0\.[6-8](\.|$)|2023", "tensorrt-llm-0.8"),
    (r"tensorrt-llm|trt-llm", r"^0\.1[12](\.|$)", "tensorrt-llm-0.12"),
    (r"tensorrt-llm|trt-llm", r"^0\.(9|10)(\.|$)|^$|2024-0[1-9]", "tensorrt-llm-0.9"),
    (r"tensorrt-llm|trt-llm", r"", "tensorrt-llm"),
    (r"vllm", r"^0\.[0-5](\.|$)|2023|2024-0[1-8]", "vllm-0.5"),
    (r"vllm", r"^0\.[67](\.|$)|2024", "vllm-v0"),
    (r"vllm-based", r"", "vllm-0.5"),
    (r"vllm", r"", "vllm"),
    (r"sglang", r"", "sglang"),
    (r"deepspeed-(fastgen|mii)", r"", "deepspeed-fastgen"),
    (r"fastertransformer", r"", "fastertransformer"),
    (r"text generation inference|\btgi\b", r"", "tgi"),
    (r"llama\.cpp|ollama", r"", "llama.cpp"),
    (r"tellme", r"", "bare-metal"),
)
"""Stack by words of a row's `engine` and its `engine_version`, first match; None: nothing like it is simulated."""

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
"""Stacks that widen quantised weights to 16 bits as they read them."""


@cache
def cluster(accelerator: str) -> Cluster:
    """The machine with an accelerator; raises Refused where no profile has it."""
    name = next((found for words, found in CLUSTERS if re.search(words, accelerator)), None)
    if name is None:
        raise Refused(f"accelerator `{accelerator}`")
    return load_spec(Cluster, name)


@cache
def model(name: str) -> Model:
    """The model of a name; raises Refused where no profile stands for it."""
    if NO_MODEL.search(name):
        raise Refused(f"model `{name}`: multi-head latent attention")
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
    known = (engine.lower(), (version or "").lower().removeprefix("v"))
    for words, versions, name in STACKS:
        if re.search(words, known[0]) and re.search(versions, known[1]):
            if name is not None:
                return name
            break
    raise Refused(f"engine `{engine}`")


@cache
def stack(name: str) -> ServingStack:
    """A stack profile."""
    return load_spec(ServingStack, name)


@cache
def lengths(name: str) -> Lengths:
    """A distribution of lengths."""
    return load_spec(Lengths, name)


def formats(precision: dict[str, Any], stack_of: str, plain: str, assumed: list[str]) -> NumberFormats:
    """Number formats of a row; raises Refused for words that are not known."""
    words = precision.get("weights") or precision.get("compute")
    if precision.get("checkpoint") == "meta fp8":
        assumed.append("attention weights in 16 bits, as in Meta's fp8 checkpoint (arXiv:2407.21783, 6.2)")
        words = "meta-fp8"
    if words is None:
        assumed.append("16-bit weights and activations")
        words = "fp16"
    weights, bits = _known(words)
    activations = _known(precision["activations"])[0] if precision.get("activations") else None
    if activations is None and stack_of in GGUF and weights not in ("fp32", "fp16", "bf16"):
        activations = plain
    if activations is None and str(words).lower().startswith("mxfp4"):
        activations = plain
    return NumberFormats(
        weights=weights,  # type: ignore[arg-type]
        weight_bits=bits,
        activations=activations,  # type: ignore[arg-type]
        kv=_cache_format(precision, stack_of, weights, assumed),  # type: ignore[arg-type]
    )


def _known(words: Any) -> tuple[str, float | None]:
    text = str(words).lower()
    for key in (text, text.split()[0] if text.split() else ""):
        if key in FORMATS:
            return FORMATS[key]
    raise Refused(f"precision `{words}`")


def _cache_format(precision: dict[str, Any], stack_of: str, weights: str, assumed: list[str]) -> str | None:
    """Format of keys and values: NVIDIA's narrow checkpoints come with caches in fp8."""
    kv = precision.get("kv")
    if kv is not None and str(kv).lower() != "auto":
        return _known(kv)[0]
    if stack_of.startswith("tensorrt-llm") and weights in ("fp8", "fp4"):
        assumed.append("keys and values in fp8")
        return "fp8"
    return None
