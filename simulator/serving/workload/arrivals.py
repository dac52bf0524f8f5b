"""When requests come: Poisson, gamma, constant and changing rates, users that wait, or the times of a trace.

Times are seconds from the start of the run. Poisson and gamma processes start there: the first request comes after
the first gap. With a constant rate the first comes at 0.
"""

import numpy as np

from simulator import units
from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.specs.distributions import Floats, Integers, sample
from simulator.specs.requests import Arrivals, ClosedLoop, Gamma, RateStep
from simulator.units import TICKS_PER_SECOND

LONGEST = 9e6
"""Seconds (104 days) up to which times fit into 64 bits of picoseconds."""


def times(arrivals: Arrivals, count: int, seed: int) -> Floats:
    """Seconds at which `count` requests of an open loop come, rising; all at 0 where no process is given."""
    random = stream(seed, "arrivals")
    if arrivals.poisson is not None:
        return poisson(arrivals.poisson, random, count)
    if arrivals.gamma is not None:
        return gamma(arrivals.gamma, random, count)
    if arrivals.constant is not None:
        return np.arange(count) / arrivals.constant
    if arrivals.varying is not None:
        return varying(arrivals.varying, random, count)
    return np.zeros(count)


def poisson(rate: float, random: np.random.Generator, count: int) -> Floats:
    """Gaps of mean 1 / rate, exponential."""
    moments: Floats = np.cumsum(random.standard_exponential(count)) / rate
    return moments


def due(rate: float, count: int, seed: int) -> Integers:
    """Picoseconds at which requests of a closed loop fall due."""
    return ticks(poisson(rate, stream(seed, "arrivals"), count), "requests.arrivals.closed_loop.rate")


def gamma(process: Gamma, random: np.random.Generator, count: int) -> Floats:
    """Gaps of shape `burstiness` and mean 1 / rate, as `vllm bench serve --burstiness` draws them."""
    gaps: Floats = random.standard_gamma(process.burstiness, count) / (process.rate * process.burstiness)
    return gaps.cumsum()


def varying(steps: tuple[RateStep, ...], random: np.random.Generator, count: int) -> Floats:
    """A Poisson process whose rate changes: unit arrivals mapped back through the integral of the rate.

    The steps repeat. Source: time-change theorem, e.g. Cinlar, Introduction to Stochastic Processes (1975), ch. 4.7.
    """
    clock = np.concatenate(([0.0], np.cumsum([step.duration for step in steps])))
    expected = np.concatenate(([0.0], np.cumsum([step.duration * step.rate for step in steps])))
    rounds, rest = np.divmod(np.cumsum(random.standard_exponential(count)), expected[-1])
    moments: Floats = rounds * clock[-1] + np.interp(rest, expected, clock)
    return moments


def thinking(loop: ClosedLoop, count: int, seed: int) -> Floats:
    """Seconds that each of `count` requests of a closed loop is thought about before it is asked."""
    return np.zeros(count) if loop.think is None else sample(loop.think, stream(seed, "think"), count)


def ticks(seconds: Floats, path: str) -> Integers:
    """Seconds to picoseconds by the rule of `units.to_ticks`; InputError where they do not fit the clock."""
    if not np.all(seconds <= LONGEST):
        last = units.plain(float(np.max(seconds)))
        problem = f"times reach {last} s, and the clock holds {units.plain(LONGEST)} s (104 days)"
        raise InputError(Problem(problem, path=path, hint="ask for fewer requests, a higher rate or a larger `speed`"))
    return np.rint(seconds * TICKS_PER_SECOND).astype(np.int64)
