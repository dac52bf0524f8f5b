"""Max-min fairness of flows that want the same wherever they go, as those of a network do: progressive filling.

The resource that grants its flows least is settled first, at that level; what wants less is settled before at what it
wants. Each use is then looked at once, in place of once a round as in `sharing`. Bertsekas and Gallager, *Data
Networks*, section 6.5.2.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf

SLACK = 1e-9
"""Relative excess over a capacity that is rounding, not contention."""

Use = tuple[int, float, float]
"""(resource, rate, flows)."""


def plain(uses: Sequence[Sequence[Use]]) -> bool:
    """Whether each activity names a resource once, reserves nothing, and has one rate per flow, to the bit.

    False is no more than a doubt.
    """
    for mine in uses:
        if not mine:
            continue
        first, most, flows = mine[0]
        if most <= 0 or flows == inf:
            return False
        if len(mine) == 2:
            other, rate, weight = mine[1]
            if other == first or rate * flows != most * weight or weight == inf:
                return False
        elif len(mine) > 2:
            for _, rate, weight in mine:
                if rate * flows != most * weight or weight == inf:
                    return False
            if len({use[0] for use in mine}) < len(mine):
                return False
    return True


def even(uses: Sequence[Sequence[Use]]) -> bool:
    """Whether each activity has one rate per flow on all its resources, to the bit."""
    for mine in uses:
        if len(mine) > 1:
            _, first, weight = mine[0]
            for _, rate, flows in mine:
                if rate * weight != first * flows:
                    return False
    return True


def fill(uses: Sequence[Sequence[Use]], capacity: Mapping[int, float]) -> list[float]:
    """Speed in [0, 1] of each activity; `uses` are its resources, each once and with a rate.

    Of equal levels that of the resource that `capacity` names first is settled first.
    """
    flows, users = _resources(uses)
    left = {resource: capacity[resource] for resource in users}
    speeds = [-1.0] * len(uses)
    wanted = [mine[0][1] / mine[0][2] if mine else inf for mine in uses]
    least = sorted(range(len(uses)), key=wanted.__getitem__, reverse=True)
    levels = [
        (_level(left[resource], flows[resource]), place, resource)
        for place, resource in enumerate(capacity)
        if resource in users
    ]
    heapify(levels)
    while levels:
        before, place, resource = heappop(levels)
        level = _level(left[resource], flows[resource])
        if level > before:  # users have left since; levels only rise
            heappush(levels, (level, place, resource))
            continue
        users[resource] = own = [user for user in users[resource] if speeds[user[0]] < 0]
        flows[resource] = total = sum([weight for _, weight in own])
        if not own:
            continue
        level = _level(left[resource], total)
        while speeds[least[-1]] >= 0:
            least.pop()
        lowest = least[-1]
        if wanted[lowest] <= level + SLACK * capacity[resource] / total:
            speeds[lowest] = 1.0
            for name, rate, weight in uses[lowest]:
                left[name] -= rate
                flows[name] -= weight
            heappush(levels, (level, place, resource))
        else:
            for user, _ in own:
                speed = speeds[user] = level / wanted[user]
                for name, rate, weight in uses[user]:
                    left[name] -= rate * speed
                    flows[name] -= weight
    return [1.0 if speed < 0 else speed for speed in speeds]


def _resources(uses: Sequence[Sequence[Use]]) -> tuple[dict[int, float], dict[int, list[tuple[int, float]]]]:
    """The flows on each resource, and (activity, flows) of its users."""
    users: dict[int, list[tuple[int, float]]] = {}
    for activity, mine in enumerate(uses):
        for resource, _, weight in mine:
            if resource in users:
                users[resource].append((activity, weight))
            else:
                users[resource] = [(activity, weight)]
    return {resource: sum([weight for _, weight in own]) for resource, own in users.items()}, users


def _level(left: float, flows: float) -> float:
    """Units per flow, should all users go on to share what is left."""
    return (left if left > 0.0 else 0.0) / flows if flows > 0 else inf
