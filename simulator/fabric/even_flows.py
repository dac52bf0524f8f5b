"""Max-min fairness of flows that want the same wherever they go, as those of a network do: progressive filling.

The resource that grants its flows least is settled first, at that level; what wants less is settled before at what it
wants. Each use is then looked at once, in place of once a round as in `sharing`. Bertsekas and Gallager, *Data
Networks*, section 6.5.2.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import inf

SLACK = 1e-9
"""Relative excess over a capacity that is rounding, not contention."""

Use = tuple[int, float, float]
"""(resource, rate, flows)."""


def even(uses: Sequence[Sequence[Use]]) -> bool:
    """Whether each activity has one rate per flow on all its resources, to the bit."""
    for mine in uses:
        if len(mine) > 1:
            _, first, weight = mine[0]
            for _, rate, flows in mine:
                if rate * weight != first * flows:
                    return False
    return True


def fill(uses: Sequence[Sequence[Use]], capacity: Sequence[float]) -> list[float]:
    """Speed in [0, 1] of each activity; `uses` are its resources, each once and with a rate."""
    left, flows, users = _resources(uses, capacity)
    speeds = [-1.0] * len(uses)
    wanted = [mine[0][1] / mine[0][2] if mine else inf for mine in uses]
    least = sorted(range(len(uses)), key=wanted.__getitem__, reverse=True)
    levels = [(_level(left[resource], flows[resource]), resource) for resource, own in enumerate(users) if own]
    heapify(levels)
    while levels:
        before, resource = heappop(levels)
        level = _level(left[resource], flows[resource])
        if level > before:  # users have left since; levels only rise
            heappush(levels, (level, resource))
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
            heappush(levels, (level, resource))
        else:
            for user, _ in own:
                speed = speeds[user] = level / wanted[user]
                for name, rate, weight in uses[user]:
                    left[name] -= rate * speed
                    flows[name] -= weight
    return [1.0 if speed < 0 else speed for speed in speeds]


def _resources(
    uses: Sequence[Sequence[Use]], capacity: Sequence[float]
) -> tuple[list[float], list[float], list[list[tuple[int, float]]]]:
    """What is left of each resource, the flows on it, and (activity, flows) of its users."""
    flows = [0.0] * len(capacity)
    users: list[list[tuple[int, float]]] = [[] for _ in capacity]
    for activity, mine in enumerate(uses):
        for resource, _, weight in mine:
            flows[resource] += weight
            users[resource].append((activity, weight))
    return list(capacity), flows, users


def _level(left: float, flows: float) -> float:
    """Units per flow, should all users go on to share what is left."""
    return (left if left > 0.0 else 0.0) / flows if flows > 0 else inf
