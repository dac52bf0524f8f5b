"""Kernels of a framework that runs one operation after the other over activations in 32 bits (ggml of llama.cpp).

Its own kernels load no more than `core_read` of the stack lets a multiprocessor have in flight. Products of many rows
are those of the vendor's library, in 16 bits, with kernels before and after them that convert. Attention without a
fused kernel keeps its scores in memory. What each kernel reads and writes is counted in ggml's source of May 2024
(ggml-cuda.cu, `ggml_cuda_op_mul_mat_cublas` and `ggml_cuda_mul_mat_batched_cublas`; softmax.cu; ggml-metal.m).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from simulator.cost import Device
from simulator.cost.gemm import GemmCurve, gemm_seconds
from simulator.cost.rows import Weights, known_products
from simulator.cost.stream import StreamCurve, stream_rows, stream_seconds
from simulator.serving.costs.formats import Formats
from simulator.serving.costs.operators import Shard
from simulator.specs.libraries.products import LibraryProducts
from simulator.specs.serving import ServingStack

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

UNFUSED = "unfused"
"""Attention of prompts as separate kernels that keep the scores in memory."""
WIDE = 4.0
"""Bytes of an activation between products."""
SOFTMAX = 2 * WIDE
"""Bytes of a score that the softmax reads and writes."""
MASK = 4.0
"""Bytes of the mask that it reads with each score, where the cache has no room for the mask."""
MASK_ROOM = 512 * 8192 * MASK
"""Bytes of a cache with room for it: rows of a piece, and keys of a long context."""

BESIDE = 22
"""Kernels of a layer beside those of its products with weights: norms and their scales 4, rotations 2, keys and values
written 2, products of queries with keys and of weights with values 8 (pointers, conversion, product, conversion),
softmax 1, heads put together 1, activation and gate 2, residual additions 2."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Launches of a piece of a prompt on a stage, and what waits for them."""

    kernels: int
    """Of a piece."""
    places: int
    """Launches that the device's queue holds."""
    ahead: int
    """Pieces whose inputs are kept."""


def most_read(device: Device, stack: ServingStack) -> float:
    """Bytes/s that the framework's own kernels move at most."""
    return stack.core_read.value * device.cycles if stack.core_read else inf


def own_stream(device: Device, stack: ServingStack) -> StreamCurve:
    """Passes of the framework's own kernels over memory, and over what the kernel before has left in the cache."""
    curve, most = device.stream, most_read(device, stack)
    if most == inf:
        return curve
    return replace(curve, efficiency=min(curve.efficiency, most / curve.bandwidth), cached=most)


def library(device: Device, stack: ServingStack) -> LibraryProducts | None:
    """The products of the vendor's library; None where there are none."""
    products = stack.library_products
    return products if products is not None and device.vendor in products.vendors else None


def score_seconds(device: Device, stack: ServingStack, bandwidth: float) -> float:
    """Seconds in which a score moves, masked or not: written by a product, passed by the softmax and read by a product,
    in the 16 bits of the library's products, converted before and after the softmax, or in 32; 0 of fused kernels."""
    if stack.attention_kernel != UNFUSED:
        return 0.0
    size = WIDE if library(device, stack) is None else 2.0
    converted = 0.0 if size == WIDE else 2 * (size + WIDE)
    mask = MASK if device.stream.cache < MASK_ROOM else 0.0
    own = min(bandwidth, most_read(device, stack))
    return 2 * size / bandwidth + (converted + SOFTMAX + mask) / own


def library_seconds(
    rows: Ints, n: int, k: int, formats: Formats, plain: bool, device: Device, stack: ServingStack
) -> Floats:
    """Seconds of products of the library, shape (r,), with what is converted for each."""
    size, stream = formats.plain_size, own_stream(device, stack)
    dtype, weight = (formats.plain_compute, size) if plain else (formats.compute, formats.weight_size)
    curve = replace(device.gemm[dtype], size=size, result_size=size)
    found = known_products(rows.tobytes(), n, k, curve, Weights(size))
    widened = stream_seconds(n * k * (weight + size), 1, 0.0, stream)[0] if weight < size else 0.0
    return found + widened + stream_rows(rows.astype(np.float64) * (n + k) * (size + WIDE), 2, stream)


def queue(shard: Shard, layers: int, device: Device, stack: ServingStack) -> Queue | None:
    """The queue of a stage of so many layers; None where it has no end. A product is between the conversions of its
    input and of its result, behind that of its weights, and before the sum of its parts where the library splits it;
    one that reads narrow weights as they are comes after the rounding of its input."""
    of, formats = library(device, stack), shard.formats
    if of is None or of.queue is None:
        return None
    curve, each = device.gemm[formats.compute], 3 if not formats.dequantised else 4 if of.widens else 2
    products = list(matrices(shard))
    parted = sum(_parted(stack.token_budget, n, k, curve) for n, k in products)
    return Queue(layers * (BESIDE + each * len(products) + parted), of.queue, of.ahead)


def matrices(shard: Shard) -> Iterator[tuple[int, int]]:
    """(outputs, inputs) of the matrices of a layer with attention and a dense MLP, each a product of its own; layers
    of other kinds are taken to have as many."""
    model, hidden = shard.model, shard.model.hidden
    values = shard.heads * shard.head_dim
    yield from ((values, hidden), *2 * ((shard.kv_heads * shard.head_dim, hidden),), (hidden, values))
    yield from (*(1 + model.gated_ffn) * ((model.ffn, hidden),), (hidden, model.ffn))


def _parted(rows: int, n: int, k: int, curve: GemmCurve) -> bool:
    """Whether the sums of a product are split to fill the device."""
    return gemm_seconds(rows, n, k, 1, curve)[0] < gemm_seconds(rows, n, k, 1, replace(curve, splits=(1,)))[0]
