"""Time of passes over memory: elementwise kernels, normalisation, softmax, embedding, optimizer.

Bytes over a sustained share of the memory bandwidth, plus a launch per kernel. Tensors that fit in the last-level cache
are found there by the kernel that follows, so that small passes run at the full memory bandwidth. That caches are
faster than that is left out, which keeps every time above the roof of the memory, but for kernels of which it is known
what they load at most (`core_read` of a serving stack).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StreamCurve:
    """Coefficients of one device, in SI units."""

    bandwidth: float
    """Peak bytes/s of device memory."""
    efficiency: float
    """Share of it that large passes reach."""
    cache: float
    """Bytes of the last-level cache; 0 where unknown."""
    launch: float
    """Seconds per kernel that are no work."""
    vector: float
    """FLOP/s of elementwise arithmetic."""
    cached: float | None = None
    """Bytes/s of what is found in the cache; those of the memory where not known."""


def stream_seconds(size_bytes: float, kernels: int, flops: float, curve: StreamCurve) -> tuple[float, float, float]:
    """(time, part of the arithmetic, part of the memory) in seconds of `size_bytes` moved by `kernels` launches."""
    hit = min(1.0, max(0.0, 1.5 - size_bytes / (kernels * curve.cache))) if curve.cache and kernels else 0.0
    memory = size_bytes * (hit * _found(curve) + (1.0 - hit) / curve.efficiency) / curve.bandwidth
    compute = flops / curve.vector
    return kernels * curve.launch + max(memory, compute), compute, memory


def stream_rows(size_bytes: Floats, kernels: int, curve: StreamCurve) -> Floats:
    """`stream_seconds` without arithmetic for many sizes, shape (r,)."""
    hit: Floats | float = 0.0
    if curve.cache:
        hit = np.clip(1.5 - size_bytes / (kernels * curve.cache), 0.0, 1.0)
    share = hit * _found(curve) + (1.0 - hit) / curve.efficiency
    seconds: Floats = kernels * curve.launch + size_bytes * share / curve.bandwidth
    return seconds


def _found(curve: StreamCurve) -> float:
    """Time of a byte in the cache over that of the memory's peak."""
    return 1.0 if curve.cached is None else curve.bandwidth / curve.cached
