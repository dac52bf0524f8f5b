"""A rolling update: all members replaced, a few at a time. Each drains, then starts again on its machine."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from simulator.engine.agenda import Agenda
from simulator.serving.fleet.roster import UP, Member, Roster
from simulator.specs.fleet import RollingUpdate
from simulator.units import to_ticks


@dataclass(slots=True)
class Rollout:
    """Members that are still to be replaced."""

    agenda: Agenda
    roster: Roster
    rules: RollingUpdate
    busy: Callable[[], bool]
    """Whether there are requests that are not done."""
    waiting: deque[Member] = field(default_factory=deque)
    replaced: list[tuple[int, int]] = field(default_factory=list)
    """(member, tick at which the new one took requests)."""

    def watch(self) -> None:
        """Begin when it is time."""
        self.agenda.at(self.agenda.now + to_ticks(self.rules.at), self._begin)

    def _begin(self, _: Any) -> None:
        if self.busy():
            self.waiting.extend(self.roster.of(UP))
            for _ in range(self.rules.at_once):
                self._next()

    def _next(self) -> None:
        """Replace the next member that is up."""
        while self.waiting and self.busy():
            member = self.waiting.popleft()
            if member.phase == UP:
                member.came = partial(self._replaced, member)
                self.roster.drain(member, partial(self.roster.start, member, True))
                return

    def _replaced(self, member: Member) -> None:
        self.replaced.append((member.number, self.agenda.now))
        self._next()
