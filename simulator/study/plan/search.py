"""The largest load that still meets an objective, by bisection between one that does and one that does not.

The load is doubled or halved from a first guess until both ends are known; then the geometric middle of the two is
tried until they are close. That a larger load is harder is not taken for granted: what was seen to break that rule is
part of what was found.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

FARTHEST = 60
"""Doublings or halvings after which the search for an end is given up."""


class Tried(Protocol):
    """What came of one load."""

    @property
    def rate(self) -> float:
        """The load."""

    @property
    def meets(self) -> bool:
        """Whether the objective was met."""


T = TypeVar("T", bound=Tried)


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Where the largest load lies."""

    best: T | None
    """The largest load below the first miss; None where none was met."""
    miss: T | None
    """The smallest load above it that misses; None where all were met."""
    tried: tuple[T, ...]
    """All that was tried, in rising order of load."""


def largest(
    attempt: Callable[[float], T],
    start: float,
    tolerance: float,
    *,
    reachable: Callable[[], bool] = lambda: True,
    exhausted: Callable[[T], bool] = lambda tried: False,
) -> Found[T]:
    """Search from `start` on until the two ends differ by at most `tolerance` of the lower one.

    `reachable` is asked after a miss at the start whether there is any hope; `exhausted` is asked after each success
    on the way up whether a larger load would still be another one.
    """
    tried: list[T] = []

    def at(rate: float) -> T:
        tried.append(attempt(rate))
        return tried[-1]

    best, miss = _bracket(at, start, reachable, exhausted)
    while best is not None and miss is not None and miss.rate > best.rate * (1 + tolerance):
        middle = at((best.rate * miss.rate) ** 0.5)
        best, miss = (middle, miss) if middle.meets else (best, middle)
    return Found(best, miss, in_order(tried))


def _bracket(
    at: Callable[[float], T], start: float, reachable: Callable[[], bool], exhausted: Callable[[T], bool]
) -> tuple[T | None, T | None]:
    """A success and a miss a factor of two apart, as far as there are both."""
    found = at(start)
    if not found.meets and not reachable():
        return None, found
    best, miss = (found, None) if found.meets else (None, found)
    for _ in range(FARTHEST):
        if best is not None and miss is None and not exhausted(best):
            found = at(best.rate * 2)
        elif best is None and miss is not None:
            found = at(miss.rate / 2)
        else:
            break
        best, miss = (found, miss) if found.meets else (best, found)
    return best, miss


def in_order(tried: Iterable[T]) -> tuple[T, ...]:
    """By load, each once."""
    return tuple(sorted({one.rate: one for one in tried}.values(), key=lambda one: one.rate))


def exceptions(tried: Iterable[T], best: T, miss: T | None) -> tuple[T, ...]:
    """What breaks the rule that a larger load is harder: misses below the best, successes above the miss."""
    above = float("inf") if miss is None else miss.rate
    return tuple(one for one in in_order(tried) if (one.rate > above if one.meets else one.rate < best.rate))
