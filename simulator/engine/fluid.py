"""Activities that share resources: first a latency, then work at the speed that a max-min solver grants.

While an activity runs at speed s it does s ticks of its work per tick. Speeds change only when an activity joins or
leaves a resource that is asked for more than it has; then only the activities connected through such resources are
solved again, once per instant. Work left is an integer as long as the speed is 1, so that an activity that never has
to share lasts exactly latency + work ticks; shared, it ends at the nearest tick.

Left out: rates that vary while an activity runs, and activities that need one resource after another. See
docs/decisions/0003-fluid-sharing.md.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from simpy import Environment

from simulator.engine.event import Event
from simulator.engine.tape import NEVER, Activity

Solver = Callable[[list[int], list[int], list[float], list[float], list[float]], Sequence[float] | NDArray[np.float64]]
"""(uses_activity, uses_resource, uses_rate, uses_flows, capacity) -> speed of each activity in [0, 1].

Row i of the first four says that an activity takes `rate` units per tick of a resource at full speed and counts as
`flows` flows there; indices count from 0 within the component that is solved. Must be a pure function.
"""

SLACK = 1e-9
"""Relative excess over a capacity that is rounding, not contention."""
REMEMBERED = 4096
"""Components whose speeds are kept."""
ENDED = -1
"""End of an activity that has ended."""


class Running:
    """An activity whose work is under way."""

    __slots__ = ("end", "finished", "left", "number", "since", "speed", "timer")

    def __init__(self, number: int, work: int, now: int, finished: Callable[[], None]) -> None:
        """Start with all the work left."""
        self.number = number
        """Which activity it is a copy of."""
        self.finished = finished
        """To be called at the end."""
        self.left: int | float = work
        """Ticks of work at full speed that were left at `since`."""
        self.since = now
        self.speed: float = 0.0
        self.end = NEVER
        """The tick at which it ends at the present speed, NEVER if it stands still."""
        self.timer: Timer | None = None
        """What will end it; older timers are void."""

    def proceed(self, now: int, speed: float) -> None:
        """Book the work done so far and go on at another speed."""
        elapsed = now - self.since
        if elapsed:
            self.left -= elapsed if self.speed == 1.0 else self.speed * elapsed
            self.since = now
        self.speed = speed
        if speed == 1.0:
            self.end = now + max(0, round(self.left))
        else:
            self.end = now + max(0, round(self.left / speed)) if speed > 0 else NEVER


class Timer(Event):
    """Ends the activities of a component that are due first."""

    component: list[Running]


class Joining(Event):
    """The end of a latency."""

    number: int
    finished: Callable[[], None]


class Fluid:
    """Resources, what runs on them, and how fast."""

    def __init__(
        self, env: Environment, activities: tuple[Activity, ...], capacity: NDArray[np.float64], solver: Solver | None
    ) -> None:
        """Start idle; `capacity` counts units per tick."""
        self.env = env
        self.activities = activities
        self.capacity: list[float] = capacity.tolist()
        self.most = [limit * (1 + SLACK) for limit in self.capacity]
        self.solver = solver
        self.users: list[dict[Running, float]] = [{} for _ in self.capacity]
        """What runs on each resource, with the rate that it asks for."""
        self.asked = [0.0] * len(self.capacity)
        """Rate that is asked of each resource."""
        self.dirty: dict[Running, None] = {}
        """What must be solved before time goes on."""
        self.known: dict[tuple[int, ...], Sequence[float]] = {}
        """Speeds of components by the activities in them."""
        self.events = 0

    def start(self, number: int, finished: Callable[[], None]) -> None:
        """Begin an activity now; `finished` is called when it has done its work."""
        latency = self.activities[number].latency
        if not latency:
            self._join(number, finished)
            return
        joining = Joining(self.env, self._joined)
        joining.number, joining.finished = number, finished
        joining.after(latency)
        self.events += 1

    def _joined(self, joining: Joining) -> None:
        """A latency is over."""
        self._join(joining.number, joining.finished)

    def _join(self, number: int, finished: Callable[[], None]) -> None:
        """Start to work."""
        activity = self.activities[number]
        if not activity.work:
            finished()
            return
        running = Running(number, activity.work, int(self.env.now), finished)
        scarce = False
        for resource, rate, _ in activity.uses:
            users = self.users[resource]
            users[running] = users.get(running, 0.0) + rate
            self.asked[resource] += rate
            scarce = scarce or self.asked[resource] > self.most[resource]
        if scarce:
            self._settle_later(running)
        else:
            running.proceed(running.since, 1.0)
            self._watch([running])

    def _leave(self, running: Running) -> None:
        """Take an activity off its resources; those that it may have slowed must be solved again."""
        for resource, _, _ in self.activities[running.number].uses:
            users = self.users[resource]
            if running not in users:  # the activity names the resource twice
                continue
            scarce = self.asked[resource] > self.most[resource]
            self.asked[resource] -= users.pop(running)
            if not users:
                self.asked[resource] = 0.0  # so that rounding does not pile up
            elif scarce:
                for user in users:
                    self._settle_later(user)

    def _settle_later(self, running: Running) -> None:
        """Solve it at the end of this instant, when all that happens in it has happened."""
        if not self.dirty:
            Event(self.env, self._settle).after(0)
            self.events += 1
        self.dirty[running] = None

    def _settle(self, _: Event) -> None:
        """Solve every component that changed."""
        dirty, self.dirty = self.dirty, {}
        seen: set[Running] = set()
        for running in dirty:
            if running not in seen and running.end >= 0:
                component = self._component(running)
                seen.update(component)
                self._solve(component)

    def _component(self, running: Running) -> list[Running]:
        """All activities connected with one through scarce resources, in the order of discovery."""
        found, visited = {running}, set()
        queue = [running]
        for member in queue:
            for resource, _, _ in self.activities[member.number].uses:
                if resource not in visited and self.asked[resource] > self.most[resource]:
                    visited.add(resource)
                    fresh = [user for user in self.users[resource] if user not in found]
                    found.update(fresh)
                    queue += fresh
        return queue

    def _solve(self, component: list[Running]) -> None:
        """Give each activity of a component its fair speed, and set a timer for the first to end."""
        now = int(self.env.now)
        for member, speed in zip(component, self._speeds(component), strict=True):
            member.proceed(now, speed)
        self._watch(component)

    def _speeds(self, component: list[Running]) -> Sequence[float]:
        """Ask the solver, or remember what it said; which resources are scarce follows from who is connected."""
        if len(component) == 1:
            return (1.0,)
        key = tuple([member.number for member in component])
        speeds = self.known.get(key)
        if speeds is None:
            if len(self.known) >= REMEMBERED:
                self.known.clear()
            speeds = self.known[key] = self._ask(key)
        return speeds

    def _ask(self, numbers: tuple[int, ...]) -> Sequence[float]:
        """Put the scarce resources of a component and their users into numbers, and call the solver."""
        places: dict[int, int] = {}
        rows = [
            (i, places.setdefault(use.resource, len(places)), use.rate, use.flows)
            for i, number in enumerate(numbers)
            for use in self.activities[number].uses
            if self.asked[use.resource] > self.most[use.resource]
        ]
        if not rows or self.solver is None:
            return [1.0] * len(numbers)
        users, resources, rates, flows = (list(column) for column in zip(*rows, strict=True))
        limits = [self.capacity[resource] for resource in places]
        return [float(speed) for speed in self.solver(users, resources, rates, flows, limits)]

    def _watch(self, component: list[Running]) -> None:
        """Set one timer for the activities of a component that end first."""
        timer = Timer(self.env, self._ring)
        timer.component = component
        end = NEVER
        for running in component:
            running.timer = timer
            if running.end < end:
                end = running.end
        if end < NEVER:
            timer.after(end - int(self.env.now))
            self.events += 1

    def _ring(self, timer: Timer) -> None:
        """End what is due of a component, and solve what is left of it; void if it was solved again since."""
        now = int(self.env.now)
        left = []
        for running in timer.component:
            if running.timer is timer:
                if running.end <= now:
                    running.end = ENDED
                    running.finished()  # before the settling, so that what follows at once is settled with the rest
                    self._leave(running)
                else:
                    left.append(running)
        for running in left:
            self._settle_later(running)
