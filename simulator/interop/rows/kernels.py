"""Published times and rates of single kernels: matrix products, attention, passes over memory.

What rows leave open is filled in by rules, the same for every row: attention without heads has a hidden size of 2,048
and sees all keys (the benchmark of FlashAttention's repository), arrays of STREAM hold 256 MiB. A best over a search of
shapes is scored as the shape that it was found at.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from simulator.interop.rows.accelerators import card, of_die
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.suspicious import check_timed
from simulator.interop.rows.words import operation

HIDDEN = 2048
"""Heads times their size in the benchmark of FlashAttention's repository."""
ARRAY = float(256 << 20)
"""Bytes of an array of BabelStream, 2^25 numbers of 8 bytes; gpu-stream's are as long or longer."""
PRODUCTS = ("gemm", "gemm_max_achievable", "gemm_burn", "grouped_gemm_contiguous", "grouped_gemm_masked")
ATTENTION = ("attention_fwd", "attention_bwd", "attention_fwd_bwd")
STREAMS: Mapping[str, tuple[int, int]] = {
    "stream_init": (0, 1),
    "stream_read": (1, 0),
    "stream_dot": (2, 0),
    "stream_copy": (1, 1),
    "stream_mul": (1, 1),
    "stream_scale": (1, 1),
    "stream_add": (2, 1),
    "stream_triad": (2, 1),
    "kernel_sequence_scale_graph": (1, 1),
    "kernel_sequence_scale_stream": (1, 1),
}
"""Arrays read and written by a pass. Of a sequence kernels follow each other in a captured graph, or as the host
launches them (`_stream`)."""
CACHES = ("cache_read_bandwidth",)
"""Passes over the same bytes again and again."""
MOST_BYTES = 1 << 42
"""Of a footprint."""
HOST_STREAM = re.compile(r"cpu_(stream_\w{3,8})")
"""Passes over the memory of a host by its processors."""
COPIES: Mapping[str, str] = {
    **dict.fromkeys(
        ("copy_host_to_device", "copy_device_to_host", "copy_h2d", "copy_d2h"), "copies to and from a host"
    ),
    **dict.fromkeys(("p2p_copy", "p2p_copy_bidirectional"), "copies between devices"),
}
"""Copies over a link, which `single.copies` reads."""
LATENTS = (
    *("mla_decode", "mla_decode_dense", "mla_decode_sparse", "mla_compute_bound", "mla_memory_bound"),
    *("mla_prefill", "mla_prefill_dense", "mla_prefill_sparse"),
)
MIXTURES = ("moe", "moe_layer", "moe_layer_prefill", "moe_layer_decode", "fused_moe")
"""Latent attention and mixtures of experts, which `single.layers` reads."""
DECODES = ("attention_decode",)
PASSES: Mapping[str, tuple[bool, ...]] = {
    "attention_fwd": (False,),
    "attention_bwd": (True,),
    "attention_fwd_bwd": (False, True),
}
"""Whether each of the passes that were timed together is the backward one."""
LIBRARIES: Mapping[str, str] = {
    "FlashAttention-1": "fa1",
    "FlashAttention-2": "fa2",
    "FlashAttention-3": "fa3",
    "cuDNN": "cudnn",
    "AITER asm": "fa3",
}
FORMATS = (
    *(("fp8", "fp8"), ("float8", "fp8"), ("e4m3", "fp8"), ("mxfp8", "fp8"), ("nvfp4", "fp4"), ("fp4", "fp4")),
    *(
        ("fp16", "fp16"),
        ("float16", "fp16"),
        ("half", "fp16"),
        ("bf16", "bf16"),
        ("bfloat16", "bf16"),
        ("int8", "int8"),
    ),
)
"""Number formats by the start of their words."""
UNFUSED = "PyTorch standard attention"
FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(PRODUCTS, "products"),
    **dict.fromkeys(ATTENTION, "attention"),
    **dict.fromkeys(DECODES, "attention over caches"),
    **dict.fromkeys((*STREAMS, *CACHES), "passes over memory"),
    **dict.fromkeys(LATENTS, "latent attention"),
    **dict.fromkeys(MIXTURES, "mixtures of experts"),
    **COPIES,
}
UNPRICED = (
    (r"memory_latency_\w+", "profiles hold no latencies of caches and memory"),
    (r"gemm_peak\w*", "a peak at a clock, no product that ran"),
    (r"microbatch_stream", "which kernels ran in it is not stated"),
)
"""Operations, as patterns, that are understood and not simulated, and why."""


