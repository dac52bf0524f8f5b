"""Who could get into whose way: users of resources that, all at once, could ask one for more than it has.

Only those run on the resources of the clock; all others last what they cost alone, which is then exact. A user is
a user that runs many things: a replica, a way of moved caches, a training job, links that get slow for a while.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

SLACK = 1e-9
"""Relative excess over a capacity that is rounding, not contention."""


class Wires:
    """The resources of one user, and the other users of any of them."""

    __slots__ = ("active", "guests", "neighbours")

    def __init__(self) -> None:
        """Nobody is near."""
        self.active = 0
        """Uses at this moment."""
        self.neighbours: list[Wires] = []
        """Who could ask for more than there is, together with this one, those that come as `guests` apart."""
        self.guests = 0
        """Neighbours of which there may be many, those that are on these resources now."""

    def contended(self) -> bool:
        """Whether another user is on these resources."""
        return self.guests > 0 or any(other.active for other in self.neighbours)

    def enter(self) -> None:
        """Begin to use them: the users that are on them share from now on."""
        self.active += 1
        for other in self.neighbours:
            if other.active:
                other.share()

    def leave(self) -> None:
        """Use them no longer."""
        self.active -= 1

    def share(self) -> None:
        """Somebody joins."""


class GuestWires(Wires):
    """Those of a user of which there may be many, and that has nothing to do when another joins: it reports its
    coming and going, so that none has to be polled."""

    __slots__ = ()

    def enter(self) -> None:
        """Begin to use them, announced to the neighbours."""
        if not self.active:
            for other in self.neighbours:
                other.guests += 1
        super().enter()

    def leave(self) -> None:
        """Use them no longer, announced to the neighbours."""
        super().leave()
        if not self.active:
            for other in self.neighbours:
                other.guests -= 1


@dataclass(eq=False)
class User:
    """A user of resources."""

    resources: Collection[int]
    """All that it may use."""
    rates: Callable[[], Mapping[int, float]] | None
    """The most units per tick that it asks of each of them; None where there is no bound."""
    wires: Callable[[], Wires] | None
    """Makes it run on the resources of the clock; None where it cannot."""
    owner: str = ""
    """Its owner, for records of meetings; empty where none are kept."""
    met: dict[int, None] = field(default_factory=dict)
    """Resources on which it can meet others."""
    others: "dict[User, None]" = field(default_factory=dict)
    """Whom it can meet there."""

    @cached_property
    def most(self) -> Mapping[int, float] | None:
        """As `rates`."""
        return None if self.rates is None else self.rates()


def meet(users: Sequence[User], capacity: Sequence[float]) -> None:
    """Find which users can meet, and on which resources; `capacity` in units per tick.

    Users without a bound share with each other in any case: they meet only those that have one.
    """
    on: dict[int, list[User]] = defaultdict(list)
    for user in users:
        for resource in user.resources:
            on[resource].append(user)
    for resource, here in sorted(on.items()):
        if len(here) > 1 and any(user.rates is not None for user in here):
            _meet_on(resource, here, capacity[resource])


def _meet_on(resource: int, users: Iterable[User], capacity: float) -> None:
    """Users that meet on one resource."""
    asks = {user: float("inf") if user.most is None else user.most.get(resource, 0.0) for user in users}
    here = [user for user, rate in asks.items() if rate > 0]
    bounded = [user for user in here if user.rates is not None]
    if len(here) < 2 or not bounded or sum(asks.values()) <= (1 + SLACK) * capacity:
        return
    for user in here:
        user.met[resource] = None
        user.others.update((other, None) for other in (here if user in bounded else bounded) if other is not user)


def join(users: Sequence[User]) -> None:
    """Let users that meet run on the resources of the clock, as neighbours; guests do not look at each other."""
    made = {user: user.wires() for user in users if user.met and user.wires is not None}
    for user, wires in made.items():
        known = (made[other] for other in user.others if other in made)
        wires.neighbours = [other for other in known if not isinstance(other, GuestWires)]
