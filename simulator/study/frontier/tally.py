"""How many candidates a search has, and where each of them goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from simulator.study.frontier.options import Base, Measured
from simulator.study.frontier.space import Worker, ratios

LEVELS = 10
"""Rates of the first pass."""
LIKELY = 0.9
"""Share of the best tokens per second and user found below which a guess is taken to be right that it is behind."""


@dataclass(frozen=True)
class Settings:
    """How to search."""

    simulations: int = 200
    """Most of them."""
    apart: bool = True
    """Whether prefill and decode pools are tried."""
    together: bool = True
    """Whether replicas that do both are tried."""
    likely: float = LIKELY
    """0: whatever is not ruled out is simulated."""
    levels: int = LEVELS
    """Rates of the first pass."""
    confirm: bool = True
    """Whether a winner whose run is short runs for longer."""


@dataclass
class Counts:
    """Candidates, each in one of the numbers."""

    shape: int = 0
    """The model or the cluster has no such layout."""
    memory: int = 0
    """Weights or the longest request do not fit."""
    objectives: int = 0
    """Even a request alone is too slow."""
    rate: int = 0
    """Cannot carry the lowest rate that was tried."""
    bound: int = 0
    """Not simulated at any rate, for at each the bound is not above what was found."""
    unlikely: int = 0
    """Not simulated, for the guess is far behind at each rate or expects it to miss, though no bound rules it out."""
    simulated: int = 0
    """Simulated at one rate or more."""

    @property
    def all(self) -> int:
        """All candidates."""
        ruled = self.shape + self.memory + self.objectives + self.rate + self.bound
        return ruled + self.unlikely + self.simulated


def tally(measured: Sequence[Measured], devices: int, base: Base, settings: Settings) -> Counts:
    """Candidates that shape and memory rule out; all others are counted under `objectives` for now."""
    counts = Counts()
    limits = sum(size <= chunk for size in base.sequences for chunk in base.chunks)
    for one in measured if settings.together else ():
        _count(counts, {one.refused}, limits * bool(devices // _devices(one)))

    @cache
    def splits(prefill: int, decode: int) -> int:
        first, last = (Worker(size, 1, 1, size, 1, 1, 1) for size in (prefill, decode))
        return sum(1 for _ in ratios(first, last, devices))

    for prefill in measured if settings.apart else ():
        for decode in measured:
            number = len(base.chunks) * len(base.sequences) * splits(_devices(prefill), _devices(decode))
            _count(counts, {prefill.refused, decode.refused}, number)
    return counts


def _count(counts: Counts, refused: set[str], number: int) -> None:
    if "shape" in refused:
        counts.shape += number
    elif "memory" in refused:
        counts.memory += number
    else:
        counts.objectives += number


def _devices(one: Measured) -> int:
    tp, dp, pp, *_ = one.mesh
    return tp * dp * pp
