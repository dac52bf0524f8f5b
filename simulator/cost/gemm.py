"""Time of a matrix product from its tiles.

A library cuts the result into tiles, spreads them over the cores in waves and may split the summed dimension to fill
the cores. Time is the launch plus a smooth maximum of three roofs - the waves of the tiles, the traffic of device
memory, the feed of the tiles from cache - for the best tile and split. Rates fall towards a power limit the longer a
kernel runs. Symbols and sources: docs/models/compute.md.

Left out: layouts other than those of the measured tables (both factors with the summed dimension contiguous), clusters
of cores, structured sparsity.
"""

from dataclasses import dataclass
from math import ceil

SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
STEP = 64
"""Elements of the summed dimension that one step of the main loop takes."""
SHORTEST_SPLIT = 128
"""Elements of the summed dimension below which no library splits it."""
MOST_WAVES = 4
"""Waves of one product beyond which filling the last one is no reason to split. A batch counts as one of its products
here: what a product may do alone it may do among others, so that a batch never takes longer than they do in turn."""
INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class GemmCurve:
    """Coefficients of one number format on one device, in SI units."""

    peak: float
    """FLOP/s that are never exceeded."""
    bandwidth: float
    """Bytes/s of device memory that are reached by large transfers."""
    cores: int
    """Cores that tiles are spread over."""
    size: float
    """Bytes of an element of the factors."""
    result_size: float
    """Bytes of an element of the result."""
    tiles: tuple[tuple[int, int, float], ...]
    """(longer side, shorter side, seconds per element of depth on one core)."""
    launch: float
    """Seconds from one kernel to the next that are no work."""
    prologue: float
    """Seconds to fill the pipeline of a tile."""
    store: float
    """Seconds per element to write a tile back from one core."""
    softness: float
    """0: waves are whole; 1: a last wave costs its share."""
    ramp: float
    """Bytes that a kernel's memory traffic is behind a steady stream."""
    split: float
    """Seconds to gather the parts of a split sum."""
    split_traffic: float
    """Seconds per element of result and part to gather them."""
    feed: float
    """Seconds per byte that tiles take from cache, all cores together."""
    limit: float
    """Share of the peak that power allows a long kernel."""
    settle: float
    """Seconds after which the power limit has half set in."""
    alignment: int = 8
    """Elements that the contiguous sides should be a multiple of."""
    misaligned: float = 1.0
    """Rate where the summed side is not over the rate where it is."""
    misaligned_batch: float = 1.0
    """The same for batched products, where either of n and k is not."""
    memory_peak: float = INFINITY
    """Bytes/s of device memory that are never exceeded."""
    splits: tuple[int, ...] = SPLITS
    """Parts into which sums are split."""


def gemm_seconds(m: int, n: int, k: int, batch: int, curve: GemmCurve) -> tuple[float, float, float]:
    """(time, part of the compute roofs, part of the memory roof) in seconds of `batch` products m x k x n."""
    elements = float(m) * n * batch
    memory = (curve.size * (m + n) * k * batch + curve.result_size * elements + curve.ramp) / curve.bandwidth
    body, compute, traffic = _best_tile(m, n, k, batch, memory, curve)
    power = 2.0 * elements * k / (curve.peak * (1.0 - (1.0 - curve.limit) * body / (body + curve.settle)))
    return curve.launch + max(body, power), max(compute, power), traffic - curve.ramp / curve.bandwidth


def _best_tile(m: int, n: int, k: int, batch: int, memory: float, curve: GemmCurve) -> tuple[float, float, float]:
    """Smallest smooth maximum of the roofs over tiles and splits, with its compute and memory parts."""
    cores, softness, prologue, store = curve.cores, curve.softness, curve.prologue, curve.store
    feed_rate, gather, most = curve.size * curve.feed, curve.split_traffic * m * n * batch, MOST_WAVES * curve.cores
    best = best_compute = best_memory = INFINITY
    for long, short, step in curve.tiles:
        alone = min(-(-m // long) * -(-n // short), -(-m // short) * -(-n // long))
        tiles = alone * batch
        fixed, edge = prologue + store * long * short, (long + short) * feed_rate
        for split in curve.splits:
            if split > 1 and (split * SHORTEST_SPLIT > k or (split - 1) * alone > most):
                break
            depth = -(-k // (split * STEP)) * STEP
            count = tiles * split
            waves = count / cores
            waves = (1.0 - softness) * ceil(waves) + softness * waves if waves > 1.0 else 1.0
            compute = waves * (depth * step + fixed)
            traffic = memory
            if split > 1:
                compute += curve.split
                traffic += gather * split
            feed = count * depth * edge
            total = compute**4 + traffic**4 + feed**4
            if total < best:
                best, best_compute, best_memory = total, max(compute, feed), traffic
    return best**0.25, best_compute, best_memory
