"""Nano-batches: products, decode attention and collectives of parts of a batch beside each other on one device.

After NanoFlow (arXiv:2408.12757). The rows of an iteration are cut in two nano-batches. Of each, a layer is products up
to attention, decode attention, products up to a sum, the sum, the MLP, its sum. Products (with all other kernels, and
attention of prompts) work on one lane, what reads the cache on a second, collectives on a third; nano-batches take
turns on each. Kernels beside each other divide the multiprocessors: reading and sending take the shares that are given
while they run, products what is left, and each works at the rate that it reaches on its share (`cost.shares`). Alone on
the device a kernel has all of it.

Each nano-batch reads the weights. A few layers are laid out and the others last as long as the last but one of these,
since the layers repeat. Left out: more than two nano-batches for attention; sizes and shares that are searched for each
batch.
"""

from collections import deque
from collections.abc import Sequence
from functools import cache
from math import inf
from typing import NamedTuple

from simulator.cost.shares import PRODUCT, READING, SENDING, rate
from simulator.serving.costs.lanes import COMPUTE, NETWORK, Placed

MEMORY = "memory"
"""Lane of kernels that read the cache."""
LAID_OUT = 5
"""Layers that are laid out."""
ROUNDING = 1e-9
"""Share of an operation that is no work."""


class Shares(NamedTuple):
    """Shares of the multiprocessors beside other kernels."""

    reading: float
    sending: float

    def rates(self, running: tuple[str, ...]) -> dict[str, float]:
        """Rates of what runs on lanes, each over that alone."""
        return _rates(self, running)


@cache
def _rates(shares: Shares, running: tuple[str, ...]) -> dict[str, float]:
    if len(running) == 1:
        return {running[0]: 1.0}
    sending = shares.sending if NETWORK in running else 0.0
    reading = 0.0 if MEMORY not in running else shares.reading if COMPUTE in running else 1.0 - sending
    found = {COMPUTE: rate(PRODUCT, 1.0 - sending - reading), MEMORY: rate(READING, reading)}
    found[NETWORK] = rate(SENDING, sending)
    return {lane: found[lane] for lane in running}


def shared_ends(operations: Sequence[Placed], shares: Shares) -> list[float]:
    """Seconds from the start of the first operation to the end of each where those of several lanes share a device;
    their seconds are those alone."""
    lanes: dict[str, deque[int]] = {}
    for place, operation in enumerate(operations):
        lanes.setdefault(operation.lane, deque()).append(place)
    left, ends = [operation.seconds for operation in operations], [inf] * len(operations)
    now = 0.0
    while any(lanes.values()):
        first = {lane: queue[0] for lane, queue in lanes.items() if queue}
        ready = {lane: one for lane, one in first.items() if all(ends[other] <= now for other in operations[one].after)}
        over = [lane for lane, one in ready.items() if left[one] <= ROUNDING * operations[one].seconds]
        if not over:
            rates = shares.rates(tuple(ready))
            step = min(left[one] / rates[lane] for lane, one in ready.items())
            now += step
            for lane, one in ready.items():
                left[one] -= step * rates[lane]
        for lane in over:
            ends[lanes[lane].popleft()] = now
    return ends


class NanoBatch(NamedTuple):
    """A layer of one part of the batch, in seconds."""

    before: float
    """Kernels up to attention."""
    reading: float
    """Decode attention."""
    behind: float
    """Attention of prompts and kernels up to the first collective."""
    collective: float
    rest: tuple[tuple[float, float], ...] = ()
    """(kernels, collective) of what follows."""

    @property
    def serial(self) -> float:
        """One after the other."""
        return self.before + self.reading + self.behind + self.collective + sum(map(sum, self.rest))


def layers(parts: Sequence[NanoBatch], count: int) -> list[Placed]:
    """So many layers of nano-batches that take turns on the lanes."""
    found: list[Placed] = []
    last: list[tuple[int, ...]] = [() for _ in parts]

    def put(part: int, lane: str, seconds: float) -> None:
        found.append(Placed(lane, seconds, last[part]))
        last[part] = (len(found) - 1,)

    for _ in range(count):
        for part, nano in enumerate(parts):
            put(part, COMPUTE, nano.before)
            put(part, MEMORY, nano.reading)
        for part, nano in enumerate(parts):
            put(part, COMPUTE, nano.behind)
            put(part, NETWORK, nano.collective)
        for stretch in range(len(parts[0].rest)):
            for part, nano in enumerate(parts):
                kernels, collective = nano.rest[stretch]
                put(part, COMPUTE, kernels)
                put(part, NETWORK, collective)
    return found


def laid_out(parts: Sequence[NanoBatch], count: int, shares: Shares) -> float:
    """Seconds of so many layers of nano-batches beside each other."""
    laid = min(count, LAID_OUT)
    ends = shared_ends(layers(parts, laid), shares)
    each = len(ends) // laid
    by_layer = [max(ends[start : start + each]) for start in range(0, len(ends), each)]
    repeated = by_layer[-2] - by_layer[-3] if count > laid else 0.0
    return max(by_layer) + (count - laid) * repeated
