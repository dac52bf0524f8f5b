"""Members of a fleet and their phases: replicas that start, take requests, drain, stand still, and are gone.

A member is a replica, or the replicas that share experts. It starts by phases: a machine is provisioned, weights are
read from storage (an activity where replicas share its rate), kernels are compiled and graphs captured. Source of the
phases: logs of vLLM's start (arXiv:2606.07362) and ServerlessLLM (arXiv:2401.14351), whose seconds a scenario states.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from simulator.engine.agenda import Agenda
from simulator.engine.tape import Activity, Use
from simulator.serving.replica.failing import empty_memory, lose_all, stand_still
from simulator.serving.replica.replica import Replica
from simulator.specs.fleet import StartUp
from simulator.units import TICKS_PER_SECOND, to_ticks

OFF, PROVISIONING, LOADING, WARMING, UP, DRAINING, DOWN = range(7)
"""What a member does; `results.fleet.PHASES` are the words."""
STARTING = (PROVISIONING, LOADING, WARMING)


@dataclass(slots=True, eq=False)
class Member:
    """Replicas that come and go as one."""

    number: int
    group: Sequence[Replica]
    weights: float
    """Bytes that it reads when it starts, all devices."""
    phase: int
    since: int = 0
    """When the phase began."""
    turn: int = 0
    """Of plans for it the present one: what was planned before a failure is void."""
    listed: bool = False
    """Whether routers send requests there: while it is up, and while its failure is not detected."""
    gone: Callable[[], None] | None = None
    """Called when it has drained."""
    came: Callable[[], None] | None = None
    """Called when it is up."""

    @property
    def outstanding(self) -> int:
        """Unfinished requests that it has."""
        return sum(replica.queue.outstanding for replica in self.group)


@dataclass(slots=True)
class Roster:
    """All members, and what each did when."""

    agenda: Agenda
    members: list[Member]
    rules: StartUp
    opened: Callable[[Sequence[Replica]], None]
    """Called with the replicas that take requests, in the order of members, whenever they change."""
    log: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(member, phase, from, to) of phases that are over, in ticks."""
    storage: int | None = None
    """Resource of the storage, where replicas share its rate."""
    by_replica: dict[int, Member] = field(default_factory=dict)
    moved: Callable[[Member], None] | None = None
    """Called with a member that enters another phase."""
    failing: Callable[[Replica], tuple[list[int], dict[int, int]]] | None = None
    """Called with a replica before it loses its memory: requests that it has no more, and when each got its last
    token."""

    def __post_init__(self) -> None:
        """Members that are up take requests."""
        for member in self.members:
            member.listed = member.phase == UP
        self.by_replica = {replica.number: member for member in self.members for replica in member.group}
        if self.rules.storage_together is not None:
            self.storage = self.agenda.add(self.rules.storage_together / TICKS_PER_SECOND, "weights' storage")

    def count(self, *phases: int) -> int:
        """Members in any of these phases."""
        return sum(member.phase in phases for member in self.members)

    def of(self, *phases: int) -> list[Member]:
        """Members in any of these phases, in order."""
        return [member for member in self.members if member.phase in phases]

    # From one phase to the next -------------------------------------------------------------------------------------

    def start(self, member: Member, provisioned: bool = False) -> None:
        """Let a member come: it takes requests when all phases are over."""
        self._enter(member, PROVISIONING)
        ticks = 0 if provisioned else to_ticks(self.rules.provisioning)
        self._then(member, ticks, self._load)

    def drain(self, member: Member, gone: Callable[[], None] | None = None) -> None:
        """Give a member nothing more; `gone` is called when it has finished what it had."""
        self._enter(member, DRAINING)
        member.gone = gone
        self.left(member)

    def stay(self, member: Member) -> None:
        """A draining member takes requests again."""
        member.gone = None
        self._enter(member, UP)

    def leave(self, member: Member) -> None:
        """A member that has nothing is gone at once, whatever was planned for it."""
        self._enter(member, OFF)

    def left(self, member: Member) -> None:
        """A request left a member: a draining one without any is gone."""
        if member.phase == DRAINING and all(replica.empty for replica in member.group):
            gone, member.gone = member.gone, None
            self._enter(member, OFF)
            if gone is not None:
                gone()

    def halt(self, member: Member, until: int) -> None:
        """A member stands still, with all that it has, and goes on then; it may be sent requests meanwhile."""
        phase = member.phase
        for replica in member.group:
            stand_still(replica, until)
        self._enter(member, DOWN)
        self._then(member, until - self.agenda.now, lambda one: self._enter(one, phase))

    def fail(self, member: Member, until: int) -> tuple[list[int], dict[int, int]]:
        """A member loses all that it has, and starts again then; its requests, and when each got its last token. It may
        be sent requests until it is `shut`."""
        lost: list[int] = []
        paused: dict[int, int] = {}
        for replica in member.group:
            for lose in (lose_all,) if self.failing is None else (self.failing, lose_all):
                requests, since = lose(replica)
                lost += requests
                paused |= since
        draining, gone = member.phase == DRAINING, member.gone
        member.gone = None
        self._enter(member, DOWN)
        if draining:
            self._enter(member, OFF)
            if gone is not None:
                gone()
        else:
            self._then(member, until - self.agenda.now, lambda one: self.start(one, provisioned=True))
        return lost, paused

    def shut(self, member: Member) -> None:
        """Routers know that a member is down."""
        if member.phase == DOWN:
            self._list(member, False)

    # Phases ---------------------------------------------------------------------------------------------------------

    def _load(self, member: Member) -> None:
        self._enter(member, LOADING)
        rate, together = self.rules.storage, self.rules.storage_together
        if member.weights <= 0 or (rate is None and together is None):
            self._warm(member)
            return
        own = min(each for each in (rate, together) if each is not None)
        ticks = max(round(member.weights / own * TICKS_PER_SECOND), 1)
        if self.storage is None:
            self._then(member, ticks, self._warm)
            return
        turn = member.turn
        read = Activity(0, ticks, (Use(self.storage, own / TICKS_PER_SECOND, 1.0),))
        self.agenda.start(read, lambda: self._warm(member) if member.turn == turn else None, ("", "weights"))

    def _warm(self, member: Member) -> None:
        self._enter(member, WARMING)
        self._then(member, to_ticks(self.rules.warm_up), lambda one: self._enter(one, UP))

    def _then(self, member: Member, ticks: int, call: Callable[[Member], None]) -> None:
        """Call later, unless something else becomes of the member before."""
        if ticks <= 0:
            call(member)
            return
        turn = member.turn
        self.agenda.at(self.agenda.now + ticks, lambda _: call(member) if member.turn == turn else None)

    def _enter(self, member: Member, phase: int) -> None:
        """The phase before is over; what was planned in it is void. A failed member stays listed until that is
        detected."""
        now = self.agenda.now
        if now > member.since:
            self.log.append((member.number, member.phase, member.since, now))
        if phase == OFF:  # its last iteration may be ending, so that only what outlives requests is gone
            for replica in member.group:
                empty_memory(replica)
        member.phase, member.since = phase, now
        member.turn += 1
        if phase != DOWN:
            self._list(member, phase == UP)
        if self.moved is not None:
            self.moved(member)
        if phase == UP and member.came is not None:
            came, member.came = member.came, None
            came()

    def _list(self, member: Member, listed: bool) -> None:
        if member.listed != listed:
            member.listed = listed
            self.opened(self.open)

    @property
    def open(self) -> list[Replica]:
        """Replicas that are sent requests, in the order of members."""
        return [replica for member in self.members if member.listed for replica in member.group]

    def phases(self, end: int) -> list[tuple[int, int, int, int]]:
        """All phases until the end of the run, those that were under way then too."""
        under_way = [(one.number, one.phase, one.since, end) for one in self.members]
        rows = [(one, phase, since, min(until, end)) for one, phase, since, until in self.log + under_way]
        return sorted((row for row in rows if row[2] < row[3]), key=lambda row: (row[0], row[2]))
