"""Activities that share resources: first a latency, then work at the speed that a max-min solver grants.

While an activity runs at speed s it does s ticks of its work per tick. Speeds change only when an activity joins or
leaves a resource that is asked for more than it has, or when the capacity of a resource changes; then only the
activities connected through such resources are solved again, once per instant. An activity of several phases is on the
resources of one phase at a time.

Left out: rates that vary while a phase runs. See docs/decisions/0003-fluid-sharing.md.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from heapq import heappush
from typing import TYPE_CHECKING, Any

from simpy import Environment
from simpy.events import NORMAL

from simulator.engine.event import Appointment
from simulator.engine.running import ENDED, Joining, Phase, Running, Timer
from simulator.engine.speeds import Solver, Speeds
from simulator.engine.tape import NEVER, Use

if TYPE_CHECKING:
    from simulator.engine.load import Load

SLACK = 1e-9
"""Relative excess over a capacity that is rounding, not contention."""


class Fluid:
    """Resources, what runs on them, and how fast."""

    def __init__(self, env: Environment, solver: Solver | None) -> None:
        """Start without resources."""
        self.env = env
        self.queue: list[tuple[int, int, int, Any]] = env._queue  # type: ignore[assignment]
        self.number = env._eid
        self.capacity: list[float] = []
        """Units per tick of each resource."""
        self.most: list[float] = []
        """The same with the slack."""
        self.names: list[str] = []
        """What messages call each resource."""
        self.users: list[dict[Running, float]] = []
        """What runs on each resource, with the rate that it asks for."""
        self.asked: list[float] = []
        """Sum of the rates that users want of each resource."""
        self.dirty: dict[Running, object] = {}
        """What must be solved before time goes on."""
        self.speeds = Speeds(solver)
        """Solutions so far."""
        self.record: Load | None = None
        """The record of what each resource carries."""
        self.events = 0

    def add(self, capacity: float, name: str = "") -> int:
        """A new resource of so many units per tick; returns its number."""
        self.capacity.append(float(capacity))
        self.most.append(float(capacity) * (1 + SLACK))
        self.names.append(name or f"resource {len(self.names)}")
        self.users.append({})
        self.asked.append(0.0)
        return len(self.capacity) - 1

    def change(self, resource: int, capacity: float) -> None:
        """Give a resource another capacity from now on; what was done so far stays done, and at 0 its users wait."""
        if self.record is not None:
            self.record.touch((resource,))
        least = min(self.most[resource], capacity)
        self.capacity[resource] = float(capacity)
        self.most[resource] = float(capacity) * (1 + SLACK)
        self.speeds.known.clear()
        self._forget(resource)
        if self.asked[resource] > least:
            self._settle_later(self.users[resource])

    def start(self, phases: tuple[Phase, ...], finished: Callable[[], None], label: Hashable = None) -> Running:
        """Begin an activity now (see `speeds.phases`); `finished` is called at its end, `label` is for the record."""
        running = Running(phases, finished, label)
        self._go_on(running)
        return running

    def stop(self, running: Running) -> None:
        """End an activity now, in whatever phase it is; `finished` is not called. Nothing where it is over."""
        if running.end != ENDED:
            self._leave(running)
        running.end, running.timer, running.finished = ENDED, None, _nothing
        running.phase, running.turn = running.phase._replace(work=0), len(running.phases)

    def standing(self) -> Iterator[tuple[Running, str]]:
        """What works but never ends at its present speed, with the name of the resource that it gets too little of."""
        found = dict.fromkeys(running for users in self.users for running in users if running.end == NEVER)
        for running in found:
            scarce = [resource for resource in running.needs.resources if self._scarce(resource)]
            yield running, self.names[min(scarce, key=self.capacity.__getitem__)] if scarce else "a resource"

    def _go_on(self, running: Running) -> None:
        """Begin the next phase that lasts, or finish."""
        while running.advance():
            if running.phase.latency:
                joining = Joining(self._joined, running)
                tick = int(self.env._now) + running.phase.latency
                heappush(self.queue, (tick, NORMAL, next(self.number), joining))
                self.events += 1
                return
            if running.phase.work:
                self._join(running)
                return
        running.finished()

    def _joined(self, joining: Joining) -> None:
        """A latency is over."""
        if joining.running.phase.work:
            self._join(joining.running)
        else:
            self._go_on(joining.running)

    def _join(self, running: Running) -> None:
        """Start to work."""
        if self.record is not None:
            self.record.touched_by(running.needs)
        running.work(int(self.env._now))
        scarce, on, asked, most = False, self.users, self.asked, self.most
        for resource, rate, _ in running.needs.uses:
            users = on[resource]
            users[running] = users[running] + rate if running in users else rate
            before = asked[resource]
            total = asked[resource] = before + rate
            if total > most[resource]:
                scarce = True
                if before <= most[resource]:
                    self._forget(resource)
        if not scarce:
            running.unhindered()
            self._watch((running,))
        elif not running.needs.single or not self._beside_reserved(running.needs.uses[0].resource):
            self._settle_later((running,))

    def _leave(self, running: Running) -> None:
        """Take an activity off its resources; those that it may have slowed must be solved again."""
        if self.record is not None:
            self.record.touched_by(running.needs)
        on, asked, most, dirty = self.users, self.asked, self.most, self.dirty
        for resource in running.needs.resources:
            users = on[resource]
            rate = users.pop(running, None)
            if rate is None:  # the activity names the resource twice
                continue
            if not users:
                asked[resource] = 0.0  # so that rounding does not pile up
                continue
            before = asked[resource]
            after = asked[resource] = before - rate
            if before > most[resource]:
                if after <= most[resource]:
                    self._forget(resource)
                if self._beside_reserved(resource):
                    continue
                if dirty:
                    dirty.update(users)
                else:
                    self._settle_later(users)

    def _beside_reserved(self, resource: int) -> bool:
        """Whether a resource has one user beside those that reserved their part of it, which then works with the rest.

        That is a device on which collectives run beside kernels: the users that reserved are not slowed, so that the
        rate of the one user follows without the solver. False where a user has another resource as well.
        """
        user, left = None, self.capacity[resource]
        for running in self.users[resource]:
            if not running.needs.single or (user is not None and not running.needs.reserved):
                return False
            if running.needs.reserved:
                left -= running.needs.uses[0].rate
            else:
                user = running
        if not 0.0 <= left < self.capacity[resource]:
            return False
        for running in self.users[resource]:
            speed = 1.0 if running is not user else min(1.0, left / running.needs.uses[0].rate)
            if running.speed != speed:
                self._go(running, speed)
        return True

    def _go(self, running: Running, speed: float) -> None:
        """Go on at another speed from now on."""
        if self.record is not None:
            self.record.touched_by(running.needs)
        running.proceed(int(self.env._now), speed)
        self._watch((running,))

    def _settle_later(self, users: Iterable[Running]) -> None:
        """Solve them at the end of this instant, when all that happens in it has happened."""
        if not self.dirty:
            heappush(self.queue, (int(self.env._now), NORMAL, next(self.number), Appointment(self._settle)))
            self.events += 1
        self.dirty.update(users if isinstance(users, dict) else dict.fromkeys(users))

    def _settle(self, _: object) -> None:
        """Solve every component that changed."""
        dirty, self.dirty = self.dirty, {}
        seen: set[Running] = set()
        for running in dirty:
            if running not in seen and running.end >= 0:
                component, scarce = self._component(running)
                if len(component) > 1:
                    seen.update(component)
                self._solve(component, scarce)

    def _component(self, running: Running) -> tuple[list[Running], Collection[int]]:
        """All activities connected with one through scarce resources, in the order of discovery, and these."""
        return self._around(running) if running.needs.single else self._connected(running)

    def _around(self, running: Running) -> tuple[list[Running], Collection[int]]:
        """The same where the activity has one resource, on which others most often have one as well."""
        (resource,) = running.needs.resources
        if self.asked[resource] <= self.most[resource]:
            return [running], ()
        component = [running]
        for user in self.users[resource]:
            if not user.needs.single:
                return self._connected(running)
            if user is not running:
                component.append(user)
        return component, (resource,)

    def _connected(self, running: Running) -> tuple[list[Running], Collection[int]]:
        """The same in general."""
        found, visited = {running}, set[int]()
        queue = [running]
        for member in queue:
            for resource, _, _ in member.scarce if member.scarce is not None else self._scarce_uses(member):
                if resource not in visited:
                    visited.add(resource)
                    fresh = [user for user in self.users[resource] if user not in found]
                    found.update(fresh)
                    queue += fresh
        return queue, visited

    def _solve(self, component: list[Running], scarce: Collection[int]) -> None:
        """Give each activity of a component its fair speed, and set a timer for the first to end."""
        now = int(self.env._now)
        speeds = self.speeds.of(component, self._scarce_uses, self.capacity) if scarce else (1.0,)
        for member, speed in zip(component, speeds, strict=True):
            if speed != member.speed:
                if self.record is not None:
                    self.record.touched_by(member.needs)
                member.proceed(now, speed)
        self._watch(component)

    def _scarce_uses(self, running: Running) -> list[Use]:
        """What an activity uses of scarce resources."""
        uses = running.scarce
        if uses is None:
            asked, most = self.asked, self.most
            uses = running.scarce = [use for use in running.needs.uses if asked[use[0]] > most[use[0]]]
        return uses

    def _forget(self, resource: int) -> None:
        """A resource may have become scarce, or have ceased to be."""
        for running in self.users[resource]:
            running.scarce = None

    def _scarce(self, resource: int) -> bool:
        """Whether users want more of a resource than it has."""
        return self.asked[resource] > self.most[resource]

    def _watch(self, component: Collection[Running]) -> None:
        """Set one timer for the phases of a component that end first."""
        timer = Timer(self._ring, component)
        end = NEVER
        for running in component:
            running.timer = timer
            if running.end < end:
                end = running.end
        if end < NEVER:
            heappush(self.queue, (end, NORMAL, next(self.number), timer))
            self.events += 1

    def _ring(self, timer: Timer) -> None:
        """End what is due of a component, and solve what is left of it; void if it was solved again since."""
        now = int(self.env._now)
        left = []
        for running in timer.component:
            if running.timer is timer:
                if running.end <= now:
                    self._end(running)
                else:
                    left.append(running)
        if left:
            self._settle_later(left)

    def _end(self, running: Running) -> None:
        """A phase is over."""
        running.end, running.timer = ENDED, None  # its timer holds it: a cycle would keep both
        if running.turn < len(running.phases):
            self._leave(running)
            self._go_on(running)
        else:
            running.finished()  # before the settling, so that what follows at once is settled with the rest
            self._leave(running)


def _nothing() -> None:
    """What a stopped activity calls at its end."""
