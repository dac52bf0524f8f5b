"""Number formats of published serving rows, by the words of the row or, where it has none, by the model's name.

A row that says nothing ran what its name is published in: a name that ends in a format says it (`-FP8`, `-AWQ`), some
models exist in fewer than 16 bits alone (`serving.published` of the vocabulary), and others are of 16 bits.
"""

import re
from typing import Any

from simulator.interop.rows.accelerators import plain as plain_words
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.words import vocabulary
from simulator.specs.serving import NumberFormats

GGUF = ("llama.cpp", "llama.cpp-2024", "llama.cpp-2025", "mlx")
"""Stacks that dequantise weights to 16 bits as they read them."""
MLX = {"int4": 4.5, "int8": 8.5}
"""Bits of a weight of MLX with a scale and an offset in 16 bits for each 64 (`mlx.core.quantize`), by format."""
INC = ("optimum-habana",)
"""Stacks of Intel's Neural Compressor, whose fp8 runs quantise the cache too (vllm docs/features/quantization/inc.md
lists it; 768 requests of 2,176 tokens of Llama 3.1 8B fit into 128 GB in 8 bits alone)."""
OWN_MXFP4 = re.compile(r"gpt-?oss", re.I)
"""Models that are published in MXFP4 (openai/gpt-oss-120b config.json, `quantization_config`)."""
Q8_0 = 8.5
"""Bits of a weight of llama.cpp's 8-bit format, in which its files of such models have what is not in MXFP4
(ggml-org/gpt-oss-20b-GGUF: 11.27 GiB); those of Ollama have it in 16 bits (13.8 GB)."""
NAMED = re.compile(
    r"-(fp8|nvfp4|fp4|mxfp4|mxfp8|int4|int8|(?:quantized\.)?w4a16|(?:quantized\.)?w8a8|(?:quantized\.)?w8a16|awq|gptq"
    r"|(?:bnb-)?4bit|gguf|i?q[2-8](?:-[0-9k](?:-[sml])?|-xxs|-xs|-nl)?)(?![a-z0-9])"
)
"""Formats in the names of models that were made narrower."""
OLLAMA = "q4_k_m"
"""What tags of Ollama without a format are, and most files of llama.cpp (github.com/ollama/ollama docs)."""
OLLAMA_TAG = "ollama default"
"""Words of rows on such a tag."""
OPEN = ("auto", "default", "not stated", "unknown", "as published", "checkpoint", "native")
"""Words of rows that leave the format to the checkpoint."""
_USUAL = (
    r"ollama default for that tag|experts|bf16 rest|rest|dynamic|static|per (tensor|token|channel|block)|block( ?wise)?"
    r"|weights?|activations?|kv|cache|only|quanti[sz]ed|quanti[sz]ation|and|with|scaling|e4m3|checkpoint|g ?\d+|gs ?\d+"
    r"|group( size)?( of)? ?\d+|marlin|machete|auto|asym|sym|online|offline|calibrated|linear|layers|gguf|imatrix|ud"
)
"""Words that only say how a format is used, behind it."""
_MADE_BY = (
    r"modelopt|compressed tensors|llm ?compressor|torchao|neural ?magic|red ?hat( ai)?|quark|amd quark|unsloth|gguf"
    r"|smooth ?quant|bitsandbytes|bnb|te|native|online|dynamic|static|block ?(wise|scaled)?|auto ?round|intel|hqq|ud"
)
"""Words that say what made a format, before it."""
_PER_WEIGHT = re.compile(
    r"(?:exl[23]|exllama\w*|gptq|gguf|trellis)? ?(\d(?:\.\d+)?) ?(?:bpw|bits? per weight|bits? a weight)"
)
LONGEST = 200
"""Characters of a format that are read."""
LEAST_OF_8 = 6.0
"""Bits of a weight from which on it is kept as one of 8 bits."""

BLOCKS = re.compile(r"deepseek-(v3|r1)(?!-distill)|qwen3-|minimax-m2|kimi-k2", re.I)
"""Models that are published in fp8 with a scale for each 128 x 128 weights (`weight_block_size` in config.json of
deepseek-ai/DeepSeek-R1, Qwen/Qwen3-30B-A3B-FP8, MiniMaxAI/MiniMax-M2 and moonshotai/Kimi-K2-Instruct)."""


