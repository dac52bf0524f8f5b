"""The one kind of SimPy event that the engine makes for itself."""

from collections.abc import Callable
from typing import Any

from simpy import Environment, events


class Event(events.Event):
    """Like a `simpy.Timeout`, but scheduled later than it is made, so that processes may wait for it before."""

    _ok = True
    _value = None

    def __init__(self, env: Environment, *actions: Callable[[Any], None]) -> None:
        """Call the actions with the event when it comes."""
        self.env = env
        self.callbacks = list(actions)

    def after(self, delay: int) -> None:
        """Let it come `delay` ticks from now."""
        self.env.schedule(self, events.NORMAL, delay)
