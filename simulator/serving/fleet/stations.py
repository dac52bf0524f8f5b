"""Stations before and after the model: servers with one queue, first come first served (G/G/c).

A request is given to the server that is free first, when it comes, so that a station is a heap of times. Stations of
unlimited servers are delays. Model: docs/models/fleets.md.
"""

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heapreplace
from typing import Any

import numpy as np

from simulator.engine.agenda import Agenda
from simulator.random import stream
from simulator.specs.distributions import sample
from simulator.specs.fleet import Station
from simulator.units import TICKS_PER_SECOND


class Servers:
    """One station."""

    __slots__ = ("busy", "free", "name", "servers", "ticks", "waited")

    def __init__(self, spec: Station, tokens: Sequence[int], seed: int) -> None:
        """All servers free; `tokens` are those of each request that it works on."""
        self.name, self.servers = spec.name, spec.servers
        seconds = sample(spec.time, stream(seed, f"station {spec.name}"), len(tokens))
        seconds = seconds + spec.per_token * np.asarray(tokens, np.float64)
        self.ticks: list[int] = np.rint(seconds * TICKS_PER_SECOND).astype(np.int64).tolist()
        """Work on each request."""
        self.free = None if spec.servers is None else [0] * spec.servers
        """Heap of when each server is free; None where there are always enough."""
        self.waited = self.busy = 0
        """Ticks that requests waited for a server, and that servers worked."""

    def done(self, request: int, now: int) -> int:
        """When a request that comes now is done."""
        ticks = self.ticks[request]
        self.busy += ticks
        if self.free is None:
            return now + ticks
        start = max(self.free[0], now)
        self.waited += start - now
        heapreplace(self.free, start + ticks)
        return start + ticks


class Line:
    """Stations one after the other."""

    __slots__ = ("_agenda", "_out", "inside", "stations")

    def __init__(self, agenda: Agenda, stations: Sequence[Servers], out: Callable[[int], None]) -> None:
        """Empty; `out` is called with each request that has passed all."""
        self._agenda, self.stations, self._out = agenda, stations, out
        self.inside = 0
        """Requests on their way."""

    def enter(self, request: int) -> None:
        """A request comes to the first station."""
        self.inside += 1
        self._next(0, request)

    def _next(self, place: int, request: int, _: Any = None) -> None:
        if place == len(self.stations):
            self.inside -= 1
            self._out(request)
            return
        done = self.stations[place].done(request, self._agenda.now)
        self._agenda.at(done, partial(self._next, place + 1, request))
