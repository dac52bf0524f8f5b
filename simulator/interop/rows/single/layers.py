"""Published kernels of parts of a layer: attention over latents, and a mixture of experts in one call.

Sizes come from the row, from the model that it names, or are those of DeepSeek-V3 (latents of 512 and 64 numbers, 128
heads of 192 and 128). What else rows leave open is filled in by rules, the same for every row: decodes of 128 sequences
of 8,192 tokens, with all 128 heads where arithmetic is said to bound them and the 16 of one of eight devices where
reading is; chosen latents are the best 2,048, in prompts of 4,096 rows; a mixture has all its experts on the device.
"""

import re
from dataclasses import dataclass
from typing import Any

from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.kernels import KernelRow
from simulator.interop.rows.serving_names import model as served_model
from simulator.specs.model import Model

HEADS, CUT_HEADS = 128, 16
"""Query heads of DeepSeek-V3, and those of one of eight devices."""
CACHED, ROTATED = 512, 64
"""Numbers of its cached latent and of the rotated key beside it."""
EXPANDED, VALUES = 192, 128
"""Sizes of its heads once they are expanded."""
SEQUENCES, TOKENS = 128, 8192
"""Of decodes that state neither."""
CHOSEN, ROWS = 2048, 4096
"""Latents that a row attends to, and rows of a prompt, where an index chooses."""
FAMILIES = (
    ("trtllm", "trtllm-gen"),
    ("trt-llm", "trtllm-gen"),
    ("marlin", "marlin"),
    ("deep_?gemm", "deepgemm"),
    ("cutlass", "cutlass"),
    ("triton", "triton"),
)
"""Families of kernels of mixtures by words of the library."""
FORMATS = (
    *(("nvfp4", "fp4", 4.5), ("mxfp4", "fp4", 4.25), ("fp4", "fp4", 4.5)),
    *(("mxfp8", "fp8", 8.25), ("fp8", "fp8", 8.0), ("float8", "fp8", 8.0)),
    *(("bf16", "bf16", 16.0), ("bfloat16", "bf16", 16.0), ("fp16", "fp16", 16.0), ("float16", "fp16", 16.0)),
)
"""Start of the words of a format, our name, bits of a weight with its scales."""


@dataclass(frozen=True, slots=True)
class Latents:
    """Attention over latents that all heads share."""

    sequences: int
    tokens: int
    """Cached tokens of each sequence, or the latents that each row has chosen."""
    rows: int
    """Query rows of a sequence."""
    heads: int
    cached: int
    """Numbers of a latent that are its value too."""
    rotated: int
    """Numbers of its key beside these."""
    expanded: tuple[int, int]
    """Sizes of a head's keys and values once they are expanded."""
    kv_bytes: float
    """Of a cached number."""
    way: str
    """`decode`: over latents; `prefill`: expanded; `chosen`: over latents that each row of a prompt has chosen."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """A mixture of gated experts in one call."""

    tokens: int
    hidden: int
    inner: int
    """Of an expert."""
    experts: int
    """Of the model."""
    top_k: int
    spread: int
    """Devices that the experts lie on, each with as many tokens of its own."""
    family: str
    """Of kernels; empty for the device's first one."""
    format: str
    """Of the products."""
    bits: float
    """Of a weight."""


