"""Matrix products with constant weights for many numbers of rows at once: what an iteration of a serving engine asks.

The model is that of `gemm.py`, evaluated for an array of row counts m over all tiles and splits together. Weights may
lie in memory in fewer bits than the factors are multiplied in: they are dequantised as they are read, which keeps
`rate` of the arithmetic and `memory` of the bandwidth (`WeightOnlyKernels`). Symbols and sources:
docs/models/serving-cost.md.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.cost.gemm import MOST_WAVES, SHORTEST_SPLIT, STEP, GemmCurve

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Times = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Weights:
    """How the constant factor lies in memory."""

    size: float
    """Bytes of a weight, scales included."""
    rate: float = 1.0
    """Rate of the arithmetic over that of a product whose factors need no dequantising."""
    memory: float = 1.0
    """The same for reading."""
    slim: bool = False
    """Whether kernels have tiles of 16 rows too, as those that dequantise have: few rows leave no time to waste."""


ROUNDING = 1e-12
"""Relative difference between sums of fourth powers and of squares of squares that rounding may make, and more."""
SLIM = (128, 16)
"""Sides of such a tile."""


@lru_cache(maxsize=4096)
def _variants(k: int, curve: GemmCurve, slim: bool) -> tuple[Ints, Ints, Ints, Ints, Floats]:
    """(longer side, shorter side, parts, depth of a part, step) of every tile and split, as columns."""
    splits = [s for s in curve.splits if s == 1 or s * SHORTEST_SPLIT <= k]
    best = min(step / (a * b) for a, b, step in curve.tiles)
    tiles = [*curve.tiles, (*SLIM, SLIM[0] * SLIM[1] * best)] if slim else curve.tiles
    rows = [(a, b, s, -(-k // (s * STEP)) * STEP, step) for a, b, step in tiles for s in splits]
    long, short, split, depth, step = (np.array(column)[:, None] for column in zip(*rows, strict=True))
    return long, short, split, depth, step


def product_seconds(m: Ints, n: int, k: int, curve: GemmCurve, weights: Weights, batch: Floats | float = 1.0) -> Floats:
    """Seconds of products m x k x n for each m of an array of shape (r,), launch included; `batch` independent ones at
    once."""
    long, short, split, depth, step = _variants(k, curve, weights.slim)
    elements = m * float(n) * batch
    reading = min(weights.memory, curve.memory_peak / curve.bandwidth)
    moved = curve.size * m * k * batch + weights.size * float(n) * k * batch / reading
    moved = moved + curve.result_size * elements
    memory = (moved + curve.ramp) / curve.bandwidth
    tiles = np.minimum(-(-m // long) * -(-n // short), -(-m // short) * -(-n // long))
    count = tiles * batch * split
    waves = count / curve.cores
    soft = curve.softness
    waves = np.where(waves > 1.0, (1.0 - soft) * np.ceil(waves) + soft * waves, 1.0)
    parts = split > 1
    tile = depth * (step / weights.rate) + curve.prologue + curve.store * long * short
    compute = waves * tile + parts * curve.split
    traffic = memory + parts * split * (curve.split_traffic * elements)
    feed = count * (depth * (long + short) * (0.5 * (curve.size + min(weights.size, curve.size)) * curve.feed))
    barred = parts & ((split - 1) * tiles > MOST_WAVES * curve.cores)
    body = _least(compute, traffic, feed, barred) ** 0.25
    power = 2.0 * elements * k / (curve.peak * (1.0 - (1.0 - curve.limit) * body / (body + curve.settle)))
    seconds: Floats = curve.launch + np.maximum(body, power)
    return seconds


@lru_cache(maxsize=4096)
def known_products(rows: bytes, n: int, k: int, curve: GemmCurve, weights: Weights) -> Floats:
    """`product_seconds` of numbers of rows (the bytes of 64-bit integers), remembered; read only."""
    found = product_seconds(np.frombuffer(rows, np.int64), n, k, curve, weights)
    found.setflags(write=False)
    return found


def _least(compute: Times, traffic: Times, feed: Times, barred: NDArray[np.bool_]) -> Floats:
    """The least sum of fourth powers of each column, those `barred` left out: powers, which take most of the time, are
    raised only where a product of squares, that differs in the last digits, may be the least."""
    about = (compute * compute) ** 2 + (traffic * traffic) ** 2 + (feed * feed) ** 2
    about[barred] = np.inf
    least = about.min(axis=0)
    near = about <= least * (1.0 + ROUNDING)
    total = np.full(about.shape, np.inf)
    total[near] = compute[near] ** 4 + traffic[near] ** 4 + feed[near] ** 4
    total[barred] = np.inf
    found: Floats = total.min(axis=0)
    return found
