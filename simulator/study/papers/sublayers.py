"""Products of tensor parallelism whose tiles trigger their own reduce-scatter, over product, scatter and gather one by
one: the sub-layers of T3 (arXiv:2401.16677)."""

from collections.abc import Iterator
from itertools import product as pairs
from math import prod
from typing import Literal

from pydantic import Field

from simulator.serving.costs.lanes import makespan, sent_in_steps
from simulator.specs.base import Bandwidth, Count, Spec

FACTORS = (1, 3, 4, 4)
"""Columns that a product sums over, of the hidden size: the output of attention, its input backwards, the second matrix
of the MLP, its first one backwards."""
BYTES = 2
"""Of an element."""


class SubLayers(Spec):
    """Sub-layers of some models; each gives a sum of rows times `hidden`. The rows cancel out of a speed-up."""

    hidden: tuple[Count, ...] = Field(min_length=1)
    """Hidden sizes of the models."""
    devices: tuple[Count, ...] = Field(min_length=1)
    """Of a tensor-parallel group; every model is cut over each."""
    flops: float = Field(gt=0)
    """FLOP/s of products on a device."""
    ring: Bandwidth
    """Of a device's link to its neighbour."""
    quantity: Literal["mean", "most"] = "mean"
    """Geometric mean of the speed-ups, or the largest."""


def of_sublayers(asked: SubLayers) -> float:
    """The speed-up over a product, its scatter and the gather one after the other."""
    gains = list(_gains(asked))
    return max(gains) if asked.quantity == "most" else prod(gains) ** (1 / len(gains))


def _gains(asked: SubLayers) -> Iterator[float]:
    for hidden, devices, factor in pairs(asked.hidden, asked.devices, FACTORS):
        scatter = BYTES * hidden * (devices - 1) / devices / asked.ring
        product = 2.0 * hidden * factor * hidden / devices / asked.flops
        yield (product + 2 * scatter) / (makespan(sent_in_steps(product, scatter, devices)) + scatter)
