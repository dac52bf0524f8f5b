"""Failures of replicas and nodes: by chance, each a Poisson process of its own, or from a trace.

A failure that finds its replica gone or down does nothing, so that the time between failures counts while it is up. The
processes draw from streams of their own by name: more replicas change nothing for the others, and what the replicas do
changes nothing for the failures.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from simulator.engine.agenda import Agenda
from simulator.random import stream
from simulator.serving.fleet.roster import DRAINING, STARTING, UP, Member, Roster
from simulator.specs.distribution import Distribution
from simulator.specs.distributions import sample
from simulator.specs.fleet import Failures
from simulator.units import TICKS_PER_SECOND, to_ticks

LATEST = 1 << 61
"""Ticks (26 days) after which no failure comes."""
LONGEST = 1e6
"""Seconds (12 days) that a repair takes at most."""
DRAWN = 64
"""Times that are drawn at once."""


class Planned(NamedTuple):
    """A failure of a trace."""

    start: int
    """Ticks."""
    what: str
    """Name of a replica or a node."""
    until: int
    """When it is repaired."""


@dataclass(slots=True)
class Breakdowns:
    """What fails when."""

    agenda: Agenda
    roster: Roster
    rules: Failures
    things: Mapping[str, Sequence[Member]]
    """What may fail by name: its members."""
    chance: Sequence[str]
    """Those that fail by chance."""
    planned: Sequence[Planned]
    seed: int
    lost: Callable[[Member, list[int], dict[int, int]], None]
    """Called with the requests that a member lost, and when each got its last token."""
    goes_on: Callable[[], bool]
    """Whether anything can still happen."""
    log: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(member, from, to, requests that it lost)."""

    def watch(self) -> None:
        """Begin."""
        for failure in self.planned:
            self.agenda.at(failure.start, self._due(failure))
        if self.rules.mtbf is not None:
            for name in self.chance:
                Process(self, name, self.rules.mtbf, self.rules.repair).next()

    def _due(self, failure: Planned) -> Callable[[Any], None]:
        return lambda _: self.strike(failure.what, failure.until, starting=True) if self.goes_on() else None

    def strike(self, name: str, until: int, starting: bool) -> None:
        """A thing fails now: all its members that take requests, and those that are `starting` where asked for."""
        for member in self.things[name]:
            if member.phase in (UP, DRAINING):
                self._fail(member, until)
            elif starting and member.phase in STARTING:
                self.roster.fail(member, until)
                self.log.append((member.number, self.agenda.now, until, 0))

    def _fail(self, member: Member, until: int) -> None:
        now = self.agenda.now
        if self.rules.requests == "resume":
            self.roster.halt(member, until)
            self.log.append((member.number, now, until, 0))
            return
        requests, paused = self.roster.fail(member, until)
        self.log.append((member.number, now, until, len(requests)))
        self.lost(member, requests, paused)


class Fails(Protocol):
    """That of which things fail."""

    agenda: Agenda
    seed: int

    @property
    def goes_on(self) -> Callable[[], bool]:
        """Whether anything can still happen."""

    def strike(self, name: str, until: int, starting: bool) -> None:
        """A thing fails now."""


class Process:
    """Failures of one thing by chance."""

    __slots__ = ("_gaps", "_mtbf", "_name", "_of", "_random", "_repair", "_repairs")

    def __init__(self, of: Fails, name: str, mtbf: float, repair: Distribution) -> None:
        """None so far; seconds between failures, and of repairs."""
        self._of, self._name, self._mtbf, self._repair = of, name, mtbf, repair
        self._random = stream(of.seed, f"failures of {name}")
        self._gaps: list[float] = []
        self._repairs: list[float] = []

    def next(self) -> None:
        """Plan the next failure."""
        of = self._of
        if not self._gaps:
            self._gaps = (self._random.standard_exponential(DRAWN) * self._mtbf).tolist()
            self._repairs = sample(self._repair, self._random, DRAWN).tolist()
        ticks = self._gaps.pop() * TICKS_PER_SECOND
        if of.agenda.now + ticks < LATEST:
            of.agenda.at(of.agenda.now + max(round(ticks), 1), self._due)

    def _due(self, _: Any) -> None:
        of = self._of
        if of.goes_on():
            repair = min(self._repairs.pop(), LONGEST)
            of.strike(self._name, of.agenda.now + max(to_ticks(repair), 1), starting=False)
            self.next()
