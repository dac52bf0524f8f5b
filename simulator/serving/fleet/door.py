"""What a request passes before it is routed: rate limits of its tenant, how many the fleet takes, stations.

A token bucket fills at its rate up to its size and is full at the start. A request that it does not hold is turned
away, or waits until it does, those of a tenant one after the other.
"""

from collections.abc import Callable, Sequence

from simulator.engine.agenda import Agenda
from simulator.specs.requests import RateLimit
from simulator.units import TICKS_PER_SECOND

NONE, TOO_LONG, QUEUE_FULL, FLEET_FULL, RATE_LIMIT, NOBODY_UP, LOST = range(7)
"""Why a request was turned away, or failed; `results.fleet.REASONS` are the words."""


class Bucket:
    """A token bucket."""

    __slots__ = ("_level", "_rate", "_since", "_size", "by_tokens", "waits")

    def __init__(self, limit: RateLimit) -> None:
        """Full."""
        self._rate, self._size = limit.rate / TICKS_PER_SECOND, limit.burst
        self._level, self._since = limit.burst, 0
        self.by_tokens, self.waits = limit.by == "tokens", limit.over == "wait"

    def take(self, amount: float, now: int) -> bool:
        """Take so much now, if it is there."""
        level = min(self._size, self._level + (now - self._since) * self._rate) if now > self._since else self._level
        if level < amount:
            return False
        self._level, self._since = level - amount, max(now, self._since)
        return True

    def book(self, amount: float, now: int) -> int:
        """Take so much as soon as it is there, after all that was booked before; when that is."""
        level = min(self._size, self._level + max(now - self._since, 0) * self._rate)
        begin = max(now, self._since)
        wait = max(amount - level, 0.0) / self._rate
        then = begin + round(wait)
        self._level, self._since = level + (then - begin) * self._rate - amount, then
        return then


class Door:
    """In front of the router."""

    __slots__ = ("_agenda", "_buckets", "_enter", "_in_fleet", "_most", "_refuse", "_tenant", "_tokens", "delayed")

    def __init__(
        self,
        agenda: Agenda,
        tenant: Sequence[int],
        tokens: Sequence[int],
        limits: Sequence[RateLimit | None],
        most: int | None,
        in_fleet: Callable[[], int],
        enter: Callable[[int], None],
        refuse: Callable[[int, int], None],
    ) -> None:
        """Open. `tenant` and `tokens` are by request; `enter` is called with a request that may pass, `refuse` with one
        that may not and the reason; `in_fleet` counts requests inside, `most` is how many may be."""
        self._agenda, self._tenant, self._tokens = agenda, tenant, tokens
        self._buckets = [None if limit is None else Bucket(limit) for limit in limits]
        self._most, self._in_fleet, self._enter, self._refuse = most, in_fleet, enter, refuse
        self.delayed = 0
        """Requests that wait for their bucket."""

    def come(self, request: int) -> None:
        """A request is here."""
        bucket = self._buckets[self._tenant[request]] if self._buckets else None
        now = self._agenda.now
        if bucket is not None:
            amount = float(self._tokens[request]) if bucket.by_tokens else 1.0
            if bucket.waits:
                then = bucket.book(amount, now)
                if then > now:
                    self.delayed += 1
                    self._agenda.at(then, lambda _: self._late(request))
                    return
            elif not bucket.take(amount, now):
                self._refuse(request, RATE_LIMIT)
                return
        self._admit(request)

    def _late(self, request: int) -> None:
        self.delayed -= 1
        self._admit(request)

    def _admit(self, request: int) -> None:
        if self._most is not None and self._in_fleet() >= self._most:
            self._refuse(request, FLEET_FULL)
        else:
            self._enter(request)
