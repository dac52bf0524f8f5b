"""Max-min fair sharing of resources: numbers in, speeds out; no term of networks.

An activity runs at one speed x in [0, 1] and then takes `x * rate` of every resource that it uses. A resource that is
asked for more than it has divides itself by flows: each of its users gets `flows * level`, a user that wants less keeps
what it wants, and the level is as high as the capacity allows (water filling). The speed of an activity is set by the
resource that gives it least, its bottleneck; what it leaves unused elsewhere goes to others. Where every activity has
the same rate per flow on all its resources this is the weighted max-min fairness of Bertsekas and Gallager, *Data
Networks*, section 6.5.2. An activity cut in two (rates and flows divided alike) gets the same speed in both halves.

What is used with infinitely many flows is reserved: the activity keeps its rate of that resource at any speed, and the
others share what is left. If more is reserved than there is, each gets its part of it and runs no faster than that.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from simulator.fabric import even_flows

SLACK = 1e-9
"""Relative excess over a capacity that is rounding, not contention."""


class _Resource:
    """A resource in the course of the solution."""

    __slots__ = ("full", "left", "users")

    def __init__(self, capacity: float) -> None:
        """Start with everything to give and no user."""
        self.full = capacity
        self.left = capacity
        self.users: list[tuple[float, float, float, int]] = []
        """(rate per flow, rate, flows, activity) of those whose speed is open, by rising rate per flow."""

    def level(self) -> float:
        """Bytes per flow that water filling grants to flows that could use more; infinite where none could."""
        left, flows = self.left, sum(user[2] for user in self.users)
        for per_flow, rate, weight, _ in self.users:
            if flows <= 0 or per_flow * flows <= left + SLACK * self.full:
                left -= rate
                flows -= weight
            else:
                return max(left, 0.0) / flows
        return float("inf")


def max_min(uses: Sequence[Sequence[even_flows.Use]], capacity: Mapping[int, float]) -> list[float]:
    """Speed in [0, 1] of each activity; `uses[i]` are the uses (resource, rate, flows) of activity i.

    An activity takes `rate` of a resource at full speed and counts as `flows` > 0 flows there, infinitely many where it
    is reserved; uses of the same resource add up. `capacity` is by resource, in the unit of the rates. Pure; exact up
    to rounding; takes at most as many rounds as there are resources.
    """
    if even_flows.plain(uses):
        return even_flows.fill(uses, capacity)
    if any(use[2] == inf for mine in uses for use in mine):
        return _beside_reserved(uses, capacity)
    uses = [_added_up(mine) for mine in uses]
    return even_flows.fill(uses, capacity) if even_flows.even(uses) else _by_rounds(uses, capacity)


def _by_rounds(uses: Sequence[Sequence[even_flows.Use]], capacity: Mapping[int, float]) -> list[float]:
    """The speeds where an activity wants more of a flow on one resource than on another."""
    speeds = [-1.0] * len(uses)
    resources = _resources(uses, capacity)
    while resources:
        floor = _floor(resources)
        full = [r for r in resources if _asked(r, floor) >= r.left - SLACK * r.full]
        if not full:
            full = _raised(resources, floor)
        settled = {user[3] for resource in full for user in resource.users}
        settled.update(activity for activity, speed in floor.items() if speed >= 1.0 - SLACK)
        _settle(resources, floor, settled, speeds)
        resources = [resource for resource in resources if resource.users]
    return [1.0 if speed < 0 else speed for speed in speeds]


def _beside_reserved(uses: Sequence[Sequence[even_flows.Use]], capacity: Mapping[int, float]) -> list[float]:
    """The speeds where something is reserved: share what is left, by activities that ask for what they can reach."""
    taken = dict.fromkeys(capacity, 0.0)
    for mine in uses:
        for name, rate, weight in mine:
            taken[name] += rate if weight == inf else 0.0
    left = {name: units - taken[name] if taken[name] < units * (1 - SLACK) else 0.0 for name, units in capacity.items()}
    most = [1.0] * len(uses)
    for activity, mine in enumerate(uses):
        for name, _, weight in mine:
            if weight == inf and taken[name] > capacity[name] * (1 + SLACK):
                most[activity] = min(most[activity], capacity[name] / taken[name])
    asked = [
        [(name, rate * limit, weight) for name, rate, weight in mine if weight != inf and limit > 0]
        for mine, limit in zip(uses, most, strict=True)
    ]
    return [speed * limit for speed, limit in zip(max_min(asked, left), most, strict=True)]


def _added_up(uses: Sequence[even_flows.Use]) -> Sequence[even_flows.Use]:
    """Uses of one resource as one, without those that have no rate."""
    if len({use[0] for use in uses}) == len(uses):
        return [use for use in uses if use[1] > 0]
    merged: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for name, rate, weight in uses:
        if rate > 0:
            merged[name] = (merged[name][0] + rate, merged[name][1] + weight)
    return [(name, rate, weight) for name, (rate, weight) in merged.items()]


def _resources(uses: Iterable[Iterable[even_flows.Use]], capacity: Mapping[int, float]) -> list[_Resource]:
    """The resources with users."""
    resources = {name: _Resource(float(units)) for name, units in capacity.items()}
    for activity, mine in enumerate(uses):
        for name, rate, weight in mine:
            resources[name].users.append((rate / weight, rate, weight, activity))
    for resource in resources.values():
        resource.users.sort()
    return [resource for resource in resources.values() if resource.users]


def _floor(resources: list[_Resource]) -> dict[int, float]:
    """Speeds that the open activities get at least: their speeds if none were held back elsewhere."""
    floor: dict[int, float] = {}
    for resource in resources:
        level = resource.level()
        for per_flow, _, _, activity in resource.users:
            speed = 1.0 if per_flow <= level else level / per_flow
            if speed < floor.get(activity, 2.0):
                floor[activity] = speed
    return floor


def _asked(resource: _Resource, floor: dict[int, float]) -> float:
    return sum(rate * floor[activity] for _, rate, _, activity in resource.users)


def _raised(resources: list[_Resource], floor: dict[int, float]) -> list[_Resource]:
    """Raise all open speeds below 1 by one factor until a resource is full or an activity at full speed; returns the
    full ones.

    Needed only where weights differ so much between resources that each activity leaves the other's bottleneck unused.
    """
    slow = {activity: speed for activity, speed in floor.items() if speed < 1.0}
    factor, full = 1.0 / max(slow.values(), default=1.0), list[_Resource]()
    for resource in resources:
        growing = sum(rate * slow.get(activity, 0.0) for _, rate, _, activity in resource.users)
        if growing > 0:
            limit = 1.0 + (resource.left - _asked(resource, floor)) / growing
            if limit <= factor:
                full = [resource] if limit < factor else [*full, resource]
                factor = limit
    for activity, speed in slow.items():
        floor[activity] = min(1.0, speed * factor)
    return full


def _settle(resources: list[_Resource], floor: dict[int, float], settled: set[int], speeds: list[float]) -> None:
    """Fix speeds, and take what they use out of the resources."""
    for activity in settled:
        speeds[activity] = floor[activity]
    for resource in resources:
        resource.left -= sum(rate * floor[activity] for _, rate, _, activity in resource.users if activity in settled)
        resource.users = [user for user in resource.users if user[3] not in settled]
