"""Devices of one model that differ, and how much slower the slowest of those that wait for each other is.

Manufacturing and power management make GPUs of one model unlike: on five machines the times of the same work differed
by 8 % on average over applications and machines, 22 % at most (Sinha et al., arXiv:2208.11035, abstract). A synchronous
step waits for the slowest of its devices, so that it takes longer the more they are. With times that are normally
distributed about the mean device, standard deviation over mean s, the slowest of n is expected to take 1 + s m(n) as
long, where m(n) is the expected maximum of n standard normal numbers (about sqrt(2 ln n) for large n).

What differs is the clock of the multiprocessors: kernels that memory, launches or other fixed costs bound take what
they take. Left out: devices that are much slower than the others (operators take them out), devices of a node
that are alike in heat, pipelines whose slow stage has slack, what changes over time (`training.noise`).
"""

from functools import lru_cache
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

from simulator.random import stream
from simulator.specs.scenario import Scenario

Floats = NDArray[np.float64]

PATH = "training.variability"
LEAST_PACE = 0.5
"""Least factor that is drawn: no device is more than twice as fast as the mean one."""
_REACH, _STEPS = 10.0, 4_000  # of the integral: standard deviations either way, and how many steps


@lru_cache(maxsize=1024)
def expected_maximum(count: int) -> float:
    """Expected maximum of `count` independent standard normal numbers; 0 of one.

    The integral of 1 - F^n above 0 less that of F^n below, with F the distribution of one; within 1e-6.
    """
    above = np.linspace(0.0, _REACH, _STEPS + 1)
    tail = np.array([0.5 * erfc(x / sqrt(2.0)) for x in above])
    either = -np.expm1(count * np.log1p(-tail)) - tail**count
    return float((either.sum() - either[[0, -1]].sum() / 2) * _REACH / _STEPS)


def slowest_pace(scenario: Scenario, workers: int | None = None) -> float:
    """How many times as long arithmetic takes on the slowest device that a step waits for; 1 where devices are equal,
    drawn one by one, or differ by what is not known.

    Workers that take local steps wait for nobody in these.
    """
    known = scenario.cluster.node.accelerator.variability
    if known is None or scenario.training.variability != "expected":
        return 1.0
    return 1.0 + known.value * expected_maximum(scenario.cluster.devices // (workers or 1))


def said(scenario: Scenario, workers: int | None = None) -> tuple[str, ...]:
    """What is assumed of how devices differ."""
    accelerator, how = scenario.cluster.node.accelerator, scenario.training.variability
    known, waiting = accelerator.variability, scenario.cluster.devices // (workers or 1)
    if how == "equal" or waiting == 1 or known is None:
        return ()
    spread = f"devices differ by {100 * known.value:.2g} % (standard deviation, {known.status})"
    if how == "drawn":
        return (f"{spread}, drawn for each (seed {scenario.seed})",)
    slower = 100 * (slowest_pace(scenario, workers) - 1)
    pace = f"arithmetic goes at the pace of the slowest of {waiting:,}, {slower:.2g} % slower than that of a mean one"
    return (f"{spread}: {pace}; the stack was fitted with devices that are equal",)


def without_effect(scenario: Scenario) -> list[str]:
    """What the scenario says of it without effect."""
    how, accelerator = scenario.training.variability, scenario.cluster.node.accelerator
    if how == "equal" or accelerator.variability is not None:
        return []
    return [f"no effect: variability {how}: that of {accelerator.name} is not known, and its devices are equal"]


def drawn_paces(scenario: Scenario, devices: int) -> Floats | None:
    """How many times as long each device takes over its kernels, shape (devices,); None where they are not drawn."""
    known = scenario.cluster.node.accelerator.variability
    if known is None or scenario.training.variability != "drawn":
        return None
    normal = stream(scenario.seed, PATH).standard_normal(devices)
    return np.maximum(1.0 + known.value * normal, LEAST_PACE)
