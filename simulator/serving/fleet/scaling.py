"""Replicas that come and go by a rule.

A rule measures a total over all replicas; ceil(total / target) replicas are wanted, and none starts or leaves within a
tolerance of that, as in Kubernetes' horizontal autoscaler and in Knative's. A replica that drains is taken back before
another one starts; of the replicas that take requests the one with the fewest requests leaves.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

from simulator.engine.agenda import Agenda
from simulator.registry import Registry
from simulator.serving.fleet.roster import DOWN, DRAINING, OFF, STARTING, UP, Roster
from simulator.specs.fleet import Autoscaling
from simulator.units import TICKS_PER_SECOND, to_ticks


class FleetLoad(NamedTuple):
    """What a rule sees at a look."""

    now_s: float
    up: int
    """Replicas that take requests."""
    outstanding: int
    """Unfinished requests, those at the gateway among them."""
    waiting: int
    """Requests that wait: in queues of replicas and at the gateway."""
    arrivals_per_s: float
    """Requests that came since the last look."""
    busy: float
    """Replicas that worked since then, on average."""


ScalingRule = Callable[[FleetLoad], float]
SCALING_RULES: Registry[ScalingRule] = Registry("scaling rule")
COUNTED = ("concurrency", "queue")
"""Rules that count requests and do not ask what was since the last look."""


@SCALING_RULES.add("concurrency")
def concurrency(load: FleetLoad) -> float:
    """Unfinished requests in all."""
    return load.outstanding


@SCALING_RULES.add("queue")
def queue(load: FleetLoad) -> float:
    """Requests that wait, in all."""
    return load.waiting


@SCALING_RULES.add("rate")
def rate(load: FleetLoad) -> float:
    """Requests per second."""
    return load.arrivals_per_s


@SCALING_RULES.add("utilisation")
def utilisation(load: FleetLoad) -> float:
    """Replicas that worked, on average."""
    return load.busy


@SCALING_RULES.add("schedule")
def schedule(load: FleetLoad) -> float:
    """Nothing: the scenario says how many."""
    return 0.0


@dataclass(slots=True)
class Autoscaler:
    """Looks every so often, and starts or drains members."""

    agenda: Agenda
    roster: Roster
    rules: Autoscaling
    load: Callable[[int, int], FleetLoad]
    """What there is now, since a tick at which so many requests had come."""
    busy: Callable[[], bool]
    """Whether there are requests that are not done."""
    arrived: Callable[[], int]
    """Requests that have come."""
    changes: list[tuple[int, int, int]] = field(default_factory=list)
    """(tick, members before, members wanted)."""
    _last: int = 0
    _seen: int = 0
    _changed: int = -1 << 62
    _wanted: int = -1

    def watch(self) -> None:
        """Begin to look; a schedule is looked at when it says something."""
        if self.rules.schedule:
            for entry in self.rules.schedule:
                self.agenda.at(self.agenda.now + to_ticks(entry.at), self._planned(entry.replicas))
        else:
            self.agenda.at(self.agenda.now + to_ticks(self.rules.check), self._look)

    @property
    def over(self) -> bool:
        """Whether it starts no replica any more."""
        return bool(self.rules.schedule) and self.agenda.now >= to_ticks(self.rules.schedule[-1].at)

    def called(self) -> None:
        """A request waits at the gateway and no replica is there or starts: the first one starts at once."""
        if not self.rules.schedule and not self.roster.count(UP, DOWN, *STARTING):
            self._change(max(1, self.rules.min))

    def _planned(self, replicas: int) -> Callable[[Any], None]:
        return lambda _: self._change(replicas) if self.busy() else None

    def _look(self, _: Any) -> None:
        if not self.busy():
            return
        desired = self._desired()
        self._change(self._limited(desired))
        check, looks = to_ticks(self.rules.check), self._alike(desired)
        self._last, self._seen = self.agenda.now + looks * check, self.arrived()
        self.agenda.at(self._last + check, self._look)

    def _alike(self, desired: int) -> int:
        """Looks from now on that see what this one saw, as nothing happens before them, and so change nothing."""
        queue = self.agenda.queue
        if not queue or desired != self.present() or self.rules.rule not in COUNTED:
            return 0
        return max(-(-(queue[0][0] - self.agenda.now) // to_ticks(self.rules.check)) - 1, 0)

    def _desired(self) -> int:
        """Members that the rule wants, within the bounds."""
        rules, present = self.rules, self.present()
        load = self.load(self._last, self._seen)
        assert rules.target is not None
        total = SCALING_RULES.get(rules.rule, "serving.fleet.autoscaling.rule")(load)
        if present and abs(total / (present * rules.target) - 1) <= rules.tolerance:
            return present
        return min(max(ceil(total / rules.target - 1e-9), rules.min), rules.max)

    def _limited(self, desired: int) -> int:
        """What cooldowns and steps leave of it."""
        present, since = self.present(), self.agenda.now - self._changed
        waits = self.rules.up_cooldown if desired > present else self.rules.cooldown
        if desired == present or since < to_ticks(waits):
            return present
        step = self.rules.step or self.rules.max
        return min(max(desired, present - step), present + step)

    def present(self) -> int:
        """Members that take requests, or will."""
        return self.roster.count(UP, DOWN, *STARTING)

    def _change(self, wanted: int) -> None:
        present = self.present()
        if wanted == present:
            return
        self._changed = self.agenda.now
        self.changes.append((self.agenda.now, present, wanted))
        for _ in range(wanted - present):
            self._add()
        for _ in range(present - wanted):
            self._take_away()

    def _add(self) -> None:
        draining = [member for member in self.roster.of(DRAINING) if member.gone is None]
        if draining:
            self.roster.stay(draining[0])
        elif gone := self.roster.of(OFF):
            self.roster.start(gone[0])

    def _take_away(self) -> None:
        starting = self.roster.of(*STARTING)
        if starting:
            self.roster.leave(starting[-1])
        elif up := self.roster.of(UP):
            self.roster.drain(min(up, key=lambda member: (member.outstanding, -member.number)))


def now_s(agenda: Agenda) -> float:
    """Seconds on the clock."""
    return agenda.now / TICKS_PER_SECOND
