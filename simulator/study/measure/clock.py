"""The time of a call: the median of samples that are long enough for the clock, after a warm-up."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Protocol

FEWEST, MOST = 3, 50
"""Samples of a case."""
SAMPLE_S = 1e-3
"""Least length of a sample; shorter calls are repeated within one."""
MOST_CALLS = 10_000


class Clock(Protocol):
    """What tells how long calls take."""

    def lasts(self, calls: Callable[[], None]) -> float:
        """Seconds of some calls, from when the device has nothing to do until it has done them."""

    def now(self) -> float:
        """Seconds since some moment."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What a case took."""

    seconds: float
    """Median of the samples, of one call."""
    spread: float
    """Half of the span of the middle half of the samples, over the median."""
    samples: int
    calls: int
    """Within a sample."""


def timed(call: Callable[[], object], clock: Clock, budget_s: float) -> Timing:
    """Time a call for about `budget_s` seconds; at least `FEWEST` samples after one call to warm up."""
    begin = clock.now()
    clock.lasts(lambda: _times(call, 1))
    once = max(clock.lasts(lambda: _times(call, 1)), 1e-9)
    calls = min(max(round(SAMPLE_S / once), 1), MOST_CALLS)
    found: list[float] = []
    while len(found) < FEWEST or (len(found) < MOST and clock.now() - begin < budget_s):
        found.append(clock.lasts(lambda: _times(call, calls)) / calls)
    ordered, middle = sorted(found), median(found)
    quarter = len(ordered) // 4
    span = ordered[-1 - quarter] - ordered[quarter]
    return Timing(middle, 0.5 * span / middle if middle else 0.0, len(found), calls)


def _times(call: Callable[[], object], count: int) -> None:
    for _ in range(count):
        call()
