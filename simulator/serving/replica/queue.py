"""Requests of a replica that do not decode: those that wait, those in host memory, those whose cache is on its way."""

from collections import deque

from simulator.serving.replica.ledger import Ledger


class Queue:
    """Requests that wait, by what they wait for."""

    __slots__ = (
        "coming",
        "handed",
        "ledger",
        "outstanding",
        "paused",
        "pending",
        "ready",
        "swapped",
        "swapped_tokens",
        "waiting",
    )

    def __init__(self, ledger: Ledger) -> None:
        """Empty."""
        self.ledger = ledger
        self.waiting: deque[int] = deque()
        self.pending = 0
        """Tokens of prompts of those that wait."""
        self.outstanding = 0
        """Requests that the replica has and that are not finished."""
        self.swapped: deque[int] = deque()
        """Requests in host memory, the first to come back first."""
        self.swapped_tokens = 0
        self.paused: dict[int, int] = {}
        """Preempted requests and when they got their last token."""
        self.handed: set[int] = set()
        """Requests whose cache came from elsewhere, and with it a first token that the client has not got yet."""
        self.coming = 0
        """Requests that were accepted from elsewhere and that do not decode yet."""
        self.ready: list[int] = []
        """Those whose cache has arrived: they decode from the next iteration on."""

    def enter(self, request: int) -> None:
        """A request waits, behind all others."""
        self.pending += self.ledger.remaining_tokens[request]
        self.waiting.append(request)

    def return_first(self, request: int) -> None:
        """A request waits again, before all others."""
        self.pending += self.ledger.remaining_tokens[request]
        self.waiting.appendleft(request)

    def leave(self, request: int) -> None:
        """A waiting request starts."""
        if self.waiting[0] == request:
            self.waiting.popleft()
        else:
            self.waiting.remove(request)
        self.pending -= self.ledger.remaining_tokens[request]

    def set_aside(self, request: int) -> None:
        """A waiting request waits for blocks from a tier, or for its adapter, out of sight of the policy."""
        if self.waiting[-1] == request:
            self.waiting.pop()
        else:
            self.waiting.remove(request)

    def set_back(self, request: int) -> None:
        """It waits as others do again, behind those that came before it."""
        arrival = self.ledger.arrival
        own = arrival[request], request
        place = next((i for i, other in enumerate(self.waiting) if (arrival[other], other) > own), len(self.waiting))
        self.waiting.insert(place, request)

    def swap_out(self, request: int, tokens: int) -> None:
        """A request moves to host memory with its tokens."""
        self.swapped.appendleft(request)
        self.swapped_tokens += tokens
        self.ledger.remaining_tokens[request] = 1

    def swap_in(self, tokens: int) -> None:
        """The first request in host memory comes back."""
        self.swapped.popleft()
        self.swapped_tokens -= tokens

    def resume(self, request: int, now: int) -> int:
        """A request goes on: when it got its last token, now if it was never interrupted after one."""
        since = self.paused.pop(request, now)
        if since < now:
            self.ledger.pauses.append((request, since, now))
        return since

    def ready_for(self, slots: int) -> list[int]:
        """As many requests whose cache has arrived as there are slots, by number, off the queue."""
        ready = sorted(self.ready)  # in an order that does not depend on which event came first
        self.ready = ready[slots:]
        self.coming -= min(len(ready), slots)
        return ready[:slots]
