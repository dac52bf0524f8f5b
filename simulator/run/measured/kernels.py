"""Published kernels, priced on the accelerator that they ran on, alone and at its benchmark clock."""

from functools import cache

from simulator.cost import Attention, Device, Gemm, Stream, Work, compile_device, seconds
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.kernels import ARRAY, HIDDEN, PASSES, STREAMS, MappedKernel, library_of
from simulator.specs.hardware import Accelerator
from simulator.specs.resolve import load_spec


def predicted(mapped: MappedKernel) -> tuple[float, float, str, str]:
    """(measured seconds, predicted seconds, metric, kernel profile) of a row; raises Refused where its format is not
    the device's own."""
    device = _device(mapped.accelerator)
    works = work_of(mapped)
    for work in works:
        if isinstance(work, Gemm | Attention) and mapped.dtype not in device.peaks:
            raise Refused(f"{mapped.dtype} on {device.name}")
    ours = sum(seconds(work, device) for work in works)
    measured, metric = _measured(mapped, works)
    return measured, ours, metric, device.profile


def work_of(mapped: MappedKernel) -> tuple[Work, ...]:
    """The kernels that a row timed together."""
    row, shape = mapped.row, mapped.row.shape
    if row.op in STREAMS:
        reads, writes = STREAMS[row.op]
        each = float(shape["bytes"]) / (reads + writes) if "bytes" in shape else ARRAY
        return (Stream(reads * each, writes * each),)
    if row.op.startswith("attention"):
        return _unfused(mapped) if library_of(row.library) is None else _fused(mapped)
    rows, groups = int(shape.get("m") or shape.get("m_per_group") or 0), int(shape.get("groups") or 1)
    if rows < 1 or groups < 1:
        raise Refused("shape without m")
    return (Gemm(rows, int(shape["n"]), int(shape["k"]), groups, mapped.dtype),)


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
            value_dim=int(shape["value_dim"]) if "value_dim" in shape else None,
            window=int(shape["window"]) if "window" in shape else None,
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
        counted = _fused_flops(mapped) if mapped.row.op.startswith("attention") else works[0].flops
        return counted / rate, "flops_per_s"
    if rate := metrics.get("bytes_per_s"):
        return sum(work.bytes for work in works if isinstance(work, Stream)) / rate, "bytes_per_s"
    raise Refused("neither a time nor a rate")


def _fused_flops(mapped: MappedKernel) -> float:
    batch, heads, length, size, causal = _attention_shape(mapped)
    one = Attention(batch, heads, heads, length, length, size, causal).flops
    return one * sum(2.5 if backward else 1.0 for backward in PASSES[mapped.row.op])


@cache
def _device(name: str) -> Device:
    """The accelerator at the clock of benchmarks."""
    return compile_device(load_spec(Accelerator, name).model_copy(update={"sustained": None}))