def formats(
    precision: dict[str, Any], stack_of: str, plain: str, assumed: list[str], model_name: str = "", engine: str = ""
) -> NumberFormats:
    """Number formats of a row; raises Refused for words that are not known."""
    own = bool(OWN_MXFP4.search(model_name)) and stack_of != "mlx"
    filed = own and stack_of in GGUF
    words = stated(precision)
    if precision.get("checkpoint") == "meta fp8":
        assumed.append("attention weights in 16 bits, as in Meta's fp8 checkpoint (arXiv:2407.21783, 6.2)")
        words = "meta-fp8"
    if own and (known(words or "mxfp4")[0] in ("fp8", "fp4") or (filed and OLLAMA_TAG in str(words).lower())):
        if filed and "ollama" not in plain_words(engine).split()[-1:]:
            assumed.append("experts in MXFP4, the rest in Q8_0, as in llama.cpp's file of the model")
            return _of_file(plain)
        if precision.get("weights") is None:
            assumed.append("experts in MXFP4, the rest in 16 bits, as in the model's checkpoint")
        words = "mxfp4"
    if words is None:
        words = of_name(model_name) or (OLLAMA if "ollama" in engine.lower() else None)
        assumed.append("16-bit weights and activations" if words is None else f"weights in {words}, as it is published")
    weights, bits, rows = known(words or "fp16")
    bits = MLX.get(weights) if stack_of == "mlx" and bits is None else bits
    apart = own and weights == "fp4"
    activations = _activations(precision, stack_of, plain, (weights, rows), own)
    return NumberFormats(
        weights="bf16" if apart else weights,  # type: ignore[arg-type]
        weight_bits=None if apart else bits,
        weight_blocks=weights == "fp8" and bits is None and bool(BLOCKS.search(model_name)),
        activations=None if apart else activations,  # type: ignore[arg-type]
        experts="fp4" if apart else None,
        expert_activations=activations if apart else None,  # type: ignore[arg-type]
        kv=_cache_format(precision, stack_of, "mxfp4" if own else weights, plain, assumed),  # type: ignore[arg-type]
    )


def _of_file(plain: Any) -> NumberFormats:
    """Formats of llama.cpp's file of a model in MXFP4, whose rows are in 16 bits."""
    return NumberFormats(
        weights="int8", weight_bits=Q8_0, activations=plain, experts="fp4", expert_activations=plain, kv=plain
    )


def stated(precision: dict[str, Any]) -> Any:
    """The words of a row on its weights; None where it leaves them to the checkpoint."""
    words = precision.get("weights") or precision.get("compute")
    return None if words is None or plain_words(str(words)) in OPEN else words


def of_name(model_name: str) -> str | None:
    """Words on the weights of a model that is published in fewer than 16 bits; None for others."""
    plain = re.sub(r"[ _]", "-", model_name.rpartition("/")[2].lower())
    if "bf16" in plain or "fp16" in plain:
        return None
    if said := NAMED.search(plain):
        return {"gguf": OLLAMA, "bnb-4bit": "nf4", "4bit": "int4", "w8a8": "int8", "quantized.w8a8": "int8"}.get(
            said[1], said[1].removeprefix("quantized.")
        )
    found = (one.weights for one in vocabulary().serving.published if re.fullmatch(one.model, plain))
    return next(found, None)


def _activations(
    precision: dict[str, Any], stack_of: str, plain: str, weights: tuple[str, str | None], own: bool
) -> str | None:
    """Format of the other factor; None where the device decides."""
    if precision.get("activations") and plain_words(str(precision["activations"])) not in OPEN:
        return known(precision["activations"])[0]
    if own:  # TensorRT-LLM multiplies MXFP4 by fp8 where the device has fp4, everything else by 16 bits
        return (
            "fp8" if stack_of.startswith("tensorrt-llm") and "fp4" in str(precision.get("compute")).lower() else plain
        )
    if weights[1] is not None:
        return plain if weights[1] == "plain" else weights[1]
    return plain if stack_of in GGUF and weights[0] not in ("fp32", "fp16", "bf16") else None


def known(words: Any) -> tuple[str, float | None, str | None]:
    """(format, bits of a weight where they are not its own, format of the rows where it is said) of some words: the
    first format named, with words that only say how it is used; raises Refused where there is none."""
    text = plain_words(str(words)[:LONGEST])
    if counted := _PER_WEIGHT.fullmatch(text):
        bits = float(counted[1])
        return "int8" if bits > LEAST_OF_8 else "int4", bits, "plain"
    for one in vocabulary().serving.formats:
        if re.fullmatch(rf"(({_MADE_BY}) )*({one.words})( ({_USUAL}))*", text):
            return one.format, one.bits, one.rows
    raise Refused(f"precision `{words}`")


def _cache_format(precision: dict[str, Any], stack_of: str, weights: str, plain: str, assumed: list[str]) -> str | None:
    """Format of keys and values. Where a row leaves it to the checkpoint: NVIDIA's narrow ones ask for fp8."""
    kv = str(precision.get("kv") or "auto").lower()
    if kv in ("default", "16 bit", "16-bit"):
        return plain
    if kv != "auto":
        return known(kv)[0]
    if (stack_of.startswith("tensorrt-llm") and weights in ("fp8", "fp4")) or (stack_of in INC and weights == "fp8"):
        assumed.append("keys and values in fp8")
        return "fp8"
    return None