class KernelRow(BaseModel):
    """One published kernel; keys as in the measurement files, unknown ones are kept aside."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    id: str
    source: str
    op: str
    accelerator: str
    dtype: str | None = None
    shape: dict[str, Any] = {}
    library: str | None = None
    metrics: dict[str, float]
    notes: str | None = None

    @field_validator("op")
    @classmethod
    def _known_operation(cls, words: str) -> str:
        return operation(words)

    @property
    def device(self) -> str:
        """Kind of accelerator."""
        return card(self.accelerator)[0] or self.accelerator

    @property
    def devices(self) -> int:
        """Of the kernel."""
        return 1

    @property
    def model(self) -> str:
        """The shape, in words."""
        return " ".join(f"{key}={value}" for key, value in self.shape.items())

    @property
    def family(self) -> str:
        """What the kernel is, for tables."""
        if HOST_STREAM.fullmatch(self.op):
            return "passes over a host's memory"
        return FAMILIES.get(self.op, self.op)


@dataclass(frozen=True, slots=True)
class MappedKernel:
    """A row as work on an accelerator."""

    row: KernelRow
    accelerator: str
    """Name of its profile."""
    dtype: str
    assumed: tuple[str, ...]


def map_kernel(row: KernelRow) -> MappedKernel:
    """What a row measured and on what; raises Refused with the reason where that is not simulated."""
    if row.op not in (*PRODUCTS, *ATTENTION, *DECODES, *STREAMS, *CACHES):
        raise Refused(_no_kernel(row.op))
    name, assumed = device_of(row)
    if row.op in CACHES:
        if not _whole(row.shape.get("footprint_bytes"), MOST_BYTES):
            raise Refused("shape without footprint_bytes")
        return MappedKernel(row, name, "fp64", tuple(assumed))
    if row.op in DECODES:
        _needed(row, ("batch", "context", "heads", "kv_heads", "head_dim"))
    elif row.op in STREAMS:
        if "bytes" in row.shape and not _whole(row.shape["bytes"], MOST_BYTES):
            raise Refused("shape without whole bytes above 0")
        assumed += [] if "bytes" in row.shape else ["arrays of 256 MiB"]
    elif row.op in ATTENTION:
        _needed(row, ("batch", "seqlen", "head_dim", *_said(row, ("heads", "kv_heads", "value_dim", "window"))))
        assumed += [] if "heads" in row.shape else ["hidden size of 2,048, no mask"]
        if library_of(row.library) is None and row.library != UNFUSED:
            raise Refused(f"attention of {row.library}")
    else:
        _needed(row, ("n", "k", *_said(row, ("m", "m_per_group", "groups"))))
        check_timed(row.metrics, _work(row.shape))
    return MappedKernel(row, name, _dtype(row), tuple(assumed))


def device_of(row: KernelRow) -> tuple[str, list[str]]:
    """(profile of the accelerator of a row, what is assumed of it); raises Refused where none is known."""
    name, open_form = card(row.accelerator)
    if name is None:
        raise Refused(f"no accelerator profile of {row.accelerator}")
    return of_die(name, row.accelerator), ["form or memory of the accelerator"] if open_form else []


def _no_kernel(operation: str) -> str:
    """Why rows of an operation are not simulated."""
    why = next((reason for pattern, reason in UNPRICED if re.fullmatch(pattern, operation)), None)
    if why is not None:
        return f"operation `{operation}`: {why}"
    return f"operation `{operation}` is no product, attention, mixture of experts, copy or pass over memory"


def library_of(words: str | None) -> str | None:
    """The kernels of attention that a library's name stands for, in any spelling and version; None for others."""
    text = re.sub(r"[^a-z0-9.]+", " ", (words or "")[:100].lower())
    named = re.match(r"(?:flash ?(?:attention|attn)|fa) ?(?:v ?)?([123])\b", text)
    return f"fa{named[1]}" if named else "cudnn" if text.startswith("cudnn") else LIBRARIES.get(words or "")


def _work(shape: Mapping[str, Any]) -> dict[str, float]:
    """FLOPs of a product by the rate that counts them; none where the shape does not say its rows."""
    sides = (shape.get("m") or shape.get("m_per_group"), shape.get("n"), shape.get("k"), shape.get("groups", 1))
    return {"flops_per_s": 2.0 * prod(sides)} if all(_whole(side) for side in sides) else {}


def _needed(row: KernelRow, keys: tuple[str, ...]) -> None:
    if missing := [key for key in keys if not _whole(row.shape.get(key))]:
        raise Refused(f"shape without {', '.join(missing)}")


def _said(row: KernelRow, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some sides that a shape has, and not as an open one."""
    return tuple(key for key in keys if row.shape.get(key) is not None)


def _whole(value: Any, most: int = 1 << 31) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most


def _dtype(row: KernelRow) -> str:
    """The number format as the cost model names it."""
    word = (row.dtype or "").lower()
    if "128x128" in word:
        return "fp8_block"
    for start, name in FORMATS:
        if word.startswith(start):
            return name
    if row.op in STREAMS:
        return "fp64"
    raise Refused(f"number format `{row.dtype}`")
