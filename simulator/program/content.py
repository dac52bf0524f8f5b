"""What an instruction consists of: kernels, waiting for the host, and calls of collectives that keep their identity.

A `Content` is what runs without a seam: some kernels, a collective, or all of a piece of a pass (`piece`). Times are
ticks of the device alone. Durations, the breakdown, links and reasons read the
same contents, so that nothing has to be guessed back from sums.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

OWN = -1
"""The place of what the group of the instruction's own rank runs."""


class Comm(NamedTuple):
    """A collective that all groups of an axis run alike."""

    operation: str
    """For example `all_reduce`."""
    axis: str
    """Name of the axis of the mesh along which it communicates."""
    size: float
    """Bytes, as nccl-tests count them."""
    among: str
    """Which groups: the name of an axis, or of parts of one."""


class Call(NamedTuple):
    """Runs of one collective inside an instruction."""

    comm: Comm
    runs: int
    exposed: int
    """Ticks of all runs together that no kernel of the instruction hides."""
    place: int = OWN
    """Pipeline rank whose group runs it, the one of the instruction where it is `OWN`; of sends the number of the
    hop."""


@dataclass(frozen=True, slots=True)
class Content:
    """Ticks by what the device does meanwhile."""

    compute: int = 0
    recompute: int = 0
    host: int = 0
    """Waiting for the host's launches."""
    offload: int = 0
    """Waiting for activations on their way to or from the host's memory."""
    stall: int = 0
    """What kernels take longer because something runs beside them."""
    memory: int = 0
    """Of compute and recompute, the ticks of kernels that the memory bounds."""
    latency: int = 0
    """Of compute and recompute, the ticks of kernels that launches and other fixed costs bound."""
    calls: tuple[Call, ...] = ()
    """One for each collective and place."""

    @property
    def kernels(self) -> int:
        """Ticks of kernels."""
        return self.compute + self.recompute

    def bound(self, ticks: Ints) -> list[Ints]:
        """Kernels that last `ticks` (k,) in all, by what bounds them: fixed costs, multiprocessors, memory.

        Cumulated sums are rounded, so that the parts add up; those of more ticks than a float tells apart end there.
        """
        fixed = min(self.latency, self.kernels - min(self.memory, self.kernels))
        ends = np.cumsum(np.array([fixed, self.kernels - self.memory - fixed, self.memory], np.int64))
        scaled = np.minimum(np.rint(ends[:2, None] * (ticks / max(self.kernels, 1))).astype(np.int64), ticks)
        return [scaled[0], scaled[1] - scaled[0], ticks - scaled[1]]

    @property
    def exposed(self) -> int:
        """Ticks of communication that nothing hides."""
        return sum(call.exposed for call in self.calls)

    @property
    def total(self) -> int:
        """Ticks of all of it."""
        return self.compute + self.recompute + self.host + self.offload + self.stall + self.exposed

    def __add__(self, other: "Content") -> "Content":
        return Content(
            self.compute + other.compute,
            self.recompute + other.recompute,
            self.host + other.host,
            self.offload + other.offload,
            self.stall + other.stall,
            self.memory + other.memory,
            self.latency + other.latency,
            merged((*self.calls, *other.calls)) if self.calls and other.calls else self.calls or other.calls,
        )

    def times(self, count: int) -> "Content":
        """The content `count` times in a row."""
        return Content(
            self.compute * count,
            self.recompute * count,
            self.host * count,
            self.offload * count,
            self.stall * count,
            self.memory * count,
            self.latency * count,
            tuple(call._replace(runs=call.runs * count, exposed=call.exposed * count) for call in self.calls),
        )

    def again(self) -> "Content":
        """The same work, counted as recomputation."""
        return replace(self, compute=0, recompute=self.kernels)

    def ticks_at(self, paces: Floats) -> Ints:
        """Ticks when kernels take `paces` (k,) as long; shape (k,)."""
        kernels = np.rint(self.compute * paces) + np.rint(self.recompute * paces)
        return kernels.astype(np.int64) + (self.total - self.kernels)

    def at(self, pace: float) -> "Content":
        """The same on a device whose kernels take `pace` as long; the parts that memory and launches bound stretch
        like the whole."""
        compute, again = (round(ticks * pace) for ticks in (self.compute, self.recompute))
        latency, _, memory = (int(ticks[0]) for ticks in self.bound(np.array([compute + again], np.int64)))
        return replace(self, compute=compute, recompute=again, memory=memory, latency=latency)


def merged(calls: Iterable[Call]) -> tuple[Call, ...]:
    """Calls with those of one collective and place put together, in the order of first appearance."""
    found: dict[tuple[Comm, int], Call] = {}
    for call in calls:
        known = found.get((call.comm, call.place))
        if known is not None:
            call = call._replace(runs=known.runs + call.runs, exposed=known.exposed + call.exposed)
        found[call.comm, call.place] = call
    return tuple(found.values())
