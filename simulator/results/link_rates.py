"""Bytes per second of a link over the step, from what its traffic was sent by and when these operations ran.

The bytes that a kind of operation puts on the link are spread evenly over the time in which the devices that use the
link run such operations: a pass carries its tensor-parallel traffic all along. The integral over the step is exactly
`LinkLoad.bytes`.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import LinkLoad, Spans

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ALSO = {"backward": ("backward", "input gradient")}  # where a schedule splits its backward passes


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """A step function: `rate[i]` bytes per second from `time[i]` picoseconds on; the last rate is 0."""

    time: Ints
    rate: Floats

    def at(self, moment: int) -> float:
        """Bytes per second from that moment on."""
        place = int(np.searchsorted(self.time, moment, side="right")) - 1
        return float(self.rate[place]) if place >= 0 else 0.0

    @property
    def bytes(self) -> float:
        """The integral."""
        return float((self.rate[:-1] * np.diff(self.time)).sum() / 1e12)

    def at_most(self, steps: int) -> "Rates":
        """The highest rate of each of no more than `steps` equal steps, where there are more: no peak is lost."""
        if len(self.time) <= steps + 1:
            return self
        edges = np.unique(np.linspace(self.time[0], self.time[-1], steps + 1).astype(np.int64))
        # A step holds the rate that it begins with and every change within it.
        first = np.searchsorted(self.time, edges[:-1], side="right") - 1
        last = np.searchsorted(self.time, edges[1:], side="left")
        highest = [float(self.rate[a:b].max()) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        return Rates(edges, np.append(highest, 0.0))


def peak(spans: Spans, load: LinkLoad) -> tuple[float, tuple[str, ...]]:
    """The most bytes per second that the link carries at any moment, and the operations that send them then."""
    rates = over_time(spans, load)
    if not len(rates.time):
        return 0.0, ()
    place = int(np.argmax(rates.rate))
    moment = rates.time[place]
    alone = {
        name: over_time(spans, replace(load, by_operation={name: size})) for name, size in load.by_operation.items()
    }
    return float(rates.rate[place]), tuple(name for name, own in alone.items() if own.at(moment) > 0)


def over_time(spans: Spans, load: LinkLoad) -> Rates:
    """Load of the busiest link of a kind over the step."""
    device = np.array([index for index, _ in spans.lanes], np.int64)[spans.lane]
    mine = np.isin(device, load.users) if load.users else np.ones(len(device), np.bool_)
    end = int(spans.end.max(initial=0))
    begins, ends, rates = [], [], []
    for name, size in load.by_operation.items():
        chosen = _senders(spans, name, mine)
        start, stop = spans.start[chosen], spans.end[chosen]
        if not (stop - start).sum():
            start, stop = np.zeros(1, np.int64), np.array([end])
        begins.append(start)
        ends.append(stop)
        rates.append(np.full(len(start), size * 1e12 / max(float((stop - start).sum()), 1.0)))
    return _summed(begins, ends, rates)


def _senders(spans: Spans, name: str, mine: NDArray[np.bool_]) -> Ints:
    """Operations of that name of the devices that use the link, of any device where they have none."""
    codes = [code for code, known in enumerate(spans.names) if known in _ALSO.get(name, (name,))]
    named = np.isin(spans.name, codes) & (spans.end > spans.start)
    own = np.flatnonzero(named & mine)
    return own if len(own) else np.flatnonzero(named)


def _summed(begins: list[Ints], ends: list[Ints], rates: list[Floats]) -> Rates:
    """The sum of rates over intervals."""
    if not begins:
        return Rates(np.zeros(1, np.int64), np.zeros(1))
    rate = np.concatenate(rates)
    moment, place = np.unique(np.concatenate([*begins, *ends]), return_inverse=True)
    change = np.bincount(place.reshape(-1), np.concatenate([rate, -rate]), len(moment))
    level = np.cumsum(change)
    level[np.abs(level) < 1e-9 * rate.max(initial=0.0)] = 0.0
    return Rates(moment, np.maximum(level, 0.0))
