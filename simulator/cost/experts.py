"""Time of a mixture of experts: every row goes through the MLPs of a few of many experts.

With T rows, k of E experts each and independent choices, h = E (1 - (1 - k / E)^T) experts are hit, with T k / h rows
each (rounded up). Their products are those of `rows.py` with h in a batch, at `rate` and `memory` of a dense product;
choosing, sorting, activation and sum pass over the rows besides, and some kernels take a time for each expert that the
device holds, with rows or without. Fit and errors: docs/models/serving-cost.md. Left out:
experts that are chosen more often than others, so that fewer are hit and they fill unevenly.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simulator.cost.gemm import GemmCurve
from simulator.cost.rows import Weights, product_seconds

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ExpertCurve:
    """Coefficients of one format on one device."""

    launch: float
    """Seconds of the whole mixture that are no work."""
    rate: float
    """Rate of the arithmetic over that of a dense product."""
    memory: float
    """Rate of reading weights over that of a dense product."""
    ramp: float
    """Bytes that each product is behind a steady stream."""
    passes: float
    """Traffic of the passes over rows, over reading and writing each row once."""
    each: float = 0.0
    """Seconds of each expert of the device, with rows or without: what counts rows and lays out tiles by expert."""


def experts_hit(rows: Ints, experts: int, top_k: int) -> Floats:
    """Experts that at least one of so many rows goes to, on average; shape of `rows`."""
    hit: Floats = experts * (1.0 - np.power(1.0 - top_k / experts, rows.astype(np.float64)))
    return hit


def expert_seconds(
    rows: Ints | Floats,
    hit: Floats,
    top_k: int,
    hidden: int,
    inner: int,
    gated: bool,
    curve: ExpertCurve,
    products: GemmCurve,
    weights: Weights,
    held: float = 0.0,
) -> Floats:
    """Seconds of the mixture for each number of rows (the mean over devices where experts are spread), shape (r,), of
    which `hit` experts have any, shape (r,).

    `inner` is the inner width of an expert on this device; `products` are the dense products of the format,
    `weights` how weights lie in memory, `held` the experts that the device has.
    """
    each = np.ceil(rows * top_k / hit - 1e-9).astype(np.int64)
    slower = Weights(weights.size, weights.rate * curve.rate, weights.memory * curve.memory, slim=True)
    bare = replace(products, launch=0.0, ramp=curve.ramp)
    wide = inner * (2 if gated else 1)
    moved = rows * (top_k * (wide + inner + 2.0 * hidden) * products.result_size)
    up = product_seconds(each, wide, hidden, bare, slower, hit)
    down = product_seconds(each, hidden, inner, bare, slower, hit)
    seconds: Floats = curve.launch + curve.each * held + up + down + curve.passes * moved / products.bandwidth
    return seconds
