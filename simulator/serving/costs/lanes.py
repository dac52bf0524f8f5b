"""Operations on the lanes of a device: each lane works in order, and an operation waits for those that it names."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

COMPUTE, NETWORK = "compute", "network"
"""Lanes: kernels, and collectives."""


class Placed(NamedTuple):
    """An operation on a lane."""

    lane: str
    seconds: float
    after: tuple[int, ...] = ()
    """Places of earlier operations that must have ended."""


def makespan(operations: Iterable[Placed]) -> float:
    """Seconds from the start of the first to the end of the last; each begins as soon as its lane and those that it
    waits for are done."""
    free: dict[str, float] = {}
    ends: list[float] = []
    for lane, seconds, after in operations:
        start = max((ends[place] for place in after), default=0.0)
        end = max(start, free.get(lane, 0.0)) + seconds
        free[lane] = end
        ends.append(end)
    return max(ends, default=0.0)


class Segment(NamedTuple):
    """Kernels of a layer up to a collective, and this."""

    kernels: float
    """Seconds."""
    collective: float
    """Seconds; 0 where none follows."""

    @property
    def serial(self) -> float:
        """Seconds one after the other."""
        return self.kernels + self.collective


def one_late(segments: Iterable[Segment]) -> Iterator[Placed]:
    """Each collective beside the kernels of the next segment, which read the stream without its result
    (Ladder-residual, arXiv:2501.06589); the last one is waited for."""
    for i, segment in enumerate(segments):
        before = (2 * i - 3,) if i > 1 else ()  # the collective two segments before: that of the last one is under way
        yield Placed(COMPUTE, segment.kernels, before)
        yield Placed(NETWORK, segment.collective, (2 * i,))


def in_turns(halves: Iterable[tuple[Segment, Segment]]) -> Iterator[Placed]:
    """Two halves of a batch by turns: the collectives of each beside the kernels of the other."""
    for i, pair in enumerate(halves):
        for half, segment in enumerate(pair):
            own = 4 * i + 2 * half
            yield Placed(COMPUTE, segment.kernels, (own - 3,) if i else ())
            yield Placed(NETWORK, segment.collective, (own,))


def sent_in_steps(product: float, collective: float, steps: int) -> Iterator[Placed]:
    """A product in so many parts, each of which is sent beside the next; of the last one nothing is sent, as it is this
    device's own."""
    for step in range(steps):
        yield Placed(COMPUTE, product / steps)
        if step < steps - 1:
            yield Placed(NETWORK, collective / (steps - 1), (2 * step,))


def taken_in_steps(product: float, collective: float, steps: int) -> Iterator[Placed]:
    """A product in so many parts, the first of which is this device's own; each other one arrives beside the parts
    before it."""
    yield Placed(COMPUTE, product / steps)
    for step in range(1, steps):
        yield Placed(NETWORK, collective / (steps - 1))
        yield Placed(COMPUTE, product / steps, (2 * step - 1,))
