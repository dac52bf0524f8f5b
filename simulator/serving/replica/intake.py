"""From the door of a server to the queue that its policy sees.

Three things keep a request from being looked at when it comes. The front end (HTTP, tokeniser) works on one request
after the other, so that a wave of them reaches the engine spread over time. The engine looks for new requests every
`every` decode iterations only, at once after one with prompts (SGLang's `--scheduler-recv-interval`; its counter is in
managers/scheduler_recv_skipper.py). An engine that schedules ahead fixes an iteration when the one before it begins
(vLLM's `--async-scheduling`, the overlap schedulers of SGLang and TensorRT-LLM), so that a request which comes while
one runs misses the next. An engine with nothing to run takes whatever comes at once.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch
    from simulator.serving.replica.replica import Replica


class FrontEnd:
    """One process that works on requests one after the other; that of a replica, or of replicas in step."""

    __slots__ = ("_ticks", "free")

    def __init__(self, ticks: Sequence[int]) -> None:
        """Free; `ticks` is its work on each request."""
        self._ticks = ticks
        self.free = 0
        """When it is done with all that came."""

    def done(self, request: int, now: int) -> int:
        """When it is done with a request that comes now."""
        self.free = max(self.free, now) + self._ticks[request]
        return self.free


class Intake:
    """Requests of a replica that its policy does not see yet."""

    __slots__ = (
        "_agenda",
        "_ahead",
        "_every",
        "_front",
        "_handling",
        "_polled",
        "_replica",
        "_staged",
        "_unseen",
        "tokens",
    )

    def __init__(self, replica: "Replica", every: int, ahead: bool, front: FrontEnd | None) -> None:
        """None of them."""
        self._replica, self._agenda = replica, replica.agenda
        self._every, self._ahead, self._front = every, ahead, front
        self._handling: dict[int, int] = {}
        """Requests that the front end works on or has before it, and when it is done with each."""
        self._unseen: deque[int] = deque()
        self._staged: list[int] = []
        self._polled = 0
        """Decode iterations of the batch before the last look that was out of turn."""
        self.tokens = 0
        """Tokens of the prompts of these requests."""

    def come(self, request: int) -> None:
        """A request is at the door."""
        self.tokens += self._replica.ledger.remaining_tokens[request]
        if self._front is None:
            self._handled(request)
            return
        done = self._front.done(request, self._agenda.now)
        self._handling[request] = done
        self._agenda.at(done, partial(self._leave_front, request))

    def _leave_front(self, request: int, _: object) -> None:
        """The front end is done with a request, unless it was forgotten meanwhile."""
        if self._handling.get(request) == self._agenda.now:
            del self._handling[request]
            self._handled(request)

    @property
    def unseen(self) -> int:
        """Requests that the policy does not see yet."""
        return len(self._handling) + len(self._unseen) + len(self._staged)

    @property
    def handed(self) -> bool:
        """Whether there are some that the front end is done with."""
        return bool(self._unseen or self._staged)

    def forget(self) -> list[int]:
        """Drop all requests that the policy does not see yet; which those were."""
        lost = [*self._handling, *self._unseen, *self._staged]
        self._handling.clear()
        self._unseen.clear()
        self._staged = []
        self.tokens = 0
        return lost

    def _handled(self, request: int) -> None:
        """The front end hands a request to the engine."""
        self._unseen.append(request)
        self._replica.wake(queued=True)

    def take(self, batch: "Batch") -> None:
        """An iteration of the batch is about to begin: what its policy may see of what has come joins the queue."""
        if batch.work.chunks:
            self._polled = batch.decodes.iteration
        if not self._unseen and not self._staged:
            return
        self._enter(self._staged)
        self._staged = []
        idle = not (batch.decodes.n or batch.decodes.rows or batch.partial or self._replica.queue.waiting)
        if idle or not (batch.decodes.iteration - self._polled) % self._every:
            fresh, self._unseen = self._unseen, deque()
            if self._ahead and not idle:
                self._staged = list(fresh)
            else:
                self._enter(fresh)

    def _enter(self, requests: "deque[int] | list[int]") -> None:
        remaining = self._replica.ledger.remaining_tokens
        for request in requests:
            self.tokens -= remaining[request]
            self._replica.enqueue(request)

    def until_look(self, batch: "Batch", count: int) -> int:
        """Of so many iterations from the present one on, those that end before what has come is looked at."""
        if self._staged:
            return 1
        return self.look_from(batch, 1, count) if self._unseen else count

    def look_from(self, batch: "Batch", first: int, count: int) -> int:
        """The first of `count` iterations of a stretch, from the `first` on, after which the engine looks for requests;
        `count` where it does not."""
        passed = (batch.decodes.iteration + first - self._polled) % self._every
        return min(first + (self._every - passed if passed else 0), count)
