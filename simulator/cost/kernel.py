"""From work and device to seconds: the one door to the models of this room."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from simulator.cost.attention import attention_seconds
from simulator.cost.decode import decode_seconds
from simulator.cost.device import Device
from simulator.cost.gemm import GemmCurve, gemm_seconds
from simulator.cost.scan import scan_seconds
from simulator.cost.stream import stream_seconds
from simulator.cost.work import Attention, Decode, Gemm, Scan, Stream, Work

Bound = Literal["compute", "memory", "latency"]

LEAST_SIDE = 16
"""Shortest n and k, in elements, for which matrix products were checked."""
LARGEST_SIDE = 262_144
"""Longest side for which they are trusted (measured to 65,536)."""
LEAST_QUERY = 64
"""Fewest query positions for which fused attention was checked; decoding has other kernels."""
LEAST_HEAD, LARGEST_HEAD = 32, 256
"""Head sizes for which fused attention is trusted."""
LATENT_WIDTH = 576
"""Elements of a cached latent for which latent attention was checked."""


@dataclass(frozen=True, slots=True)
class KernelCost:
    """What a piece of work costs on a device."""

    seconds: float
    """Time on the device, launch included."""
    bound: Bound
    """The roof that decides; `latency` where launches and other fixed costs outweigh both roofs."""
    valid: bool
    """Whether format and shape lie where the model was checked or estimated for; see docs/models/compute.md."""


@lru_cache(maxsize=65536)
def kernel_cost(work: Work, device: Device) -> KernelCost:
    """Seconds that a device needs for a piece of work, never below its peaks; InputError for formats beyond it.

    Times are those of the benchmarks' conditions, with compute rates multiplied by the accelerator's `sustained`.
    """
    if isinstance(work, Gemm):
        return _gemm(work, device)
    if isinstance(work, Attention):
        return _attention(work, device)
    if isinstance(work, Decode):
        return _decode(work, device)
    if isinstance(work, Scan):
        return _scan(work, device)
    return _stream(work, device)


CUDNN = "cudnn"
"""Attention kernels that a library prefers where they are known, and does without elsewhere."""
TRAINED_SCANS = ("triton",)
"""Families of kernels of recurrences that have a backward pass."""
RAGGED = 0.9
"""Rate of products of which only the result's rows are misaligned: 1,024 x 2,145 x 1,024 of cuBLASLt on A100 loses a
tenth (Azure AI benchmarking guide)."""


def seconds(work: Work, device: Device) -> float:
    """Time of a piece of work on a device in seconds, see `kernel_cost`."""
    return kernel_cost(work, device).seconds


def _bound(time: float, compute: float, memory: float) -> Bound:
    if max(compute, memory) < 0.5 * time:
        return "latency"
    return "compute" if compute >= memory else "memory"


def _gemm(work: Gemm, device: Device) -> KernelCost:
    dtype = device.native(work.dtype)
    curve = device.gemm[dtype]
    m, n, k = work.m, work.n, work.k
    rate = _misaligned(work, curve)
    padded = _aligned(n, curve.alignment), _aligned(k, curve.alignment)
    time, compute, memory = gemm_seconds(m, *padded, work.batch, curve)
    time, compute = time / rate, compute / rate
    inside = min(work.n, work.k) >= LEAST_SIDE and max(work.m, work.n, work.k) <= LARGEST_SIDE
    return KernelCost(time, _bound(time, compute, memory), inside and dtype == work.dtype)


def _misaligned(work: Gemm, curve: GemmCurve) -> float:
    """Rate over that of the padded product. The products of an attention are batched, and the head dimension, be it
    summed or not, is then the contiguous side of a factor."""
    summed, ragged = work.k % curve.alignment != 0, work.n % curve.alignment != 0
    if work.batch > 1 and (summed or ragged):
        return curve.misaligned_batch
    return curve.misaligned if summed else RAGGED if ragged else 1.0


def _aligned(side: int, alignment: int) -> int:
    return -(-side // alignment) * alignment


def _attention(work: Attention, device: Device) -> KernelCost:
    narrow = work.dtype in ("fp8", "int8", "fp4", "int4")
    dtype = device.native("bf16" if narrow else work.dtype)
    kernel = work.kernel or device.best_attention
    known = kernel in device.attention or kernel == CUDNN
    curve = device.attention.get(kernel, device.attention[device.best_attention])
    slower = max(1.0, curve.peak / device.peaks[dtype])
    time, compute, memory = attention_seconds(
        work.batch * work.heads,
        work.query,
        work.context,
        work.head_dim,
        work.causal,
        work.backward,
        work.bytes,
        curve,
        slower,
        work.value_dim,
        work.window,
        work.chunked,
        work.documents,
        work.density,
    )
    faster = curve.in_eight_bits(work.head_dim, work.backward) if work.dtype == "fp8" else 1.0
    time, compute = time / faster, compute / faster
    time = max(time, work.flops / device.peaks[work.dtype if faster > 1.0 else dtype])
    inside = work.density == 1.0 and work.query >= LEAST_QUERY and LEAST_HEAD <= work.head_dim <= LARGEST_HEAD
    return KernelCost(time, _bound(time, compute, memory), known and inside and slower == 1.0)


def _stream(work: Stream, device: Device) -> KernelCost:
    time, compute, memory = stream_seconds(work.bytes, work.kernels, work.flops, device.stream)
    return KernelCost(time, _bound(time, compute, memory), True)


def _scan(work: Scan, device: Device) -> KernelCost:
    curve = device.scan(TRAINED_SCANS, work.kind)
    per_head = work.row_flops / work.heads
    lengths = (work.length,) * work.batch
    time, compute, memory = scan_seconds(
        lengths, work.heads, work.state, per_head, work.row_bytes, curve, work.backward
    )
    return KernelCost(time, _bound(time, compute, memory), curve.known and not work.backward)


def _decode(work: Decode, device: Device) -> KernelCost:
    latent = work.latent is not None
    curve, token = device.decode, 2.0 * work.kv_heads * work.head_dim * work.kv_bytes
    flops = 4.0 * work.heads * work.head_dim
    if work.latent is not None:
        curve, token = device.latent, work.head_dim * work.kv_bytes
        flops = 2.0 * work.heads * (work.head_dim + work.latent)
    group = 1.0 if latent else work.heads / work.kv_heads  # all heads of a latent are one block
    time = decode_seconds(
        work.sequences,
        work.context,
        work.kv_heads,
        group,
        token,
        flops,
        work.kv_bytes < 2.0,
        work.grouped,
        curve,
    )
    inside = work.head_dim == LATENT_WIDTH if latent else LEAST_HEAD <= work.head_dim <= LARGEST_HEAD
    return KernelCost(time, _bound(time, work.flops / curve.arithmetic, work.bytes / curve.bandwidth), inside)
