"""What is measured: the operation, format and shape of each case, by kind.

Shapes are those of models that people run (hidden sizes of 4,096 to 8,192, heads of 64 and 128, key heads shared by
several query heads), from one row to thousands. A device without matrix units gets small ones. Cases whose operands
need more than half of the memory are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from simulator.errors import InputError, Problem, nearest

SHARE = 0.5
"""Of the memory that the operands of a case may take."""
SIZES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to time."""

    kind: str
    op: str
    dtype: str
    shape: Mapping[str, Any]
    bytes: float
    """Of its operands and results, held at once."""

    @property
    def name(self) -> str:
        """Its id in the file."""
        sides = "-".join(f"{key}{value}" for key, value in self.shape.items() if value is not False)
        return f"{self.op}-{self.dtype}-{sides}".replace("True", "")


@dataclass(frozen=True, slots=True)
class Target:
    """What decides which cases a device gets."""

    small: bool
    """Whether it has no matrix units to speak of."""
    dtypes: tuple[str, ...]
    memory: float
    """Bytes."""
    devices: int = 1


GPU_PRODUCTS = ((4096, 4096), (12288, 4096), (4096, 14336), (28672, 8192), (8192, 8192), (1024, 8192))
"""(n, k) of products: projections and MLPs of models of 7 to 70 billion parameters, and narrow ones."""
GPU_ROWS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
CPU_PRODUCTS = ((256, 256), (512, 1024), (1024, 512), (1024, 1024))
CPU_ROWS = (1, 16, 64, 256, 512)


def _gemm(target: Target) -> list[Case]:
    sides, rows = (CPU_PRODUCTS, CPU_ROWS) if target.small else (GPU_PRODUCTS, GPU_ROWS)
    found = []
    for dtype, (n, k), m in product(target.dtypes, sides, rows):
        if dtype != "fp8" or m >= 16:  # scaled products take multiples of 16
            found.append(Case("gemm", "gemm", dtype, {"m": m, "n": n, "k": k}, SIZES[dtype] * (m * k + n * k + m * n)))
    return found


def _grouped(target: Target) -> list[Case]:
    shapes = (
        [(4, 32, 256, 256), (8, 64, 256, 512)]
        if target.small
        else [
            (groups, rows, n, k)
            for groups, (n, k), rows in product((8, 32), ((4096, 2048), (2048, 7168)), (16, 128, 1024))
        ]
    )
    names = ("groups", "m_per_group", "n", "k")
    return [
        Case("moe", "grouped_gemm_contiguous", d, dict(zip(names, s, strict=True)), _grouped_bytes(SIZES[d], *s))
        for d, s in product(_wide(target)[:1], shapes)
    ]


def _grouped_bytes(size: float, groups: int, rows: int, n: int, k: int) -> float:
    return size * groups * (rows * k + n * k + rows * n)


def _moe(target: Target) -> list[Case]:
    shapes = (
        [(64, 128, 128, 8, 2)]
        if target.small
        else [
            (tokens, hidden, inner, experts, topk)
            for tokens, (hidden, inner, experts, topk) in product(
                (64, 1024, 8192), ((4096, 14336, 8, 2), (2048, 768, 128, 8))
            )
        ]
    )
    names = ("tokens", "hidden", "inner", "experts", "topk")
    dtype = _wide(target)[0]
    return [
        Case(
            "moe",
            "moe",
            dtype,
            dict(zip(names, s, strict=True)),
            SIZES[dtype] * (3 * s[3] * s[1] * s[2] + 6 * s[0] * s[4] * s[2]),
        )
        for s in shapes
    ]


def _wide(target: Target) -> tuple[str, ...]:
    """Formats of 16 bits and more."""
    return tuple(dtype for dtype in target.dtypes if dtype != "fp8")


def _heads(target: Target) -> tuple[tuple[int, int, int], ...]:
    """(query heads, key heads, size of a head)."""
    return ((4, 4, 64), (4, 2, 32)) if target.small else ((32, 32, 128), (32, 8, 128), (16, 16, 64))


