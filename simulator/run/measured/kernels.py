"""Published kernels, priced on the accelerator that they ran on, alone and at its benchmark clock.

Kernels that a host launches one after the other follow each other no faster than it launches.
"""

from functools import cache

from simulator.cost import Attention, Decode, Device, Gemm, Stream, Work, compile_device, seconds
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.kernels import (
    ARRAY,
    CACHES,
    DECODES,
    HIDDEN,
    PASSES,
    STREAMS,
    MappedKernel,
    library_of,
)
from simulator.specs.hardware import Accelerator
from simulator.specs.resolve import load_spec

LAUNCH = 3e-6
"""Seconds from one launch to the next of a host that does nothing else: the least of the 3 to 10 us that a launch from
C++ takes (`kernel_launch` of serving stacks)."""


def predicted(mapped: MappedKernel) -> tuple[float, float, str, str]:
    """(measured seconds, predicted seconds, metric, kernel profile) of a row; raises Refused where its format is not
    the device's own."""
    device = benchmark_device(mapped.accelerator)
    works = work_of(mapped)
    if mapped.row.op in CACHES:
        _check_in_memory(works, device)
    for work in works:
        if isinstance(work, Gemm | Attention) and mapped.dtype not in device.peaks:
            raise Refused(f"{mapped.dtype} on {device.name}")
    ours = sum(seconds(work, device) for work in works)
    if mapped.row.op.endswith("_stream"):
        ours = max(ours, LAUNCH)
    measured, metric = _measured(mapped, works)
    return measured, ours, metric, device.profile


def work_of(mapped: MappedKernel) -> tuple[Work, ...]:
    """The kernels that a row timed together."""
    row, shape = mapped.row, mapped.row.shape
    if row.op in CACHES:
        return (Stream(float(shape["footprint_bytes"]), 0.0),)
    if row.op in DECODES:
        return (_decode(mapped),)
    if row.op in STREAMS:
        reads, writes = STREAMS[row.op]
        each = float(shape["bytes"]) / (reads + writes) if "bytes" in shape else ARRAY
        return (Stream(reads * each, writes * each),)
    if row.op in PASSES:
        return _unfused(mapped) if library_of(row.library) is None else _fused(mapped)
    rows, groups = int(shape.get("m") or shape.get("m_per_group") or 0), int(shape.get("groups") or 1)
    if rows < 1 or groups < 1:
        raise Refused("shape without m")
    return (Gemm(rows, int(shape["n"]), int(shape["k"]), groups, mapped.dtype),)


def _decode(mapped: MappedKernel) -> Decode:
    shape, sequences = mapped.row.shape, int(mapped.row.shape["batch"])
    size = 4.0 if mapped.dtype == "fp32" else 1.0 if mapped.dtype in ("fp8", "int8") else 2.0
    sides = int(shape["heads"]), int(shape["kv_heads"]), int(shape["head_dim"])
    return Decode(sequences, sequences * int(shape["context"]), *sides, size)


def _check_in_memory(works: tuple[Work, ...], device: Device) -> None:
    """Refused where a part of a footprint stays in a cache of which the profile has no rate."""
    if device.stream.cached is None and works[0].bytes < 1.5 * device.stream.cache:
        held = f"{works[0].bytes / 1e6:.3g} MB read again from a cache of {device.stream.cache / 1e6:.3g} MB"
        raise Refused(f"{held}, of which the kernel profile `{device.profile}` has no rate")


def _fused(mapped: MappedKernel) -> tuple[Attention, ...]:
    batch, heads, length, size, causal = _attention_shape(mapped)
    shape, kernel = mapped.row.shape, library_of(mapped.row.library)
    alike = int(shape.get("kv_heads") or heads), length, length, size, causal, mapped.dtype
    return tuple(
        Attention(
            batch,
            heads,
            *alike,
            backward,
            kernel,
            value_dim=int(shape["value_dim"]) if shape.get("value_dim") else None,
            window=int(shape["window"]) if shape.get("window") else None,
        )
        for backward in PASSES[mapped.row.op]
    )


def _unfused(mapped: MappedKernel) -> tuple[Work, ...]:
    """Scores in memory: two products and a softmax, backward four products and its gradient; a mask is added apart."""
    batch, heads, length, size, causal = _attention_shape(mapped)
    both = mapped.row.op == "attention_fwd_bwd"
    scores = 2.0 * batch * heads * length * length
    into = Gemm(length, length, size, batch * heads, mapped.dtype)
    out = Gemm(length, size, length, batch * heads, mapped.dtype)
    forward: tuple[Work, ...] = (into, out, Stream((1 + causal) * scores, (1 + causal) * scores, 1 + causal))
    return (*forward, into, out, out, out, Stream(2 * scores, scores)) if both else forward


def _attention_shape(mapped: MappedKernel) -> tuple[int, int, int, int, bool]:
    """(sequences, heads, tokens, size of a head, whether causal)."""
    shape = mapped.row.shape
    heads = int(shape.get("heads") or HIDDEN // int(shape["head_dim"]))
    return int(shape["batch"]), heads, int(shape["seqlen"]), int(shape["head_dim"]), bool(shape.get("causal"))


def _measured(mapped: MappedKernel, works: tuple[Work, ...]) -> tuple[float, str]:
    """Seconds, and the figure that they are taken from; FLOPs of attention are those of the fused kernel."""
    metrics = mapped.row.metrics
    if found := metrics.get("time_s"):
        return found, "time_s"
    if rate := metrics.get("flops_per_s"):
        counted = _fused_flops(mapped) if mapped.row.op in PASSES else works[0].flops
        if counted:
            return counted / rate, "flops_per_s"
    if rate := metrics.get("bytes_per_s"):
        return sum(work.bytes for work in works if isinstance(work, Stream | Decode)) / rate, "bytes_per_s"
    raise Refused("neither a time nor a rate")


def _fused_flops(mapped: MappedKernel) -> float:
    batch, heads, length, size, causal = _attention_shape(mapped)
    one = Attention(batch, heads, heads, length, length, size, causal).flops
    return one * sum(2.5 if backward else 1.0 for backward in PASSES[mapped.row.op])


@cache
def benchmark_device(name: str) -> Device:
    """The accelerator at the clock of benchmarks."""
    return compile_device(load_spec(Accelerator, name).model_copy(update={"sustained": None}))
