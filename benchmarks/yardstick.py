"""How fast a machine is at what the simulator does: a fixed work of Python and numpy, with no part of the simulator.

Seconds say nothing without the machine, and a shared machine is not the same from one minute to the next. The speed
table times this beside each line and scales the line to the reference: a machine on which it takes `REFERENCE_S`.

The reference is the machine for which the targets were set. There the GPT-1T step of commit 9105c80a took 1.07 CPU s.
On a machine that has both, the step and the yardstick were timed in turn, twelve times each, with bytecode kept
(CPython 3.11, 24 November 2026): `STEP_HERE_S` and `YARDSTICK_HERE_S` are the best of each; over the twelve the step
took 11.5 to 13.8 yardsticks, 12.1 in the median. What the yardstick takes on the reference follows, as both grow alike
where a machine is slower.
"""

from heapq import heappop, heappush
from time import process_time

import numpy as np

STEP_REFERENCE_S = 1.07
"""CPU seconds of the GPT-1T step of 9105c80a on the reference."""
STEP_HERE_S = 1.07
"""The same where the yardstick was made."""
YARDSTICK_HERE_S = 0.092
"""CPU seconds of the yardstick in the same minutes."""
REFERENCE_S = YARDSTICK_HERE_S * STEP_REFERENCE_S / STEP_HERE_S
"""CPU seconds of the yardstick on the reference."""


class Lane:
    """Something that does one thing after the other, as the lanes of a device do."""

    __slots__ = ("busy", "done", "step")

    def __init__(self, step: int) -> None:
        """Idle; each thing takes so many ticks."""
        self.step, self.busy, self.done = step, 0, 0

    def run(self, now: int) -> int:
        """Do the next thing; when it ends."""
        self.busy += self.step
        self.done += 1
        return now + self.step


def events(count: int) -> int:
    """Events in the order of time on 64 lanes; when the last one ends."""
    lanes = [Lane(997 + 13 * i) for i in range(64)]
    queue = [(lane.step, i) for i, lane in enumerate(lanes)]
    seen: dict[int, int] = {}
    now = 0
    for _ in range(count):
        now, number = heappop(queue)
        heappush(queue, (lanes[number].run(now), number))
        seen[now & 1023] = seen.get(now & 1023, 0) + number
    return now + sum(seen.values())


def arrays(count: int) -> float:
    """Operations on small arrays and on one that is not."""
    small, total = np.arange(64, dtype=np.float64), 0.0
    for i in range(count):
        total += float(np.maximum(small, i % 64).cumsum()[-1])
    large = (np.arange(200_000, dtype=np.int64) * 7919) % 200_003
    order = np.argsort(large, kind="stable")
    return total + float(large[order][::1000].sum())


def classes(count: int) -> int:
    """Text that becomes code, as modules and classes of data do when a program starts."""
    found: dict[str, int] = {}
    for i in range(count):
        exec(f"def f{i}(a, b={i}):\n  c = a + b\n  return [c, a, b]", found)
    return len(found)


def work() -> tuple[int, float, int]:
    """All of it once; what it gives is always the same."""
    return events(100_000), arrays(5_000), classes(500)


def seconds(times: int = 3) -> float:
    """CPU seconds that the work takes now, the best of some."""
    best = float("inf")
    for _ in range(times):
        begin = process_time()
        work()
        best = min(best, process_time() - begin)
    return best


def slowness(taken: float) -> float:
    """How many times slower than the reference a machine is on which the work takes so long."""
    return taken / REFERENCE_S
