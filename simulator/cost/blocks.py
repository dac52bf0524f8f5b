"""Products whose scales belong to blocks of the weights, by kernels that do not split the inner dimension.

A multiprocessor walks the inner dimension of its tile in steps of a block, so that few rows and many cost the same
until the device is full; from there on the arithmetic counts. Source of the numbers: the stack's.
"""

import numpy as np

from simulator.cost.device import Device
from simulator.cost.rows import Floats, Ints
from simulator.specs.libraries.blocks import BlockProducts

BLOCK = 128
"""Weights along each side of a block."""


def block_seconds(rows: Ints, n: int, k: int, of: BlockProducts, device: Device) -> Floats:
    """Seconds of products of rows with a matrix of k x n weights of one byte, shape (r,)."""
    walked = max(-(-k // BLOCK) * of.step.value, n * k / device.bandwidth)
    worked = 2.0 * n * k * rows.astype(np.float64) / (of.rate.value * device.peak("fp8"))
    return of.launch.value + np.maximum(walked, worked)
