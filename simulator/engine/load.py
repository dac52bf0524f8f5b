"""Load of each resource over time, by user: piecewise constant, in bounded memory.

The fluid says beforehand what it is about to change. A resource is booked once an instant that changed it, when the
next change comes: then all that happened in the instant has happened. Where there are too many intervals, the shortest
are merged with their neighbours, so that the units carried stay what they are.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from simulator.engine.fluid import Fluid
    from simulator.engine.running import Needs


class Span(NamedTuple):
    """An interval in which what a resource carries did not change, or the mean over several such intervals."""

    start: int
    stop: int
    capacity: float
    """Units per tick that the resource had."""
    by: dict[Hashable, float]
    """Units per tick that it carried for each label."""

    @property
    def load(self) -> float:
        """Units per tick that it carried."""
        return sum(self.by.values())


Counts = Callable[[int, Span], None]
"""Given (resource, interval) of each interval that is over, before it may be merged with others."""


class Load:
    """The record of some resources of a fluid, or of all."""

    def __init__(
        self, fluid: "Fluid", resources: Collection[int] | None, most: int, counts: Counts | None = None
    ) -> None:
        """Begin now; at most `most` intervals of a resource are kept, `counts` is given each."""
        self.fluid = fluid
        self.counts = counts
        self.only = None if resources is None else frozenset(resources)
        self.most = max(most, 4)
        self.spans: dict[int, list[Span]] = {}
        """What is booked of each resource; the last interval is open, it ends where it starts."""
        self.instant = int(fluid.env._now)
        """When `touched` was touched."""
        self.kept: dict[int, tuple[int, ...]] = {}
        """Of the resources of what phases use, by its number, those on the record."""
        self.touched = {i for i, users in enumerate(fluid.users) if users}

    def of(self, resource: int) -> list[Span]:
        """What a resource carried until now, in order and without gaps, from its first user on and until its last."""
        self._book(int(self.fluid.env._now))
        spans = self.spans.get(resource, [])
        if not spans or not spans[-1].by or spans[-1].start == self.instant:
            return spans[:-1]
        return [*spans[:-1], spans[-1]._replace(stop=self.instant)]

    def finish(self) -> None:
        """End what is open: nothing changes any more."""
        self._book(int(self.fluid.env._now))
        for resource, spans in self.spans.items():
            if spans[-1].by:
                self._append(resource, spans[-1].capacity, {})

    def touched_by(self, needs: "Needs") -> None:
        """What the resources carry that a phase uses is about to change."""
        kept = self.kept.get(needs.number)
        if kept is None:
            found = (resource for resource in needs.resources if self.only is None or resource in self.only)
            kept = self.kept[needs.number] = tuple(found)
        if kept:
            self.touch(kept)

    def touch(self, resources: Iterable[int]) -> None:
        """What these resources carry is about to change."""
        now = int(self.fluid.env._now)
        if now > self.instant:
            self._book(now)
        self.touched.update(resources)

    def _book(self, now: int) -> None:
        """Book what the resources that were touched have carried since."""
        if now == self.instant:
            return
        for resource in self.touched if self.only is None else self.touched & self.only:
            self._append(resource, self.fluid.capacity[resource], self._carried(resource))
        self.touched.clear()
        self.instant = now

    def _carried(self, resource: int) -> dict[Hashable, float]:
        """Units per tick that a resource carries for each label."""
        by: dict[Hashable, float] = {}
        for user, rate in self.fluid.users[resource].items():
            if resource in user.needs.reserved:
                return self._beside_reserved(resource)
            units = rate * user.speed
            if units > 0:
                by[user.label] = by.get(user.label, 0.0) + units
        return by

    def _beside_reserved(self, resource: int) -> dict[Hashable, float]:
        """The same where some have reserved their part: they keep it at any speed."""
        users = self.fluid.users[resource]
        kept = [user.needs.reserved.get(resource, 0.0) for user in users]
        part = min(1.0, self.fluid.capacity[resource] / sum(kept)) if any(kept) else 1.0
        by: dict[Hashable, float] = {}
        for (user, rate), keeps in zip(users.items(), kept, strict=True):
            units = keeps * part + (rate - keeps) * user.speed
            if units > 0:
                by[user.label] = by.get(user.label, 0.0) + units
        return by

    def _append(self, resource: int, capacity: float, by: dict[Hashable, float]) -> None:
        """End the open interval at this instant and open another, unless nothing changed."""
        spans = self.spans.setdefault(resource, [])
        if spans:
            start, _, before, what = spans[-1]
            if what == by and before == capacity:
                return
            spans[-1] = Span(start, self.instant, before, what)
            if self.counts is not None:
                self.counts(resource, spans[-1])
        spans.append(Span(self.instant, self.instant, capacity, by))
        if len(spans) > self.most:
            spans[:-1] = _coarser(spans[:-1])


def _coarser(spans: list[Span]) -> list[Span]:
    """Merge the shorter half of all pairs of neighbours, each interval once."""
    width = sorted(b.stop - a.start for a, b in pairwise(spans))
    longest, merged = width[len(width) // 2], [spans[0]]
    whole = True
    for span in spans[1:]:
        if whole and span.stop - merged[-1].start <= longest:
            merged[-1] = _mean(merged[-1], span)
            whole = False
        else:
            merged.append(span)
            whole = True
    return merged


def _mean(first: Span, second: Span) -> Span:
    """Both in one, with what they carried."""
    lasts = second.stop - first.start
    share = (first.stop - first.start) / lasts
    by = {
        label: first.by.get(label, 0.0) * share + second.by.get(label, 0.0) * (1 - share)
        for label in (*first.by, *second.by)
    }
    return Span(first.start, second.stop, first.capacity * share + second.capacity * (1 - share), by)