def _attention(target: Target) -> list[Case]:
    found = []
    tokens, lengths = (256, (64, 256)) if target.small else (16384, (512, 1024, 2048, 4096, 8192, 16384))
    for (heads, kv, size), length, op, causal in product(
        _heads(target), lengths, ("attention_fwd", "attention_fwd_bwd"), (True, False)
    ):
        batch = max(tokens // length, 1)
        shape = {"batch": batch, "heads": heads, "kv_heads": kv, "seqlen": length, "head_dim": size, "causal": causal}
        dtype = _wide(target)[0]
        found.append(Case("attention", op, dtype, shape, 8 * SIZES[dtype] * batch * length * heads * size))
    return found


def _decode(target: Target) -> list[Case]:
    found = []
    batches, contexts = ((1, 4), (128, 512)) if target.small else ((1, 8, 64, 256), (512, 2048, 8192, 32768))
    for (heads, kv, size), batch, context in product(_heads(target), batches, contexts):
        shape = {"batch": batch, "heads": heads, "kv_heads": kv, "context": context, "head_dim": size}
        dtype = _wide(target)[0]
        found.append(Case("decode", "attention_decode", dtype, shape, 2 * SIZES[dtype] * batch * context * kv * size))
    return found


def _powers(low: int, high: int, step: int) -> list[int]:
    return [1 << power for power in range(low, high + 1, step)]


def _memory(target: Target) -> list[Case]:
    sizes = _powers(12, 24, 3) if target.small else _powers(12, 32, 2)
    return [Case("memory", op, "fp32", {"bytes": n}, n) for op in ("stream_copy", "stream_triad") for n in sizes]


def _launch(target: Target) -> list[Case]:
    return [
        Case("launch", "launch", "fp32", {"kernels": n}, 4096.0) for n in ((10, 100) if target.small else (10, 1000))
    ]


def _copies(target: Target) -> list[Case]:
    sizes = [] if target.small else _powers(12, 30, 3)
    return [Case("copies", op, "fp32", {"bytes": n}, n) for op in ("copy_h2d", "copy_d2h") for n in sizes]


def _all_reduce(target: Target) -> list[Case]:
    if target.devices < 2:
        return []
    groups = [n for n in (2, 4, 8, 16) if n <= target.devices]
    return [
        Case("all-reduce", "all_reduce", "bf16", {"bytes": size, "ranks": ranks}, 2.0 * size)
        for ranks, size in product(groups, _powers(10, 30, 2))
    ]


def _beside(target: Target) -> list[Case]:
    if target.small:
        return []
    dtype, found = _wide(target)[0], []
    for n in (4096, 8192):
        shape = {"m": 8192, "n": n, "k": 8192, "bytes": 1 << 28}
        size = SIZES[dtype] * (8192 * 8192 + n * 8192 + 8192 * n) + 2 * (1 << 28)
        found.append(Case("beside", "gemm_beside_copy", dtype, shape, size))
        if target.devices > 1:
            shape = {**shape, "ranks": target.devices}
            found.append(Case("beside", "gemm_beside_all_reduce", dtype, shape, size))
    return found


def _block(target: Target) -> list[Case]:
    sizes = (1, 128, 256, 4, 2, 64, 512) if target.small else (1, 4096, 4096, 32, 8, 128, 14336)
    names = ("batch", "seqlen", "hidden", "heads", "kv_heads", "head_dim", "ffn")
    shape, dtype = dict(zip(names, sizes, strict=True)), _wide(target)[0]
    _, length, hidden, heads, kv, head, ffn = sizes
    weights = hidden * head * (2 * heads + 2 * kv) + 3 * hidden * ffn
    kept = SIZES[dtype] * (2 * weights + length * (20 * hidden + 8 * ffn))
    return [Case("block", op, dtype, shape, kept) for op in ("block_fwd", "block_fwd_bwd")]


KINDS: Mapping[str, Callable[[Target], list[Case]]] = {
    "gemm": _gemm,
    "attention": _attention,
    "decode": _decode,
    "moe": lambda target: [*_grouped(target), *_moe(target)],
    "memory": _memory,
    "launch": _launch,
    "copies": _copies,
    "all-reduce": _all_reduce,
    "beside": _beside,
    "block": _block,
}
"""Kinds of cases by name, in the order in which they are measured."""


def cases(target: Target, only: Sequence[str] = ()) -> list[Case]:
    """The cases that a device gets, of all kinds or those named; InputError for a kind that there is not."""
    for kind in only:
        if kind not in KINDS:
            raise InputError(
                Problem(f"nothing of kind `{kind}` is measured", hint=nearest(kind, KINDS) or ", ".join(KINDS))
            )
    found = [case for kind, make in KINDS.items() if not only or kind in only for case in make(target)]
    return [case for case in found if case.bytes <= SHARE * target.memory]
