"""Stations before and after the model: servers with one queue, first come first served (G/G/c).

A request is given to the server that is free first, when it comes, so that a station is a heap of times. Stations of
unlimited servers are delays. Servers that fail stand still and go on after their repair with what they had (preemptive
resume); their failures are drawn ahead, each server's from a stream of its own. Model: docs/models/fleets.md.
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

LONGEST = 1e6
"""Seconds (12 days) that a repair takes at most."""


class Servers:
    """One station."""

    __slots__ = ("busy", "failing", "free", "name", "servers", "ticks", "waited")

    def __init__(self, spec: Station, tokens: Sequence[int], seed: int) -> None:
        """All servers free; `tokens` are those of each request that it works on."""
        self.name, self.servers = spec.name, spec.servers
        seconds = sample(spec.time, stream(seed, f"station {spec.name}"), len(tokens))
        seconds = seconds + spec.per_token * np.asarray(tokens, np.float64)
        self.ticks: list[int] = np.rint(seconds * TICKS_PER_SECOND).astype(np.int64).tolist()
        """Work on each request."""
        self.free = None if spec.servers is None else [0] * spec.servers
        """Heap of when each server is free; None where there are always enough."""
        self.failing = [] if spec.mtbf is None else [Outages(spec, i, seed) for i in range(spec.servers or 0)]
        """When servers are down; empty where none fail."""
        self.waited = self.busy = 0
        """Ticks that requests waited for a server, and that servers worked."""

    def done(self, request: int, now: int) -> int:
        """When a request that comes now is done."""
        ticks = self.ticks[request]
        self.busy += ticks
        if self.free is None:
            return now + ticks
        if self.failing:
            return self._on_failing(ticks, now)
        start = max(self.free[0], now)
        self.waited += start - now
        heapreplace(self.free, start + ticks)
        return start + ticks

    def _on_failing(self, ticks: int, now: int) -> int:
        """The same where servers fail: on the one that can begin first."""
        assert self.free is not None
        begins = [outages.up(max(free, now)) for outages, free in zip(self.failing, self.free, strict=True)]
        server = min(range(len(begins)), key=begins.__getitem__)
        self.waited += begins[server] - now
        end = self.free[server] = self.failing[server].end(begins[server], ticks)
        return end


class Outages:
    """When a server is down: times between failures count while it is up."""

    __slots__ = ("_begin", "_mtbf", "_random", "_repair", "_until")

    def __init__(self, spec: Station, server: int, seed: int) -> None:
        """Up; asked for times that never go back."""
        assert spec.mtbf is not None
        self._mtbf, self._repair = spec.mtbf, spec.repair
        self._random = stream(seed, f"failures of {spec.name} {server}")
        self._begin = self._until = 0
        self._next(0)

    def _next(self, up: int) -> None:
        """The next failure of a server that is up since then."""
        self._begin = up + max(round(float(self._random.exponential(self._mtbf)) * TICKS_PER_SECOND), 1)
        repair = min(float(sample(self._repair, self._random, 1)[0]), LONGEST)
        self._until = self._begin + max(round(repair * TICKS_PER_SECOND), 1)

    def up(self, moment: int) -> int:
        """The first tick from a moment on at which it works."""
        while self._until <= moment:
            self._next(self._until)
        return self._until if self._begin <= moment else moment

    def end(self, start: int, ticks: int) -> int:
        """When work of so many ticks that begins while it is up is done."""
        while self._until <= start:
            self._next(self._until)
        end = start + ticks
        while self._begin < end:
            end += self._until - self._begin
            self._next(self._until)
        return end


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
