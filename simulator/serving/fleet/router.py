"""Which replica gets a request: pure decisions on what the replicas show.

A router is a function (replicas, request, state) -> index. Sources: power of two choices, Mitzenmacher 2001; routing by
prefix as in SGLang's router: the longest match, unless its replica is much busier than the idlest one. Equals take
turns, as in balancers by least connections (HAProxy, nginx): the search begins after the replica that was chosen last.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from numpy.random import Generator

from simulator.registry import Registry
from simulator.serving.fleet.outstanding import MANY, Outstanding
from simulator.serving.replica.replica import Replica

BUSIER = 1.5
"""How many times the mean work a replica may have for its cached prefix to count."""
SLACK = 4
"""Requests more than the idlest replica that never count as imbalance."""


@dataclass(slots=True)
class Choice:
    """What a router knows besides the replicas."""

    random: Generator
    """Its own stream of random numbers."""
    now: int = 0
    turn: int = -1
    """The replica that was chosen last."""
    version: int = 0
    """Changes when other replicas take requests."""
    outstanding: Outstanding | None = None
    """Unfinished requests of all replicas in one column; None where it is not kept."""
    session: Sequence[int] | None = None
    """Conversation of each request, below 0 for none; None where there are no conversations."""
    prefix: Sequence[Sequence[int]] | None = None
    """Identities of the blocks that each prompt begins with; None where nothing is shared."""
    homes: dict[int, int] = field(default_factory=dict)
    """Replica, by its number, that a conversation, or a prompt's beginning, was sent to."""
    ring: tuple[int, list[int], list[int]] = (-1, [], [])
    """Of `consistent-hash`: version, points, and the replica at each."""

    def least(self, replicas: Sequence[Replica], key: Callable[[int], tuple[int, ...]]) -> int:
        """The index of the least key; of equals the first one after the last choice."""
        count = len(replicas)
        self.turn = min(((self.turn + 1 + i) % count for i in range(count)), key=key)
        return self.turn


Router = Callable[[Sequence[Replica], int, Choice], int]

ROUTERS: Registry[Router] = Registry("router")


@ROUTERS.add("round-robin")
def round_robin(replicas: Sequence[Replica], request: int, choice: Choice) -> int:
    """One after the other."""
    choice.turn = (choice.turn + 1) % len(replicas)
    return choice.turn


@ROUTERS.add("random")
def random(replicas: Sequence[Replica], request: int, choice: Choice) -> int:
    """Any, with equal probability."""
    return int(choice.random.integers(len(replicas)))


@ROUTERS.add("least-outstanding")
def least_outstanding(replicas: Sequence[Replica], request: int, choice: Choice) -> int:
    """The one with the fewest unfinished requests; equals in turn."""
    if choice.outstanding is not None and len(replicas) >= MANY:
        choice.turn = choice.outstanding.least((choice.turn + 1) % len(replicas))
        return choice.turn
    return choice.least(replicas, lambda i: (replicas[i].outstanding,))


@ROUTERS.add("shortest-queue")
def shortest_queue(replicas: Sequence[Replica], request: int, choice: Choice) -> int:
    """The one with the fewest tokens queued and in contexts; equals in turn."""
    return choice.least(replicas, lambda i: (replicas[i].tokens(choice.now),))


@ROUTERS.add("power-of-two")
def power_of_two(replicas: Sequence[Replica], request: int, choice: Choice) -> int:
    """The less busy of two drawn at random; of equals the one drawn first."""
    if len(replicas) == 1:
        return 0
    first, second = choice.random.choice(len(replicas), 2, replace=False).tolist()
    return int(min((first, second), key=lambda i: replicas[i].outstanding))


@ROUTERS.add("prefix-aware")
def prefix_aware(replicas: Sequence[Replica], request: int, choice: Choice) -> int:
    """The longest cached prefix among those that are not much busier than the rest; then the least busy, equals in
    turn."""
    busy = [replica.outstanding for replica in replicas]
    most = max(min(busy) + SLACK, BUSIER * sum(busy) / len(busy))
    return choice.least(replicas, lambda i: (1, 0, 0) if busy[i] > most else (0, -replicas[i].cached(request), busy[i]))
