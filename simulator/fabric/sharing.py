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
from collections.abc import Iterable, Sequence
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


def max_min(
    uses_activity: Sequence[int],
    uses_resource: Sequence[int],
    uses_rate: Sequence[float],
    uses_flows: Sequence[float],
    capacity: Sequence[float],
) -> list[float]:
    """Speed in [0, 1] of each activity 0 .. max(uses_activity).

    Row i says that activity `uses_activity[i]` takes `uses_rate[i]` of resource `uses_resource[i]` at full speed and
    counts as `uses_flows[i]` > 0 flows there, infinitely many where it is reserved; rows of the same pair add up.
    `capacity` is in the unit of the rates. Pure; exact up to rounding; takes at most as many rounds as there are
    resources.
    """
    speeds = [-1.0] * (max(uses_activity, default=-1) + 1)
    if inf in uses_flows:
        return _beside_reserved(uses_activity, uses_resource, uses_rate, uses_flows, capacity)
    uses = _uses(len(speeds), uses_activity, uses_resource, uses_rate, uses_flows)
    if even_flows.even(uses):
        return even_flows.fill(uses, capacity)
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


def _beside_reserved(
    activities: Sequence[int],
    names: Sequence[int],
    rates: Sequence[float],
    flows: Sequence[float],
    capacity: Sequence[float],
) -> list[float]:
    """The speeds where something is reserved: share what is left, by activities that ask for what they can reach."""
    rows = list(zip(activities, names, rates, flows, strict=True))
    taken: dict[int, float] = defaultdict(float)
    for _, name, rate, weight in rows:
        taken[name] += rate if weight == inf else 0.0
    left = [units - taken[name] if taken[name] < units * (1 - SLACK) else 0.0 for name, units in enumerate(capacity)]
    most = [1.0] * (max(activities) + 1)
    for activity, name, _, weight in rows:
        if weight == inf and taken[name] > capacity[name] * (1 + SLACK):
            most[activity] = min(most[activity], capacity[name] / taken[name])
    shared = [(a, name, rate * most[a], weight) for a, name, rate, weight in rows if weight != inf and most[a] > 0]
    users, resources, asked, weights = (list(column) for column in zip(*shared, strict=True)) if shared else [[]] * 4
    speeds = max_min(users, resources, asked, weights, left)
    speeds += [1.0] * (len(most) - len(speeds))
    return [speed * limit for speed, limit in zip(speeds, most, strict=True)]


def _uses(
    activities: int,
    users: Iterable[int],
    names: Iterable[int],
    rates: Iterable[float],
    flows: Iterable[float],
) -> list[list[even_flows.Use]]:
    """What each activity uses; rows of one activity on one resource are added up, rows without a rate left out."""
    uses: list[list[even_flows.Use]] = [[] for _ in range(activities)]
    for activity, name, rate, weight in zip(users, names, rates, flows, strict=True):
        if rate > 0:
            uses[activity].append((name, rate, weight))
    for activity, mine in enumerate(uses):
        if len(mine) > 1 and len({use[0] for use in mine}) < len(mine):
            uses[activity] = _added_up(mine)
    return uses


def _added_up(uses: Iterable[even_flows.Use]) -> list[even_flows.Use]:
    """Uses of one resource as one."""
    merged: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for name, rate, weight in uses:
        merged[name] = (merged[name][0] + rate, merged[name][1] + weight)
    return [(name, rate, weight) for name, (rate, weight) in merged.items()]


def _resources(uses: Iterable[Iterable[even_flows.Use]], capacity: Sequence[float]) -> list[_Resource]:
    """The resources with users."""
    resources = [_Resource(float(units)) for units in capacity]
    for activity, mine in enumerate(uses):
        for name, rate, weight in mine:
            resources[name].users.append((rate / weight, rate, weight, activity))
    for resource in resources:
        resource.users.sort()
    return [resource for resource in resources if resource.users]


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
