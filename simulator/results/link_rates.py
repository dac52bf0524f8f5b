"""Bytes per second of a link over the step, from what its traffic was sent by and when these operations ran.

The bytes that a kind of operation puts on the link are spread evenly over the time in which the devices that use the
link run such operations: a pass carries its tensor-parallel traffic all along. The integral over the step is exactly
`LinkLoad.bytes`. Where operations shared the link, what each got of it is known (`LinkLoad.rates`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import LinkLoad, Spans

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ALSO = {
    "backward": ("backward", "input gradient"),  # where a schedule splits its backward passes
    "offload": ("forward",),  # copies of what passes keep on the host run beside them
    "fetch offloaded": ("backward", "input gradient"),
}

_COPIED = ("offload", "fetch offloaded")
_COPY = "copy"
"""Lane of the copies in passes that are cut into parts."""


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """A step function: `rate[i]` bytes per second from `time[i]` picoseconds on; the last rate is 0."""

    time: Ints
    rate: Floats

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


@dataclass(frozen=True, slots=True, eq=False)
class _Sending:
    """The operations of one name on a link."""

    name: str
    start: Ints
    """When they start, in order."""
    stop: Ints
    """When they end, in order."""
    rate: float
    """Bytes per second of each."""

    def at(self, moment: Ints) -> Floats:
        """Bytes per second of all of them from each of those moments on."""
        running = np.searchsorted(self.start, moment, side="right") - np.searchsorted(self.stop, moment, side="right")
        rate: Floats = running.astype(np.float64) * self.rate
        return rate


def peak(spans: Spans, load: LinkLoad) -> tuple[float, tuple[str, ...]]:
    """The most bytes per second that the link carries at any moment, and the operations that send them then."""
    senders = _sending(spans, load)
    rates = _summed(senders)
    place = int(np.argmax(rates.rate))
    moment = rates.time[place : place + 1]
    return float(rates.rate[place]), tuple(sender.name for sender in senders if sender.at(moment)[0] > 0)


def over_time(spans: Spans, load: LinkLoad) -> Rates:
    """Load of the busiest link of a kind over the step: as it was shared, else as its bytes are spread."""
    if load.rates:
        time, rate = zip(*load.rates, strict=True)
        return Rates(np.array(time, np.int64), np.array(rate))
    return _summed(_sending(spans, load))


def _sending(spans: Spans, load: LinkLoad) -> list[_Sending]:
    """What sends over a link, by name of the operation."""
    uses = np.array([index in load.users or not load.users for index, _ in spans.lanes], np.bool_)
    mine, end, found = np.flatnonzero(uses[spans.lane]), int(spans.end.max(initial=0)), []
    for name, size in load.by_operation.items():
        chosen = _senders(spans, name, mine)
        start, stop = np.sort(spans.start[chosen]), np.sort(spans.end[chosen])
        taken = float((stop - start).sum())
        if not taken:
            start, stop, taken = np.zeros(1, np.int64), np.array([end]), float(end)
        found.append(_Sending(name, start, stop, size * 1e12 / max(taken, 1.0)))
    return found


def _senders(spans: Spans, name: str, mine: Ints) -> Ints:
    """Operations of that name among `mine`, those of the devices that use the link; of any device if none is."""
    codes = [code for code, known in enumerate(spans.names) if known in _ALSO.get(name, (name,))]
    named = np.isin(np.arange(len(spans.names)), codes)
    own = mine[named[spans.name[mine]]]
    own = own[spans.end[own] > spans.start[own]]
    own = _copying(spans, own) if name in _COPIED else own
    return own if len(own) else np.flatnonzero(named[spans.name] & (spans.end > spans.start))


def _copying(spans: Spans, passes: Ints) -> Ints:
    """Of operations of passes those that copy: parts on a lane of their own where a pass is cut, else the pass."""
    device = np.array([index for index, _ in spans.lanes], np.int64)[spans.lane[passes]]
    copies = np.array([lane == _COPY for _, lane in spans.lanes], np.bool_)[spans.lane[passes]]
    keys = np.stack([device, spans.name[passes], spans.stage[passes], spans.microbatch[passes]])
    number = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
    return passes[copies | ~np.isin(number, number[copies])]


def _summed(senders: list[_Sending]) -> Rates:
    """The rates of all together."""
    if not senders:
        return Rates(np.zeros(1, np.int64), np.zeros(1))
    moment = np.sort(np.concatenate([times for sender in senders for times in (sender.start, sender.stop)]))
    # Sorting and comparing is several times as fast as `np.unique`.
    moment = moment[np.diff(moment, prepend=moment[0] - 1) > 0]
    total: Floats = np.sum([sender.at(moment) for sender in senders], axis=0)
    return Rates(moment, total)
