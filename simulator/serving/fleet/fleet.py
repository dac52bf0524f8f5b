"""Replicas, the router before them and the requests that come: what the agenda calls.

Requests of one instant reach their replicas before any of them begins an iteration. A request that follows another one
(the next turn of a conversation, the next question of a user) arrives after its delay from that one's end.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from simulator.engine.agenda import Agenda, Appointment
from simulator.results.serving.service import FINISHED, IN_FLIGHT, REJECTED
from simulator.serving.fleet import sticky  # noqa: F401 - registers its routers
from simulator.serving.fleet.kv_transfer import KvTransfer
from simulator.serving.fleet.models import ModelChoice
from simulator.serving.fleet.operations import Operations
from simulator.serving.fleet.router import Choice, Router
from simulator.serving.replica.ledger import Ledger
from simulator.serving.replica.replica import Replica
from simulator.serving.workload.generate import ANY, NEVER, Workload
from simulator.specs.serving import LocalPrompts


class Fleet:
    """The owner of the replicas."""

    def __init__(
        self,
        agenda: Agenda,
        ledger: Ledger,
        workload: Workload,
        router: Router,
        choice: Choice,
        done: Callable[[], None] | None = None,
        way: int = 0,
    ) -> None:
        """No replicas yet; `done` is called when all requests are finished or rejected.

        A request that is asked for comes to the router `way` ticks later.
        """
        self.way = way
        """Ticks of a request on its way to the router."""
        self._done, self._left = done, len(ledger.arrival)
        self.agenda, self.ledger, self.router, self.choice = agenda, ledger, router, choice
        self.entrances: list[Replica] = []
        """Replicas that take new requests."""
        self.operations: Operations | None = None
        """What runs the fleet beside its replicas; None where these are always there."""
        self.kv_transfer: KvTransfer | None = None
        self.local: LocalPrompts | None = None
        """Which prompts are read on the decode side; None: none."""
        self.models: ModelChoice | None = None
        """Which pool answers which request, where pools have models of their own."""
        timed = np.flatnonzero(workload.arrival != NEVER)
        self._timed = range(len(ledger.arrival)) if len(timed) == len(ledger.arrival) else timed.tolist()
        """Requests with a time of their own, in its order."""
        self._next = 0
        """Of these, how many have come."""
        self._any: deque[int] = deque(np.flatnonzero(workload.follows == ANY).tolist())
        self._followers: dict[int, list[int]] = {}
        self._delay = workload.delay
        self._due = workload.due
        for request in np.flatnonzero(workload.follows >= 0).tolist():
            self._followers.setdefault(int(workload.follows[request]), []).append(request)
        self._follows = bool(self._any or self._followers)
        self._fresh: list[int] = []
        """Requests that came in this instant and are routed when all that ends in it has ended."""

    def open(self, entrances: Sequence[Replica]) -> None:
        """Let requests come to these replicas."""
        self.entrances = list(entrances)
        if self.operations is not None:
            self.operations.begin()
        self._expect()

    def waits_for(self, moment: object) -> bool:
        """Whether that is the first arrival, and requests come at times of their own, to replicas that are always there
        and answer them whole: nothing else ever happens to this fleet."""
        beside = self.operations, self.kv_transfer, self.local, self.models, self._done
        own = isinstance(moment, Appointment) and moment.call == self._come
        timed = isinstance(self._timed, range) and not self._follows and not self._next
        return own and timed and all(one is None for one in beside)

    def ran(self, left: int) -> None:
        """All requests have come; so many are neither finished nor rejected."""
        self._next, self._left = len(self._timed), left

    def _expect(self) -> None:
        """Make the appointment with the next request that has a time of its own."""
        if self._next < len(self._timed):
            self.agenda.at(self._comes(self._timed[self._next]), self._come)

    def _comes(self, request: int) -> int:
        """When a request with a time of its own comes to the router."""
        return self.ledger.arrival[request] + self.way

    def _come(self, _: Any) -> None:
        timed, now, first = self._timed, self.agenda.now, self._next
        self._next += 1
        while self._next < len(timed) and self._comes(timed[self._next]) <= now:
            self._next += 1
        came = timed[first : self._next]
        if self._at_once:
            for request in came:
                self._route(request, now)
            self._expect()
            return
        alone = not self._fresh and self.agenda.alone()
        self._expect()
        for request in came:
            if alone:  # nothing ends in this instant
                self._route(request, now)
            else:
                self._arrive(request)

    @property
    def _at_once(self) -> bool:
        """Whether requests are routed in the order of events, as there is no choice that could depend on it."""
        return len(self.entrances) == 1 and not self._follows

    def _arrive(self, request: int, _: Any = None) -> None:
        """A request is here; where the order of an instant could matter, all that ends in it ends first."""
        if self._at_once:
            self._route(request, self.agenda.now)
            return
        if not self._fresh:
            self.agenda.at(self.agenda.now, self._enter)
        self._fresh.append(request)

    def _enter(self, _: Any) -> None:
        """Route what came in this instant, by number, whichever event of the instant came first."""
        fresh, self._fresh = sorted(self._fresh), []
        for request in fresh:
            self._route(request, self.agenda.now)

    def _route(self, request: int, now: int) -> None:
        if self.operations is not None:
            self.operations.come(request)
        else:
            self.send(request, now)

    def send(self, request: int, now: int) -> None:
        """Give a request to a replica."""
        entrances = self.entrances
        if self.kv_transfer is not None and not any(
            replica.could_run(request) for replica in self.kv_transfer.every or self.kv_transfer.decoders
        ):
            self.ledger.status[request] = REJECTED
            self.finished(request, now)
            return
        target = self._reader(request)
        if self.models is not None:
            here = self.models.open(entrances, request, self.choice.version)
            target = self.models.choose(here, request, self.router, now, self.choice.version)
        elif target is None:
            target = entrances[0]
            if len(entrances) > 1:
                self.choice.now = now
                target = entrances[self.router(entrances, request, self.choice)]
        if self.operations is None or self.operations.takes(target, request):
            target.submit(request)

    def _reader(self, request: int) -> Replica | None:
        """The decode replica that reads a prompt itself; None where that is not for it."""
        if self.local is None or self.kv_transfer is None or not self._stays(request):
            return None
        return self.kv_transfer.reader(request)

    def _stays(self, request: int) -> bool:
        """Whether a prompt is read on the decode side."""
        assert self.local is not None
        if self.ledger.prompt[request] <= self.local.tokens:
            return True
        most = self.local.queue
        return most is not None and sum(len(replica.waiting) for replica in self.entrances) >= most

    @property
    def busy(self) -> bool:
        """Whether there are requests that are neither finished nor rejected."""
        return self._left > 0

    def finished(self, request: int, now: int) -> None:
        """A request is done on its replica, or rejected."""
        if self.models is not None and self._to_judge(self.models, request, now):
            return
        self._answered(request, now)

    def takes(self, request: int) -> bool:
        """Whether there is a replica that a request can be sent to."""
        if self.models is not None:
            return len(self.models.open(self.entrances, request, self.choice.version)) > 0
        return len(self.entrances) > 0

    def _to_judge(self, models: ModelChoice, request: int, now: int) -> bool:
        """Whether an answer does not reach the client in this instant."""
        wait = models.judged(request) if self.ledger.status[request] == FINISHED else 0
        if wait:
            models.judging += 1
            if self.operations is not None:
                self.operations.left(request)
            self.agenda.at(now + wait, lambda _: self._judged(models, request))
            return True
        return self._again(models, request, now)

    def _judged(self, models: ModelChoice, request: int) -> None:
        """It is known what becomes of an answer."""
        now = self.ledger.finish[request] = self.agenda.now
        models.judging -= 1
        if not self._again(models, request, now):
            self._answered(request, now)

    def _again(self, models: ModelChoice, request: int, now: int) -> bool:
        """Ask a request again of another model, where its answer will not do."""
        again = self.ledger.status[request] == FINISHED and models.refused(request)
        models.note(request, now, kept=self.ledger.status[request] == FINISHED and not again)
        if not again:
            return False
        if self.operations is not None:
            self.operations.left(request)
        models.ask_again(request, now, IN_FLIGHT)
        if self.operations is not None:
            self.operations.sent_later(request)
        else:
            self._arrive(request)
        return True

    def _answered(self, request: int, now: int) -> None:
        """Nothing of a request is left to do for replicas."""
        if self.operations is None or self.operations.done(request):
            self.complete(request, now)
        if self.kv_transfer is not None:
            self.kv_transfer.room()

    def complete(self, request: int, now: int) -> None:
        """Release what follows a request of which nothing is left to do."""
        self._left -= 1
        if self._done is not None and not self._left:
            self._done()
        if self._follows:
            released = self._followers.pop(request, [])
            if self._any:
                released.append(self._any.popleft())
            for follower in released:
                due = 0 if self._due is None else int(self._due[follower])
                arrival = self.ledger.arrival[follower] = max(now + int(self._delay[follower]), due)
                comes = arrival + self.way
                if comes == now:
                    self._arrive(follower)
                else:
                    self.agenda.at(comes, partial(self._arrive, follower))

    def hand_over(self, request: int, replica: Replica, now: int) -> None:
        """A prompt is done on a replica that does not decode."""
        assert self.kv_transfer is not None
        self.kv_transfer.hand_over(request, replica)

    @property
    def by_layer(self) -> bool:
        """Whether caches leave layer by layer."""
        return self.kv_transfer is not None and self.kv_transfer.by_layer

    def early(self, request: int, replica: Replica, begin: int, end: int) -> None:
        """The last iteration of a prompt begins on a replica that does not decode."""
        assert self.kv_transfer is not None
        self.kv_transfer.early(request, replica, begin, end)
