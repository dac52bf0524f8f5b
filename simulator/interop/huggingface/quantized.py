"""What the `quantization_config` of a Hugging Face `config.json` says about the weights that it comes with.

Keys as in transformers 4.57 (`utils/quantization_config.py`) and in the files that AutoAWQ, GPTQModel, llm-compressor
(compressed-tensors), ModelOpt, Quark and bitsandbytes write.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_WHOLE = {4: "int4", 8: "int8"}
_FLOATING = {4: "fp4", 8: "fp8"}
_METHODS = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "fp4", "eetq": "int8", "bitnet": "ternary"}
"""Methods that have one format."""
_BITS = ("bits", "num_bits", "w_bit", "nbits", "weight_bits")
_LONGEST = 60
_KEPT = ("ignore", "modules_to_not_convert", "exclude_modules")
_PARTS = {r"attn(\.?\*|\.o_proj.*|)$": "attention", r"shared_experts?\b(?!_gate)": "shared experts"}
"""Parts of a model by names of their modules: whole blocks, or the matrix that ends them; single ones inside do not
count."""


def quantization(config: Mapping[str, Any]) -> tuple[str, str | None]:
    """(how weights are quantised, in words; the number format of `serving.precision` that comes closest).

    Empty words where nothing is quantised, no format where none comes close.
    """
    said = next(
        (config[key] for key in ("quantization_config", "compression_config") if isinstance(config.get(key), Mapping)),
        None,
    )
    if said is None:
        return "", None
    method = str(said.get("quant_method") or said.get("quant_algo") or "a method that is not named").lower()
    bits, floating = _bits(said)
    words = method[:_LONGEST] + (f", {bits} bits" if bits else "") + _left(said)
    if method in _METHODS:
        return words, _METHODS[method]
    return words, (_FLOATING if floating else _WHOLE).get(bits or 0)


def _left(said: Mapping[str, Any]) -> str:
    """Which large parts stay in 16 bits, in words; a run takes one format for all layers."""
    named = [str(name) for key in _KEPT if isinstance(said.get(key), list) for name in said[key]]
    left = [word for part, word in _PARTS.items() if any(re.search(part, name) for name in named)]
    return f", not {' and '.join(left)}" if left else ""


def _bits(said: Mapping[str, Any]) -> tuple[int | None, bool]:
    """(bits of a weight where they are said, whether they are those of floating-point numbers)."""
    if said.get("load_in_4bit") is True or said.get("load_in_8bit") is True:
        return (4 if said.get("load_in_4bit") is True else 8), False
    algorithm = str(said.get("quant_algo") or "").upper()
    if algorithm:  # FP8, NVFP4, W4A16_AWQ, W8A8_SQ_PER_CHANNEL
        floating = "FP" in algorithm
        return next((bits for bits in (4, 8) if f"FP{bits}" in algorithm or f"W{bits}" in algorithm), None), floating
    for weights in (said, *_groups(said)):
        bits = next((weights[key] for key in _BITS if key in weights), None)
        if isinstance(bits, int) and not isinstance(bits, bool) and 0 < bits < 32:
            return bits, "float" in str(weights.get("type") or weights.get("dtype") or "")
    return None, False


def _groups(said: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What compressed-tensors says of the weights of each group of layers."""
    groups = said.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        if isinstance(group, Mapping) and isinstance(group.get("weights"), Mapping):
            yield group["weights"]