def latents_of(row: KernelRow, assumed: list[str]) -> Latents:
    """What a row of latent attention timed; raises Refused where its shape makes no sense."""
    shape, model = row.shape, _model(row)
    if model is not None and model.kv_lora_rank is None:
        raise Refused(f"{model.name} has no latent attention")
    heads, cached, rotated, expanded = HEADS, CACHED, ROTATED, (EXPANDED, VALUES)
    if model is not None and model.kv_lora_rank is not None:
        key = (model.qk_nope_head_dim or 0) + (model.qk_rope_head_dim or 0)
        heads, cached, rotated = model.heads, model.kv_lora_rank, model.qk_rope_head_dim or 0
        expanded = key, model.v_head_dim or key
    elif "heads" not in shape:
        assumed.append("sizes of DeepSeek-V3")
    sparse, prompt = "sparse" in row.op, "prefill" in row.op
    reads = row.op == "mla_memory_bound" or "bytes_per_s" in row.metrics or "fraction_of_peak_bandwidth" in row.metrics
    if "heads" not in shape and model is None and reads and not prompt:
        heads = CUT_HEADS
        assumed.append(f"{CUT_HEADS} heads, as reading bounds it")
    heads = _side(shape, ("heads",), heads) // _side(shape, ("tp",), 1)
    sequences = _side(shape, ("batch", "sequences"), 1 if prompt else SEQUENCES)
    tokens = _side(shape, ("topk", "context", "seqlen_k", "seqlen"), 0)
    if not tokens:
        tokens = CHOSEN if sparse else TOKENS
        assumed.append(f"{CHOSEN:,} latents for a row" if sparse else f"{sequences} sequences of {TOKENS:,} tokens")
    rows = _side(shape, ("seqlen_q",), (ROWS if sparse else tokens) if prompt else 1)
    if sparse and prompt and "seqlen_q" not in shape:
        assumed.append(f"a prompt of {ROWS:,} rows")
    if heads < 1:
        raise Refused("fewer heads than devices that they are cut over")
    way = "decode" if not prompt else "chosen" if sparse else "prefill"
    narrow = (
        1.0 if re.search(r"(fp8|int8)[ _]?(kv|cache)|(kv|cache)[ _]?(fp8|int8)", (row.dtype or "").lower()) else 2.0
    )
    return Latents(sequences, tokens, rows, heads, cached, rotated, expanded, narrow, way)


def mixture_of(row: KernelRow, assumed: list[str]) -> Mixture:
    """What a row of experts timed; raises Refused where its shape says too little."""
    shape, model = row.shape, _model(row)
    hidden = _side(shape, ("hidden",), model.hidden if model else 0)
    inner = _side(shape, ("inner", "moe_ffn"), (model.expert_ffn or model.ffn or 0) if model else 0)
    experts = _side(shape, ("experts",), (model.experts or 0) if model else 0)
    top_k = _side(shape, ("topk", "top_k"), (model.top_k or 0) if model else 0)
    tokens = _side(shape, ("tokens",), 0)
    sides = {"tokens": tokens, "hidden": hidden, "inner": inner, "experts": experts, "topk": top_k}
    if missing := [name for name, side in sides.items() if not side]:
        raise Refused(f"mixture without {', '.join(missing)}, and `model` names none that has them")
    if top_k > experts:
        raise Refused(f"{top_k} of {experts} experts")
    if "ep" not in shape:
        assumed.append("all experts on the device")
    spread = _side(shape, ("ep",), 1)
    words, library = (row.dtype or "").lower(), (row.library or "").lower()
    form = next(((name, bits) for start, name, bits in FORMATS if words.startswith(start)), None)
    if form is None:
        raise Refused(f"number format `{row.dtype}` of a mixture")
    family = next((name for pattern, name in FAMILIES if re.search(pattern, library)), "")
    inner //= _side(shape, ("tp",), 1)
    if inner < 1:
        raise Refused("an expert is narrower than the devices that it is cut over")
    return Mixture(tokens, hidden, inner, experts, top_k, spread, family, *form)


def _model(row: KernelRow) -> Model | None:
    """The model that a row names; None where it names none, Refused where none is known by that name."""
    name = row.shape.get("model")
    return served_model(name) if isinstance(name, str) and name.strip() else None


def _side(shape: dict[str, Any], names: tuple[str, ...], usual: int) -> int:
    """The first of some sides that a shape has; Refused where it is no whole number above 0."""
    name = next((name for name in names if name in shape), None)
    if name is None:
        return usual
    side = shape[name]
    if not isinstance(side, int) or isinstance(side, bool) or not 0 < side <= 1 << 31:
        raise Refused(f"shape without a whole number above 0 for {name}")
    return side
