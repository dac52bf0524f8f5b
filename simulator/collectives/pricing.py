"""What collectives cost: the closed form, for one group or for all groups that run at the same time.

Time of a collective = launch + sum over its phases of repeat x (hops x step latency + time of the busiest link), each
term rounded to ticks; time of a link = bytes of all transfers of all groups on it / (capacity x efficiency of the
protocol). A message that does not fill the library's pipeline takes longer by the protocol's `fill`. Latency of the
wire beyond what the profile's step latencies include is added to each hop. Sibling groups run in step, phase by phase,
so their bytes on shared links add up. Which algorithm and protocol run is `choice`'s.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.collectives.choice import choose, in_step
from simulator.collectives.rate import rounded
from simulator.errors import InputError, Problem, nearest
from simulator.fabric import Fabric
from simulator.specs.collectives import CollectiveProfile

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send")


@dataclass(frozen=True, slots=True, eq=False)
class Cost:
    """What a collective of sibling groups costs."""

    operation: str
    algorithms: tuple[str, ...]
    """`algorithm/protocol` that groups run, for example `ring/LL128`; several where groups lie differently."""
    ticks: Ints
    """Of each group, with all siblings running; (groups,)."""
    load: Floats
    """Bytes that each link carries for all groups together; (links,)."""
    moving: Ints
    """Of the ticks, those in which bytes move; the others are launch and hops; (groups,)."""
    bottleneck: Ints
    """Kind of link (index into `Fabric.kinds`) that decides the rate for most of that time, -1 for none; (groups,)."""

    @property
    def slowest(self) -> int:
        """Ticks until the last group is done."""
        return int(self.ticks.max(initial=0))


def price(
    operation: str,
    groups: ArrayLike,
    size_bytes: float,
    fabric: Fabric,
    profile: CollectiveProfile,
    algorithm: str = "auto",
) -> Cost:
    """Cost of a collective that all `groups`, shape (g, n) of ranks, run at the same time.

    `size_bytes` counts as nccl-tests do: all_reduce and broadcast the buffer, all_gather and reduce_scatter the full
    gathered buffer, all_to_all the send buffer of one rank, send the message (groups are then pairs of source and
    destination). A group of one costs nothing. `algorithm` is a name such as `ring`, a name with a protocol such as
    `ring/LL128`, or `auto`. Raises InputError for unknown names and for an algorithm that cannot do this.
    """
    ranks = np.atleast_2d(np.asarray(groups, np.int64))
    check(operation)
    if ranks.shape[1] < 2 or ranks.size == 0 or size_bytes <= 0:
        return free(operation, len(ranks), fabric)
    ticks, moving = np.zeros(len(ranks), np.int64), np.zeros(len(ranks), np.int64)
    bottleneck, total = np.full(len(ranks), -1), np.zeros(len(fabric.capacity))
    ranks = in_order(operation, ranks)
    choices = choose(operation, ranks, size_bytes, fabric, profile, algorithm)
    held = {id(choice): Counter[int]() for choice in choices}
    for load, sharing in in_step(choices, fabric):
        total += load * size_bytes
        for choice, demand in sharing:
            repeat = demand.phase.repeat
            seconds = load / (repeat * fabric.capacity)
            busy = demand.busiest(seconds, fabric.first_outer)
            part = repeat * rounded(choice.rate.moving(busy))
            ticks[choice.rows] += repeat * choice.rate.step_ticks(demand, busy)
            moving[choice.rows] += part
            slowest = int(np.argmax(part))
            link = demand.slowest_link(slowest, seconds, choice.rate.per_byte, fabric.first_outer)
            held[id(choice)][fabric.block_of(link) if link >= 0 else -1] += int(part[slowest])
    for choice in choices:
        ticks[choice.rows] += rounded(choice.rate.launch)
        bottleneck[choice.rows] = held[id(choice)].most_common(1)[0][0]
    names = dict.fromkeys(f"{choice.algorithm}/{choice.protocol}" for choice in choices)
    return Cost(operation, tuple(names), ticks, total, moving, bottleneck)


def free(operation: str, groups: int, fabric: Fabric) -> Cost:
    """The cost of a collective that does nothing."""
    none = np.zeros(groups, np.int64)
    return Cost(operation, (), none, np.zeros(len(fabric.capacity)), none, none - 1)


def check(operation: str) -> None:
    """InputError where there is no such collective."""
    if operation not in OPERATIONS:
        raise InputError(Problem(f"unknown collective `{operation}`", hint=nearest(operation, OPERATIONS)))


def in_order(operation: str, ranks: Ints) -> Ints:
    """Members in the order of the algorithm: sorted, apart from a send's source and destination."""
    return ranks if operation == "send" else np.sort(ranks, axis=-1)
