"""Products with a scale for each block of the weights, by the kernels of engines that had no better ones yet."""

from typing import Annotated

from pydantic import Field

from simulator.specs.base import Figure, Seconds, Spec


class BlockProducts(Spec):
    """Products of fp8 weights with a scale for each 128 x 128 of them, whose inner dimension is walked by one
    multiprocessor a tile, 128 by 128."""

    launch: Figure[Seconds]
    """Time of a product besides."""
    step: Figure[Seconds]
    """Time of 128 of the inner dimension, however few rows a tile has."""
    rate: Figure[Annotated[float, Field(gt=0, le=1)]]
    """Share of the device's fp8 peak where rows fill it."""
