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
    return all(rate * mine[0][2] == mine[0][1] * flows for mine in uses for _, rate, flows in mine)


class _Filling:
    """What is left of the resources, and the activities whose speed is open."""

    def __init__(self, uses: Sequence[Sequence[Use]], capacity: Sequence[float]) -> None:
        """Start with everything to give."""
        self.uses = uses
        self.left = list(capacity)
        self.flows = [0.0] * len(capacity)
        self.users: list[list[tuple[int, float]]] = [[] for _ in capacity]
        """(activity, flows) on each resource."""
        self.speeds = [-1.0] * len(uses)
        for activity, mine in enumerate(uses):
            for resource, _, flows in mine:
                self.flows[resource] += flows
                self.users[resource].append((activity, flows))

    def level(self, resource: int) -> float:
        """Units per flow, should all users go on to share what is left."""
        return max(self.left[resource], 0.0) / self.flows[resource] if self.flows[resource] > 0 else inf

    def narrow(self, resource: int) -> list[int]:
        """The open users of a resource, whose flows are added up again."""
        self.users[resource] = users = [user for user in self.users[resource] if self.speeds[user[0]] < 0]
        self.flows[resource] = sum([flows for _, flows in users])
        return [activity for activity, _ in users]

    def settle(self, activity: int, speed: float) -> None:
        """Fix a speed, and take what it uses out of the resources."""
        self.speeds[activity] = speed
        for resource, rate, flows in self.uses[activity]:
            self.left[resource] -= rate * speed
            self.flows[resource] -= flows


def fill(uses: Sequence[Sequence[Use]], capacity: Sequence[float]) -> list[float]:
    """Speed in [0, 1] of each activity; `uses` are its resources, each once and with a rate."""
    state = _Filling(uses, capacity)
    wanted = [mine[0][1] / mine[0][2] if mine else inf for mine in uses]
    least = sorted(range(len(uses)), key=wanted.__getitem__, reverse=True)
    levels = [(state.level(resource), resource) for resource, users in enumerate(state.users) if users]
    heapify(levels)
    while levels:
        before, resource = heappop(levels)
        level = state.level(resource)
        if level > before:  # users have left since; levels only rise
            heappush(levels, (level, resource))
            continue
        users = state.narrow(resource)
        if not users:
            continue
        level = state.level(resource)
        while state.speeds[least[-1]] >= 0:
            least.pop()
        if wanted[least[-1]] <= level + SLACK * capacity[resource] / state.flows[resource]:
            state.settle(least[-1], 1.0)
            heappush(levels, (level, resource))
        else:
            for user in users:
                state.settle(user, level / wanted[user])
    return [1.0 if speed < 0 else speed for speed in state.speeds]
