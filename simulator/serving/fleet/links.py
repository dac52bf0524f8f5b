"""Links that fail: their bandwidth is nothing until they are repaired.

Collectives and caches that need such a link stand still meanwhile and go on with what was left (retransmission and
time-outs are left out). With `traffic: reroute` caches between pools take another way: over other devices of the two
nodes whose cards work, as Mooncake's transfer engine does, and where there is none to another decode replica.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from simulator.engine.agenda import Agenda
from simulator.engine.wires import User, Wires
from simulator.serving.fleet.breakdowns import Planned, Process
from simulator.specs.fleet import LinkFailures

Leave = Callable[[int, float], None]
"""(link, share of its bandwidth that is there from now on)."""


@dataclass(slots=True)
class LinkBreakdowns:
    """What fails when."""

    agenda: Agenda
    rules: LinkFailures | None
    """Those by chance; None where all are planned."""
    things: Mapping[str, Sequence[int]]
    """Links by the name under which they may fail."""
    planned: Sequence[Planned]
    seed: int
    capacity: Mapping[int, float]
    """Bytes per tick of each of these links."""
    leave: Leave
    goes_on: Callable[[], bool]
    """Whether anything can still happen."""
    turned: Callable[[], None] | None = None
    """Called when a link fails or is repaired."""
    down: dict[int, int] = field(default_factory=dict)
    """Links that are down, and until when."""
    log: list[tuple[str, int, int]] = field(default_factory=list)
    """(name, from, to)."""
    _wires: Wires = field(default_factory=Wires)

    def user(self) -> User:
        """It as a user of links, which takes all of them at times, so that what they carry runs on the clock."""
        return User(self.capacity.keys(), lambda: self.capacity, lambda: self._wires)

    def watch(self) -> None:
        """Begin."""
        for failure in self.planned:
            self.agenda.at(failure.start, self._due(failure))
        if self.rules is not None:
            for name in self.rules.names:
                Process(self, name, self.rules.mtbf, self.rules.repair).next()

    def _due(self, failure: Planned) -> Callable[[object], None]:
        return lambda _: self.strike(failure.what, failure.until, starting=True) if self.goes_on() else None

    def strike(self, name: str, until: int, starting: bool) -> None:
        """The links of a name fail now; those that are down stay so until the later of both repairs."""
        now = self.agenda.now
        if not starting and all(link in self.down for link in self.things[name]):
            return  # by chance only what works fails
        self.log.append((name, now, until))
        for link in self.things[name]:
            if link not in self.down:
                self._wires.enter()
                self.leave(link, 0.0)
            self.down[link] = max(self.down.get(link, 0), until)
        self.agenda.at(until, lambda _: self._repaired(name))
        if self.turned is not None:
            self.turned()

    def _repaired(self, name: str) -> None:
        now, back = self.agenda.now, False
        for link in self.things[name]:
            if self.down.get(link, now + 1) <= now:
                del self.down[link]
                self.leave(link, 1.0)
                self._wires.leave()
                back = True
        if back and self.turned is not None:
            self.turned()
