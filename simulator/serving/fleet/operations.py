"""What runs a fleet beside its replicas: door, stations, gateway, roster, and requests that come back from a failure.

A request comes, passes the door and the stations before the model, and is sent to a replica, or waits at the gateway
until one is up. When a replica fails, its requests are sent again, fail, or go on elsewhere. None is lost: those that
came are finished, turned away, failed, or found somewhere (`check`).

Of `prefill` and `decode` pools, prompts are done while no decode replica is up, and wait for one. A decode replica that
is down takes no cache from that instant on, as what would be sent there gets no answer.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulator.engine.agenda import Agenda
from simulator.results.serving.service import FAILED, FINISHED, IN_FLIGHT, REJECTED
from simulator.serving.fleet.breakdowns import Breakdowns
from simulator.serving.fleet.door import LOST, NOBODY_UP, QUEUE_FULL, TOO_LONG, Door
from simulator.serving.fleet.kv_transfer import KvTransfer
from simulator.serving.fleet.links import LinkBreakdowns
from simulator.serving.fleet.outstanding import Outstanding
from simulator.serving.fleet.rollout import Rollout
from simulator.serving.fleet.roster import OFF, UP, Member, Roster
from simulator.serving.fleet.scaling import Autoscaler, FleetLoad
from simulator.serving.fleet.stations import Line
from simulator.serving.replica.failing import go_on, start_again
from simulator.serving.replica.ledger import Ledger
from simulator.serving.replica.replica import Replica
from simulator.specs.fleet import Fleet as FleetRules
from simulator.units import TICKS_PER_SECOND, to_ticks

if TYPE_CHECKING:
    from simulator.serving.fleet.fleet import Fleet


@dataclass(slots=True, eq=False)
class Operations:
    """The hands of a fleet."""

    agenda: Agenda
    ledger: Ledger
    rules: FleetRules
    fleet: "Fleet"
    replicas: Sequence[Replica]
    roster: Roster
    outstanding: Outstanding
    door: Door | None = None
    before: Line | None = None
    after: Line | None = None
    scaler: Autoscaler | None = None
    breakdowns: Breakdowns | None = None
    rollout: Rollout | None = None
    links: LinkBreakdowns | None = None
    transfer: KvTransfer | None = None
    """What moves caches between pools."""
    held: deque[int] = field(default_factory=deque)
    """Requests that wait at the gateway for a replica."""
    unseen: dict[int, list[int]] = field(default_factory=dict)
    """Requests of members that are down while that is not detected."""
    tried: dict[int, int] = field(default_factory=dict)
    """How often requests were tried again."""
    reasons: dict[int, int] = field(default_factory=dict)
    """Why requests were turned away, or failed."""
    arrived: int = 0
    ended: dict[int, int] = field(default_factory=lambda: dict.fromkeys((FINISHED, REJECTED, FAILED), 0))
    """Requests that came, and those that are done by what became of them."""
    end: int = 0
    """When the last request that is done was."""
    _paused: dict[int, int] = field(default_factory=dict)
    """When requests that move to another replica got their last token."""
    _fresh: list[int] = field(default_factory=list)
    _flushing: bool = False
    _busy: int = 0

    def begin(self) -> None:
        """Let replicas come, go and fail from now on."""
        self.opened(self.roster.open)
        for member in self.roster.of(OFF) if self.rules.start_up.at_start == "cold" else ():
            if member.number < self._at_start():
                self.roster.start(member)
        for rule in (self.scaler, self.breakdowns, self.links, self.rollout):
            if rule is not None:
                rule.watch()

    def _at_start(self) -> int:
        rule = self.rules.autoscaling
        return len(self.roster.members) if rule is None or rule.start is None else rule.start

    # A request comes ------------------------------------------------------------------------------------------------

    def come(self, request: int) -> None:
        """A request is at the door."""
        self.arrived += 1
        if self.door is not None:
            self.door.come(request)
        else:
            self.admit(request)

    def admit(self, request: int) -> None:
        """A request has passed the door."""
        if self.before is not None:
            self.before.enter(request)
        else:
            self._send(request)

    def sent_later(self, request: int) -> None:
        """A request is to be sent when all that ends in this instant has ended."""
        if not self._fresh:
            self.agenda.at(self.agenda.now, self._send_fresh)
        self._fresh.append(request)

    def _send_fresh(self, _: Any) -> None:
        fresh, self._fresh = sorted(self._fresh), []
        for request in fresh:
            self._send(request)

    def _send(self, request: int) -> None:
        """To a replica, or to wait for one."""
        if self.fleet.takes(request) and (not self.held or self.fleet.models is not None):
            self.fleet.send(request, self.agenda.now)
            return
        most = None if self.rules.admission is None else self.rules.admission.gateway
        if most is not None and len(self.held) >= most:
            self.refuse(request, NOBODY_UP)
            return
        self.held.append(request)
        if self.scaler is not None and not self.fleet.entrances:
            self.scaler.called()

    def takes(self, replica: Replica, request: int) -> bool:
        """Whether a replica that a router chose takes a request; otherwise it is turned away, or lost there."""
        most = None if self.rules.admission is None else self.rules.admission.queue
        if most is not None and waiting(replica) >= most:
            self.refuse(request, QUEUE_FULL)
            return False
        member = self.roster.by_replica[replica.number]
        if member.number in self.unseen:
            if member.phase != UP:
                self.unseen[member.number].append(request)
                self._count(replica, 1)
                return False
            self._found(member, self.unseen[member.number])
        if request in self._paused:
            replica.queue.paused[request] = self._paused.pop(request)
        return True

    def refuse(self, request: int, reason: int, status: int = REJECTED) -> None:
        """A request is turned away, or fails."""
        self.reasons[request] = reason
        self.ledger.status[request] = status
        self.fleet.finished(request, self.agenda.now)

    def opened(self, replicas: Sequence[Replica]) -> None:
        """These replicas take requests from now on; those at the gateway go to them."""
        entrances = [replica for replica in replicas if replica.role != "decode"]
        self.fleet.entrances[:] = entrances
        self.outstanding.open([replica.number for replica in entrances])
        self.fleet.choice.version += 1
        if self.held and entrances and not self._flushing:
            self._flushing = True
            self.agenda.at(self.agenda.now, self._flush)

    def _flush(self, _: Any) -> None:
        self._flushing = False
        held, self.held = self.held, deque()
        for request in held:
            self._send(request)

    # A request is done ----------------------------------------------------------------------------------------------

    def left(self, request: int) -> None:
        """A request has left its replica."""
        number = self.ledger.replica[request]
        if number >= 0:
            self.roster.left(self.roster.by_replica[number])

    def done(self, request: int) -> bool:
        """A request is done on its replica, or was turned away; whether nothing follows."""
        status = self.ledger.status[request]
        if status == REJECTED:
            self.reasons.setdefault(request, TOO_LONG)
        else:
            self.left(request)
        if status == FINISHED and self.after is not None:
            self.after.enter(request)
            return False
        self.ended[status] += 1
        self.end = self.agenda.now
        return True

    def passed(self, request: int) -> None:
        """An answer has passed the stations after the model."""
        self.end = self.ledger.finish[request] = self.agenda.now
        self.ended[FINISHED] += 1
        self.fleet.complete(request, self.agenda.now)

    # Pools ----------------------------------------------------------------------------------------------------------

    def join(self, transfer: KvTransfer) -> None:
        """Replicas of pools: what moves caches knows from now on which are there."""
        self.transfer, self.roster.moved, self.roster.failing = transfer, self._moved, self._take_back
        transfer.every = tuple(replica for replica in self.replicas if replica.role == "decode")
        transfer.left = lambda replica: self.roster.left(self.roster.by_replica[replica.number])

    def _moved(self, member: Member) -> None:
        """A member is in another phase: decode replicas that are up take caches."""
        if self.transfer is not None and member.group[0].role == "decode":
            up = [replica for one in self.roster.of(UP) for replica in one.group]
            self.transfer.decoders = [replica for replica in up if replica.role == "decode"]
            self.transfer.room()

    def _take_back(self, replica: Replica) -> tuple[list[int], dict[int, int]]:
        """Caches that lie on a replica, or on their way to it, before it loses its memory: requests that begin again,
        and when each got its last token. Those whose cache waits at its source go on from there where they migrate."""
        assert self.transfer is not None and self.rules.failures is not None
        migrate = self.rules.failures.requests == "migrate"
        lost, kept = self.transfer.take_back(replica, again=migrate)
        for request in kept if migrate else ():
            tried = self.tried[request] = self.tried.get(request, 0) + 1
            if tried > self.rules.failures.retries:
                self.tried[request] -= 1
                self.transfer.give_up(request)
                self.refuse(request, LOST, FAILED)
        requests = lost if migrate else [*lost, *kept]
        paused = {}
        for request in requests:
            since = self.transfer.last_token(request)
            if self.transfer.first_by_decode and self.ledger.done[request] == 1:
                start_again(self.ledger, request)  # the client has got nothing yet
            else:
                paused[request] = since
        return requests, paused

    # A replica fails ------------------------------------------------------------------------------------------------

    def lost(self, member: Member, requests: list[int], paused: dict[int, int]) -> None:
        """A member lost these requests; they are dealt with when that is detected."""
        assert self.rules.failures is not None
        if member.number in self.unseen:  # it was back before that was detected; its count began anew
            self._seen(member, self.unseen.pop(member.number))
        for request in requests:
            if self.rules.failures.requests == "migrate":
                go_on(self.ledger, request)
                if request in paused:
                    self._paused[request] = paused[request]
            else:
                start_again(self.ledger, request)
        detection = to_ticks(self.rules.failures.detection)
        if not detection:
            self._seen(member, requests)
            return
        self.unseen[member.number] = requests
        self._count(member.group[0], len(requests))
        self.agenda.at(self.agenda.now + detection, lambda _: self._found(member, requests))

    def _found(self, member: Member, requests: list[int]) -> None:
        """It is detected that a member is down, or has been."""
        if self.unseen.get(member.number) is not requests:
            return
        del self.unseen[member.number]
        self._count(member.group[0], -len(requests))
        self._seen(member, requests)

    def _seen(self, member: Member, requests: Sequence[int]) -> None:
        assert self.rules.failures is not None
        self.roster.shut(member)
        for request in requests:
            tried = self.tried[request] = self.tried.get(request, 0) + 1
            if self.rules.failures.requests == "fail" or tried > self.rules.failures.retries:
                self.tried[request] -= 1
                self._paused.pop(request, None)
                self.refuse(request, LOST, FAILED)
            else:
                self.sent_later(request)

    def _count(self, replica: Replica, requests: int) -> None:
        """What routers believe a replica to have."""
        self.outstanding.counts[replica.number] += requests

    # What rules see -------------------------------------------------------------------------------------------------

    def load(self, since: int, arrived: int) -> FleetLoad:
        """What there is now; rates since a tick at which so many requests had come."""
        now = self.agenda.now
        seconds = (now - since) / TICKS_PER_SECOND
        queued = sum(waiting(replica) for replica in self.replicas) + len(self.held)
        busy = sum(worked(replica, now) for replica in self.replicas)
        share, self._busy = (busy - self._busy) / max(now - since, 1), busy
        rate = (self.arrived - arrived) / seconds if seconds else 0.0
        inside = sum(replica.queue.outstanding for replica in self.replicas) + len(self.held)
        return FleetLoad(now / TICKS_PER_SECOND, self.roster.count(UP), inside, queued, rate, share)

    def goes_on(self) -> bool:
        """Whether anything can still happen: requests are not done, and replicas are there or may come."""
        there = self.roster.count(OFF) < len(self.roster.members)
        return self.fleet.busy and (there or (self.scaler is not None and not self.scaler.over))

    def count_arrived(self) -> int:
        """Requests that have come."""
        return self.arrived

    @property
    def taken(self) -> int:
        """Requests that are in the fleet beside the one that comes now."""
        return self.inside - 1 - (0 if self.door is None else self.door.delayed)

    @property
    def inside(self) -> int:
        """Requests that came and are not done."""
        return self.arrived - sum(self.ended.values())

    def check(self) -> None:
        """Every request that came is done, or found somewhere."""
        lines = sum(line.inside for line in (self.before, self.after) if line is not None)
        lost = sum(map(len, self.unseen.values()))
        there = sum(replica.queue.outstanding for replica in self.replicas)
        delayed = 0 if self.door is None else self.door.delayed
        between = 0 if self.transfer is None else self.transfer.waiting
        between += 0 if self.fleet.models is None else self.fleet.models.judging
        found = len(self.held) + lines + lost + there + delayed + len(self._fresh) + between
        assert found == self.inside, f"{self.inside} requests are not done, and {found} are found"
        kept = sum(self.ledger.status.count(status) for status in (FINISHED, REJECTED, FAILED))
        assert kept == sum(self.ended.values()), "what became of requests was counted twice"
        assert self.ledger.status.count(IN_FLIGHT) == len(self.ledger) - kept


def waiting(replica: Replica) -> int:
    """Requests that wait on a replica, those that its engine has not seen yet among them."""
    return len(replica.queue.waiting) + (0 if replica.intake is None else replica.intake.unseen)


def worked(replica: Replica, now: int) -> int:
    """Ticks in which a replica has worked so far."""
    running = (
        0 if replica.stages.turns else sum(now - one.stretch.start for one in replica.batches if one.stretch.count)
    )
    return replica.record.busy + running
