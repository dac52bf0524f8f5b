"""What the engine puts into SimPy's queue: events on which lanes wait, and appointments that only make a call."""

from collections.abc import Callable
from heapq import heappush
from typing import Any

from simpy import Environment, events

Call = Callable[[Any], None]
"""A call at a moment; the moment is its argument, so that an old appointment can be recognised."""


class Event(events.Event):
    """Like a `simpy.Timeout`, but scheduled later than it is made, so that lanes may wait for it before."""

    _ok = True
    _value = None

    def __init__(self, env: Environment) -> None:
        """Not scheduled yet."""
        self.env = env
        self.callbacks: list[Callable[[Any], None]] = []

    def after(self, delay: int) -> None:
        """Let it come `delay` ticks from now."""
        env = self.env
        heappush(env._queue, (env._now + delay, events.NORMAL, next(env._eid), self))


class Appointment:
    """An entry of SimPy's queue: less than an event, as nothing waits for it."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        """To be kept."""
        self.call = call
