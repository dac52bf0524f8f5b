"""One thread of the host that launches the kernels of pieces on the stages they pass, and how far ahead of them it is.

A stage's queue holds so many launches, and the thread waits at a full one while later stages have nothing to do. It
waits as well until the piece is through a stage that was there `ahead` pieces before, whose inputs it writes over. How
much pieces of a prompt gain by following each other is decided by this: kernels of a piece on a stage, beside the
places in the queue.

Left out: time to launch a kernel, which iterations that are bound by it have in their own time; kernels of unequal
length (a piece's are taken to follow each other evenly).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Passed(NamedTuple):
    """A piece on a stage."""

    last: int
    """Number of its last kernel, counted from the first piece on."""
    kernels: int
    begin: int
    end: int

    def done(self, number: int) -> int:
        """When the kernel of a number is done; its own or one of those before."""
        return self.end - (self.last - number) * (self.end - self.begin) // self.kernels


@dataclass(slots=True)
class HostThread:
    """The thread, and what it has launched."""

    kernels: Sequence[int]
    """Of a piece on each stage."""
    places: int
    """Launches that a stage's queue holds."""
    ahead: int
    """Pieces of which the inputs are kept."""
    free: int = 0
    """When the thread can begin with the next piece."""
    launched: list[int] = field(init=False)
    passed: list[deque[Passed]] = field(init=False)

    def __post_init__(self) -> None:
        self.launched = [0] * len(self.kernels)
        self.passed = [
            deque(maxlen=max(self.ahead, -(-self.places // max(min(self.kernels), 1)) + 1)) for _ in self.kernels
        ]

    @property
    def roomy(self) -> bool:
        """Whether the queue of every stage holds all launches of a piece."""
        return max(self.kernels) <= self.places

    def begin(self, now: int) -> int:
        """When the thread comes to a piece that is there now."""
        return max(self.free, now)

    def stage(self, stage: int, host: int, ready: int, ticks: int) -> tuple[int, int]:
        """(when the thread has launched a piece on a stage, when that is through); it comes to it at `host`, what it
        needs is there when it is `ready`, and it takes so many ticks."""
        passed, kernels, before = self.passed[stage], self.kernels[stage], self.launched[stage]
        if len(passed) >= self.ahead:
            host = max(host, passed[-self.ahead].end)
        host = max(host, self._done(stage, before + 1 - self.places))
        begin = max(ready, host)
        passed.append(Passed(before + kernels, kernels, begin, begin + ticks))
        self.launched[stage] = before + kernels
        self.free = max(host, self._done(stage, before + kernels - self.places))
        return self.free, begin + ticks

    def _done(self, stage: int, number: int) -> int:
        """When a kernel is done; 0 of those that are long done."""
        for one in self.passed[stage]:
            if number <= one.last:
                return one.done(number) if one.last - one.kernels < number else 0
        return 0
