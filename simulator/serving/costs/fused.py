"""Tensor-parallel sums in steps beside the products around them.

A sum is a reduce-scatter and an all-gather. With `steps` (torchtitan's and vLLM's asynchronous tensor parallelism,
Flux, arXiv:2406.06858) the product before it is cut into as many parts of its rows as there are devices, each sent
beside the next, and so is the product after it, whose other parts' rows arrive beside the parts before; parts are
kernels of their own, which read the weights each. With `tracked` (T3, arXiv:2401.16677) the product before stays one
kernel, whose tiles trigger what is sent as they are done, reduced near the memory without multiprocessors: bytes of the
reduce-scatter share the memory with those of the product. The all-gather then follows alone.

Either way the norm between the two works on the device's share of the rows.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from simulator.axes import TP
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.lanes import makespan, sent_in_steps, taken_in_steps
from simulator.serving.costs.operators import Collective, Elementwise, Gemm, Piece, layer
from simulator.serving.costs.pieces import Pieces


def saved_by_steps(pieces: Pieces, depth: Depth, how: str) -> Callable[[int, int, float, float], float]:
    """Seconds that a stage saves at so many rows, whatever its attention takes; negative where parts lose more than
    they hide."""

    @cache
    def saved(rows: int) -> float:
        kinds = depth.passed(pieces.shard.model.kinds[0])
        ordered = [piece for kind, count in kinds for piece in list(layer(pieces.shard, kind=kind)) * count]
        counts: dict[tuple[Piece, ...], int] = {}
        for around in _around(ordered):
            counts[around] = counts.get(around, 0) + 1
        return sum(count * _saved(pieces, around, rows, how) for around, count in counts.items())

    return lambda rows, *_: saved(rows)


def _around(ordered: Sequence[Piece]) -> Iterator[tuple[Piece, ...]]:
    """Each sum with the product before it, what stands between, and the product after it, if there is one."""
    products = [i for i, piece in enumerate(ordered) if isinstance(piece, Gemm)]
    for i, piece in enumerate(ordered):
        if isinstance(piece, Collective) and piece.part == TP.name and i and isinstance(ordered[i - 1], Gemm):
            after = next((place for place in products if place > i), len(ordered) - 1)
            yield tuple(ordered[i - 1 : after + 1])


def _saved(pieces: Pieces, around: tuple[Piece, ...], rows: int, how: str) -> float:
    """Seconds of a sum and what stands around it one after the other, less those in steps."""
    tp = pieces.shard.tp
    before, own, *others = around

    def seconds(piece: Piece, count: int = rows) -> float:
        return float(pieces.seconds(piece, np.array([count]))[0])

    assert isinstance(own, Collective)
    part = -(-rows // tp)
    sent, taken = (
        seconds(Collective(own.part, operation, own.row_bytes)) for operation in ("reduce_scatter", "all_gather")
    )
    between = [piece for piece in others if isinstance(piece, Elementwise)]
    after = next((piece for piece in others if isinstance(piece, Gemm)), None)
    laid = sum(seconds(piece, part) for piece in between)
    if how == "steps":
        laid += makespan(sent_in_steps(tp * seconds(before, part), sent, tp))
        laid += makespan(taken_in_steps(tp * seconds(after, part), taken, tp)) if after else taken
    else:
        laid += max(makespan(sent_in_steps(seconds(before), sent, tp)), _memory(pieces, before, own, rows)) + taken
        laid += seconds(after) if after else 0.0
    return sum(map(seconds, around)) - laid


def _memory(pieces: Pieces, product: Piece, own: Collective, rows: int) -> float:
    """Seconds of the memory for a product and for a reduce-scatter beside it: each of the other devices' parts is read
    once to be sent, and one like it is written as it comes in."""
    assert isinstance(product, Gemm)
    curve, weights = pieces.product(pieces.shard.formats, product.plain)
    moved = curve.size * rows * product.k + weights.size * product.n * product.k + curve.result_size * rows * product.n
    passed = 2.0 * rows * own.row_bytes * (1.0 - 1.0 / pieces.shard.tp)
    return (moved + passed) / curve.bandwidth / pieces.stack.kernel_efficiency.value
