"""Time of recurrences over sequences (linear attention, state-space layers), and of one step of them.

A scan of s rows and H heads: `launch`, `chain` seconds a row that the heads of a sequence cannot share, and for each
head of each sequence a block: its state is fetched and stored, and its rows pass at the rate of a core. Fused kernels
walk a head's rows on one core, whole waves of them; others spread chunks over all cores. A step of decoding reads and
writes the whole state. The memory is a floor under each. Fit, errors, what is left out: docs/models/linear.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

STATE = 16_384.0
"""Numbers of the state for which `block` is stated: keys and values of 128."""


@dataclass(frozen=True, slots=True)
class ScanCurve:
    """Coefficients of one family of kernels on one device, in SI units."""

    bandwidth: float
    """Bytes/s of device memory that are reached by large transfers."""
    cores: int
    """Cores that heads or chunks are spread over."""
    peak: float
    """FLOP/s of a core, never exceeded."""
    core: float
    """FLOP/s of a core, counted as published, that rows pass at."""
    launch: float
    """Seconds that are no work, of all kernels that belong to it."""
    block: float
    """Seconds of a core for a head of a sequence with `STATE` numbers, rows apart."""
    chain: float
    """Seconds of a row of the longest sequence."""
    whole: bool
    """Whether one core walks all rows of a head."""
    backward: float
    """Arithmetic and traffic of the backward pass over those of the forward pass."""
    step_launch: float
    """Seconds of a step of decoding that are no work."""
    step_bandwidth: float
    """Bytes/s at which states are read and written there."""
    known: bool
    """Whether kernels of this kind were measured on the device."""


def scan_seconds(
    lengths: Sequence[int],
    heads: int,
    state: float,
    row_flops: float,
    row_bytes: float,
    curve: ScanCurve,
    backward: bool = False,
) -> tuple[float, float, float]:
    """(time, part of the arithmetic, part of the memory) in seconds of a scan over sequences of so many rows.

    `state` are numbers of a head's state, `row_flops` of a row and head, `row_bytes` of a row of all heads.
    """
    rows, longest, times = sum(lengths), max(lengths), curve.backward if backward else 1.0
    block, step = curve.block * state / STATE, times * row_flops / min(curve.core, curve.peak)
    count = len(lengths) * heads
    waves = -(-count // curve.cores) if curve.whole else count / curve.cores
    walked = waves / count * heads * (len(lengths) * block + rows * step)
    if curve.whole:
        walked = max(walked, block + longest * step)
    compute = curve.chain * times * longest + walked
    memory = times * rows * row_bytes / curve.bandwidth
    time: float = curve.launch + (compute**4 + memory**4) ** 0.25
    return time, compute, memory


def step_seconds(sequences: int, state_bytes: float, curve: ScanCurve) -> float:
    """Seconds of one token of `sequences` sequences, whose states of so many bytes each are read and written."""
    return curve.step_launch + 2.0 * sequences * state_bytes / curve.step_bandwidth
