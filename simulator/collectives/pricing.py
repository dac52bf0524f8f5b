"""What collectives cost: the closed form, for one group or for all groups that run at the same time.

Time of a collective = launch + sum over its phases of repeat x (hops x step latency + time of the busiest link), each
term rounded to ticks; time of a link = bytes of all transfers of all groups on it / (capacity x efficiency of the
protocol). A message that does not fill the library's pipeline takes longer by the protocol's `fill`. Latency of the
wire beyond what the profile's step latencies include is added to each hop. Sibling groups run in step, phase by phase,
so their bytes on shared links add up. The algorithm and the protocol are those with the shortest predicted time of the
group alone, as a library that knows nothing of its siblings chooses.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.collectives.algorithms import ALGORITHMS
from simulator.collectives.demand import Demand, demand_of
from simulator.collectives.layout import Layout, layouts
from simulator.collectives.phase import Phase
from simulator.collectives.rate import Rate, rate_of, rounded
from simulator.errors import InputError, Problem, nearest
from simulator.fabric import Fabric
from simulator.specs.collectives import CollectiveProfile, Protocol

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


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Groups of one layout with the algorithm and protocol that they run."""

    algorithm: str
    protocol: str
    rate: Rate
    demands: tuple[Demand, ...]
    rows: Ints
    """Which of the sibling groups these are."""


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
    choices = [
        _shared(choose(operation, layout, ranks[rows[0]], size_bytes, fabric, profile, algorithm), ranks, rows, fabric)
        for layout, rows in layouts(ranks, fabric)
    ]
    held = {id(choice): Counter[int]() for choice in choices}
    for load, sharing in _in_step(choices, fabric):
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


def choose(
    operation: str,
    layout: Layout,
    group: Ints,
    size_bytes: float,
    fabric: Fabric,
    profile: CollectiveProfile,
    algorithm: str,
) -> Choice:
    """The algorithm and protocol that finish first where the group (n,), its ranks in order, is alone."""
    name, _, protocol_name = algorithm.partition("/")
    best: tuple[int, Choice] | None = None
    measured: dict[str, tuple[tuple[Demand, ...], list[tuple[Floats, Floats]]]] = {}
    options = [
        (rate.least_ticks(phases), candidate, protocol, phases, rate)
        for candidate, phases in _able(operation, layout, _candidates(operation, name, profile))
        for protocol, spec in _protocols(candidate, protocol_name, profile)
        for rate in (rate_of(operation, phases, layout.members, size_bytes, spec, profile),)
    ]
    # The quickest to start first: once one has finished before others have passed their hops, these need no routing.
    for least, candidate, protocol, phases, rate in sorted(options, key=lambda option: option[0]):
        if best is not None and least >= best[0]:
            break
        if candidate not in measured:
            demands = tuple(demand_of(phase, group[None], fabric) for phase in phases)
            measured[candidate] = demands, [demand.planned(fabric) for demand in demands]
        demands, busy = measured[candidate]
        ticks = int(rate.total_ticks(demands, busy)[0])
        if best is None or ticks < best[0]:
            best = (ticks, Choice(candidate, protocol, rate, demands, np.zeros(1, np.int64)))
    if best is None:
        place = f"{layout.members} ranks on {layout.nodes} nodes"
        raise InputError(f"the algorithm `{name}` cannot do {operation} of {place} on this fabric")
    return best[1]


def _able(operation: str, layout: Layout, names: tuple[str, ...]) -> Iterator[tuple[str, tuple[Phase, ...]]]:
    """Those of the algorithms that can do this, with their phases."""
    for name in names:
        phases = ALGORITHMS.get(name)(operation, layout)
        if phases is not None:
            yield name, phases


def _candidates(operation: str, name: str, profile: CollectiveProfile) -> tuple[str, ...]:
    """Names of the algorithms to try."""
    if name != "auto":
        return (name,)
    # What a library has for large machines may not apply to a small group: direct transfers and rings always do.
    fallback = "direct" if operation in ("send", "all_to_all") else "ring"
    own: tuple[str, ...] = profile.algorithms.get(operation, ())  # type: ignore[call-overload]
    return own if fallback in own else (*own, fallback)


def _protocols(algorithm: str, name: str, profile: CollectiveProfile) -> list[tuple[str, Protocol]]:
    if not name:
        return list(profile.protocols_of(algorithm).items())
    if name not in profile.protocols:
        raise InputError(Problem(f"unknown protocol `{name}`", hint=nearest(name, profile.protocols)))
    return [(name, profile.protocols[name])]


def _shared(choice: Choice, ranks: Ints, rows: Ints, fabric: Fabric) -> Choice:
    """The same choice for all groups of the layout."""
    if len(rows) == 1:
        return replace(choice, rows=rows)
    return replace(choice, rows=rows, demands=tuple(demand_of(d.phase, ranks[rows], fabric) for d in choice.demands))


def _in_step(choices: list[Choice], fabric: Fabric) -> Iterator[tuple[Floats, list[tuple[Choice, Demand]]]]:
    """Phase by phase: the bytes on each link in the whole phase, for a size of one byte, and who takes part."""
    for demands in zip_longest(*(choice.demands for choice in choices)):
        sharing = [(choice, demand) for choice, demand in zip(choices, demands, strict=True) if demand is not None]
        load = np.zeros(len(fabric.capacity))
        for _, demand in sharing:
            load += demand.load(fabric) * demand.phase.repeat
        yield load, sharing
