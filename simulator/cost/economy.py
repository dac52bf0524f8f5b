"""Energy and money of a device's time.

Power is `idle` plus a share of the span up to `peak` that follows what kernels do (`activity`): a part for memory that
moves at its full rate, a part that grows as the root of the arithmetic rate (units that are half used do not draw half,
as clocks fall towards the power limit), a small part for links. Sources and errors: docs/models/compute.md.
"""

import numpy as np
from numpy.typing import NDArray

from simulator.specs.hardware import Power, idle_w

Floats = NDArray[np.float64]

COMPUTE = 1.1
"""Share of the span from idle to peak at the peak rate of arithmetic, were it reached: at 0.65 of it a device is near
its limit (H200, 662 of 700 W in 16 and in 8 bits, api.serialalice.pt/alice-benchmark)."""
MEMORY = 0.25
"""The same of a memory of HBM at its full rate: 300 of 700 W in decoding of one sequence on H100 (ML.ENERGY Benchmark
v3.0 as cited in vllm-semantic-router.com/docs/fleet-sim/power-model)."""
NETWORK = 0.15
"""The same of links at work and nothing else; an estimate."""


def activity(
    compute: Floats | float, memory: Floats | float, network: float = 0.0, memory_share: float = MEMORY
) -> Floats:
    """Share of the span between idle and peak power, at most 1.

    `compute` and `memory` are rates over the peaks of arithmetic and memory, `network` the share of time in which links
    work; `memory_share` is the part of memory at its full rate.
    """
    arithmetic = COMPUTE * np.sqrt(np.clip(compute, 0.0, 1.0))
    return with_links(arithmetic + memory_share * np.clip(memory, 0.0, 1.0), network)


def with_links(share: Floats | float, network: float) -> Floats:
    """A share of the span between idle and peak power and that of links that work for a part `network` of the time, at
    most 1."""
    found: Floats = np.minimum(1.0, share + NETWORK * min(network, 1.0))
    return found


def held(power: Power) -> float:
    """Share of the span between idle and peak power that a device may draw: 1, or less where `limit` holds it."""
    if power.limit is None:
        return 1.0
    idle = idle_w(power)
    return (power.limit.value - idle) / (power.peak.value - idle)


def held_clock(power: Power) -> float:
    """Clock of arithmetic at full load under the limit of the power, over that at the peak: the cube root of the power
    above idle, as dynamic power is that of the clock times the square of a voltage in proportion to it."""
    return float(np.cbrt(held(power)))


def energy_j(peak_w: float, idle_w: float, share: float, duration_s: float) -> float:
    """Energy in joules of one device for `duration_s` seconds at a mean share of the span from `idle_w` to `peak_w`.

    ValueError where `share` is no fraction, but for what rounding adds.
    """
    if not 0.0 <= share <= 1.0 + 1e-9:
        raise ValueError(f"the share of the power above idle is a fraction, got {share}")
    return (idle_w + (peak_w - idle_w) * min(share, 1.0)) * duration_s


def cost_usd(price_per_second: float, devices: int, duration_s: float) -> float:
    """Rent in US dollars of `devices` devices for `duration_s` seconds."""
    return price_per_second * devices * duration_s
