"""Weights that pass through a replica in every iteration, on links that caches and adapters travel on too.

Alone on its links an iteration lasts the longer of computing and loading, in closed form (`costs.streaming`). Beside
tiers of the cache, swapped sequences or adapters its loads are an activity: it begins with the iteration, shares the
link and the drives with whatever moves there, and the iteration ends when both have. A sequence that comes back from
the host travels on the same link, and the iteration computes after it.

Left out: that loads run ahead of the iteration in the places of the window, which would hide some of what others take.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from simulator.engine.agenda import Running
from simulator.engine.tape import Activity
from simulator.serving.tiers.path import Path

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch


class WeightLoads:
    """The loads of a replica of one batch and one stage."""

    __slots__ = ("_left", "_running", "_turn", "_waits", "batch", "inbound", "load", "way")

    def __init__(self, batch: "Batch", load: Activity, way: Path) -> None:
        """Nothing moves. `load` is what an iteration loads, `way` the link from the host to the devices."""
        self.batch, self.load, self.way = batch, load, way
        self.inbound = 0
        """Ticks that sequences which come back from the host with the next iteration take alone."""
        self._left = 0
        """What the present iteration still needs beside its own time."""
        self._waits = False
        """Whether its own time is over."""
        self._turn = 0
        """Number of the present iteration."""
        self._running: set[Running] = set()

    def begin(self, computing: int) -> None:
        """An iteration begins that takes so many ticks without its loads, those of returning sequences among them."""
        self._turn += 1
        self._left, self._waits = 1, False
        done = partial(self._done, self._turn)
        self._move(self.load, "weights", done)
        inbound, self.inbound = self.inbound, 0
        if inbound:
            self._left += 1
            after, agenda = computing - inbound, self.batch.agenda
            back = self.way.activity(inbound * self.way.rate, latency=False)
            self._move(back, "swapped", lambda: agenda.at(agenda.now + after, lambda _: done()))

    def holds(self) -> bool:
        """The iteration's own time is over: whether it waits for what still moves."""
        self._waits = self._left > 0
        return self._waits

    def drop(self) -> None:
        """The iteration is lost, and what it loads."""
        for running in self._running:
            self.batch.agenda.stop(running)
        self._running.clear()
        self._turn += 1
        self._left, self._waits, self.inbound = 0, False, 0

    def _move(self, activity: Activity, what: str, done: Callable[[], object]) -> None:
        def over() -> None:
            self._running.discard(running)
            done()

        running = self.batch.agenda.start(activity, over, (self.batch.replica.name, what))
        self._running.add(running)

    def _done(self, turn: int) -> None:
        if turn != self._turn:
            return
        self._left -= 1
        if not self._left and self._waits:
            self._waits = False
            self.batch.end_now()
