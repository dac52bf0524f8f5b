"""Time of a mixture of experts: every row goes through the MLPs of a few of many experts.

With T rows, k of E experts each and independent choices, h = E (1 - E[(1 - p)^T]) experts are hit, with T k / h rows
each (rounded up); p is the popularity of an expert, k / E of all or spread about it. Their products are those of
`rows.py` with h in a batch, at `rate` and `memory` of a dense product; choosing, sorting, activation and sum pass over
the rows besides, and some kernels take a time for each expert that the device holds, with rows or without.

Where ranks gather the rows of all, a device has rows whose experts are elsewhere too. Its kernels pass over them all
the same (they write zeros, and add them up), and some choose the height of their tiles by all of these rows over the
experts of the device, so that tiles are the emptier the more devices there are. Fit and errors:
docs/models/serving-cost.md. Left out: experts that fill unevenly, so that those with more rows take longer.
"""

from dataclasses import dataclass, replace
from math import lgamma
from typing import Any

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
    passes_elsewhere: float = 0.0
    """Traffic of the passes over rows whose experts other devices have, over reading and writing each once."""
    apart: float = 0.0
    """Seconds more where other devices have experts too."""
    tile: int = 0
    """Rows of the tallest tile, of kernels that choose it by the rows of all; 0 of others."""


def experts_hit(rows: Ints | Floats, experts: int, top_k: int, variance: float = 0.0) -> Floats:
    """Experts that at least one of so many rows goes to, on average; shape of `rows`.

    `variance` is that of the popularity of experts over the square of its mean k / E: popularity has the beta
    distribution of this mean and variance, so that h = E (1 - G(a + b) G(b + T) / (G(b) G(a + b + T))) with a = 1 /
    `variance`, b = a (E / k - 1) and G the gamma function (beta-binomial choices). 0: all experts alike.
    """
    count = rows.astype(np.float64)
    if variance == 0 or top_k >= experts:
        alike: Floats = experts * (1.0 - np.power(1.0 - top_k / experts, count))
        return alike
    a = 1.0 / variance
    b = a * (experts / top_k - 1.0)
    missed = lgamma(a + b) - lgamma(b) + _log_gamma(b + count) - _log_gamma(a + b + count)
    hit: Floats = -experts * np.expm1(missed)
    return hit


_log_gamma = np.vectorize(lgamma, otypes=[np.float64])


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
    beyond: Ints | Floats | float = 0.0,
) -> Floats:
    """Seconds of the mixture for each number of rows (the mean over devices where experts are spread), shape (r,), of
    which `hit` experts have any, shape (r,).

    `inner` is the inner width of an expert on this device; `products` are the dense products of the format,
    `weights` how weights lie in memory, `held` the experts that the device has, `beyond` the rows that it has besides,
    whose experts are elsewhere.
    """
    each = np.ceil(rows * top_k / hit - 1e-9)
    apart = np.where(np.asarray(beyond) > 0.0, curve.apart, 0.0)
    if curve.tile:
        asked = (rows + beyond) * top_k / max(held, 1.0)
        each = np.where(np.asarray(beyond) > 0.0, np.maximum(each, np.minimum(tall(asked), curve.tile)), each)
    each = each.astype(np.int64)
    slower = Weights(weights.size, weights.rate * curve.rate, weights.memory * curve.memory, slim=True)
    bare = replace(products, launch=0.0, ramp=curve.ramp)
    wide = inner * (2 if gated else 1)
    passed = (curve.passes * rows + curve.passes_elsewhere * beyond) * (top_k * (wide + inner + 2.0 * hidden))
    up = product_seconds(each, wide, hidden, bare, slower, hit)
    down = product_seconds(each, hidden, inner, bare, slower, hit)
    traffic = passed * products.result_size / products.bandwidth
    seconds: Floats = curve.launch + apart + curve.each * held + up + down + traffic
    return seconds


def tall(rows: NDArray[Any]) -> Floats:
    """Rows of a tile that so many rows of an expert are given: the next power of two."""
    found: Floats = np.exp2(np.ceil(np.log2(np.maximum(rows, 1.0))))
    return found
