"""A plan of a collective for all groups of an axis, and what it costs.

A plan says which algorithm and protocol each group runs and which transfers its phases make. `cost` sums it in closed
form with all groups running in step; `activities` makes one fluid a phase of one group for the engine, and `steps` one
activity a transfer. With nothing else on the fabric the three agree to the tick: a test holds them to it. What they
differ by under load is contention.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.collectives.choice import Choice, choose
from simulator.collectives.demand import LinkDemand
from simulator.collectives.link_range import LinkRange
from simulator.collectives.phase import Phase
from simulator.collectives.placement import in_turn
from simulator.collectives.routing import Routing
from simulator.engine.tape import Activity, Use
from simulator.errors import InputError, Problem, nearest
from simulator.fabric import Fabric
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.units import TICKS_PER_SECOND, to_ticks

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send", "shift")
EXCHANGED = {"dispatch": "all_gather", "combine": "reduce_scatter"}
"""Exchanges of tokens with experts, and what does the same where all tokens go to all ranks (`all_gather`)."""
_WAYS = re.compile(r"-?\d{1,9}(:-?\d{1,9})*")
"""Of a shift: how many ranks on each part of a message goes."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What sibling groups do to carry out a collective at the same time."""

    operation: str
    size_bytes: float
    groups: Ints
    """Ranks of each group in the order of the algorithm; (groups, members)."""
    choices: tuple[Choice, ...]
    """Algorithm, protocol and phases of the groups, one choice for each way in which groups lie; empty where a group
    has one member or nothing is sent."""
    fabric: Fabric

    @property
    def algorithms(self) -> tuple[str, ...]:
        """`algorithm/protocol` that groups run, for example `ring/LL128`."""
        return tuple(dict.fromkeys(f"{choice.algorithm}/{choice.protocol}" for choice in self.choices))

    def choice(self, group: int) -> tuple[Choice, int]:
        """The choice of a group, and its row among the groups of that choice."""
        for choice in self.choices:
            rows = np.flatnonzero(choice.rows == group)
            if len(rows):
                return choice, int(rows[0])
        raise ValueError(f"group {group} makes no transfers")

    def phases(self, group: int) -> tuple[Phase, ...]:
        """Transfers of a group between ranks, in bytes."""
        if not self.choices:
            return ()
        choice, _ = self.choice(group)
        return tuple(demand.phase.bind(self.groups[group], self.size_bytes) for demand in choice.demands)

    def carried(self, runs: Floats) -> LinkRange:
        """Bytes on links when each group, (groups,), runs the collective so often."""
        loads = list[LinkRange]()
        for choice in self.choices:
            weights = runs[choice.rows]
            if weights.any():
                loads += [demand.load(weights * (demand.phase.repeat * self.size_bytes)) for demand in choice.demands]
        return LinkRange.total(loads)

    def carried_at(self, link: int, runs: Floats) -> float:
        """Of `carried`, the bytes on one link."""
        total = 0.0
        for choice in self.choices:
            weights = runs[choice.rows]
            if weights.any():
                for demand in choice.demands:
                    total += demand.load_at(link, weights * (demand.phase.repeat * self.size_bytes))
        return total

    def flows(self) -> Ints:
        """Transfers over each link when all groups run the collective at once; (links,)."""
        total = np.zeros(len(self.fabric.capacity), np.int64)
        for hop in (hop for choice in self.choices for demand in choice.demands for hop in demand.ways.hops):
            total += np.bincount(hop.link, minlength=len(total))
        return total

    def users(self, link: int) -> Ints:
        """The groups that send over a link."""
        found = [np.zeros(0, np.int64)]
        for choice in self.choices:
            for demand in choice.demands:
                found += [choice.rows[flows // len(demand.phase.size)] for _, flows in demand.ways.on(link)]
        return np.flatnonzero(np.bincount(np.concatenate(found)))


def check_operation(operation: str, known: Collection[str] = OPERATIONS) -> None:
    """InputError for what is none of the known ones, and for what stands behind a colon but ways of a shift."""
    word, colon, ways = operation.partition(":")
    if word not in known:
        hint = nearest(operation, known) or ", ".join(known)
        raise InputError(Problem(f"unknown collective `{operation}`", hint=hint))
    if colon and not (word == "shift" and _WAYS.fullmatch(ways)):
        hint = "write `shift`, or as `shift:3` or `shift:1:-1`" if word == "shift" else f"write `{word}`"
        raise InputError(Problem(f"unknown collective `{operation}`", hint=hint))


def plan(
    operation: str,
    groups: ArrayLike,
    size_bytes: float,
    fabric: Fabric,
    profile: CollectiveProfile,
    algorithm: str = "auto",
    routing: Routing | None = None,
) -> Plan:
    """The plan of all `groups`, shape (g, n) of ranks, that run a collective at the same time.

    `size_bytes` counts as nccl-tests do: all_reduce and broadcast the buffer, all_gather and reduce_scatter the full
    gathered buffer, all_to_all the send buffer of one rank, send the message (groups are then pairs of source and
    destination), shift the message of each rank to the next one, `shift:3` to the third one after it, `shift:1:-1` half
    of it to each neighbour. Of a `dispatch` or `combine` it is what one rank would
    send with one copy of each token for each of its experts, kept ones included: tokens x top-k x bytes of a token;
    these need a `routing`. A group of one, or no bytes, makes no transfers. `algorithm` is a name such as `ring`, a
    name with a protocol such as `ring/LL128`, or `auto`. Raises InputError for unknown names and for an algorithm that
    cannot do this.
    """
    if operation in EXCHANGED:
        routing = _checked(operation, np.atleast_2d(groups).shape[1], routing)
        if algorithm.partition("/")[0] == "all_gather":
            whole = size_bytes / routing.top_k * np.atleast_2d(groups).shape[1]
            return plan(EXCHANGED[operation], groups, whole, fabric, profile)
    else:
        check_operation(operation, (*OPERATIONS, *EXCHANGED))
    ranks = np.atleast_2d(np.asarray(groups, np.int64))
    ranks = ranks if operation == "send" or bool((ranks[:, 1:] > ranks[:, :-1]).all()) else in_turn(ranks, fabric)
    if ranks.shape[1] < 2 or ranks.size == 0 or size_bytes <= 0:
        return Plan(operation, size_bytes, ranks, (), fabric)
    choices = choose(operation, ranks, size_bytes, fabric, profile, algorithm, routing)
    return Plan(operation, size_bytes, ranks, tuple(choices), fabric)


def _checked(operation: str, members: int, routing: Routing | None) -> Routing:
    """The routing of an exchange; InputError where there is none or it does not fit the group."""
    if routing is None:
        raise InputError(Problem(f"{operation} needs a routing", hint="say how many experts there are, and top-k"))
    routing.check(members)
    return routing


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One repetition of a phase of one group in time and on links."""

    phase: Phase
    latency: int
    """Ticks before bytes move."""
    work: int
    """Ticks that bytes move."""
    span: float
    """Ticks that rates are spread over: `work`, or the part of a tick more that was rounded off."""
    demand: LinkDemand
    per_byte: tuple[float, float]
    """What a byte takes of the capacity of a link inside nodes and between them."""
    first_outer: int

    def uses(self, load: dict[int, tuple[float, int]]) -> tuple[Use, ...]:
        """Rates on links, given (bytes, flows) by link."""
        return tuple(
            Use(link, size * self.per_byte[link >= self.first_outer] / self.span, flows)
            for link, (size, flows) in load.items()
        )


def _steps(plan: Plan, group: int) -> Iterator[_Step]:
    if not plan.choices:
        return
    choice, row = plan.choice(group)
    rate, fabric = choice.rate, plan.fabric
    for shared in choice.demands:
        demand = shared.of_group(row, plan.groups[group], plan.size_bytes)
        inner, outer = demand.alone(fabric)
        # `moving` multiplies by the size, which the transfers of a plan hold already.
        moving = rate.moving((inner / plan.size_bytes, outer / plan.size_bytes))
        seconds = float(moving[0])
        ticks = to_ticks(seconds)
        span = max(float(ticks), seconds * TICKS_PER_SECOND, 1.0)
        latency = to_ticks(float(rate.step_latency(demand, moving)[0]))
        yield _Step(demand.phase, latency, ticks, span, demand, rate.per_byte, fabric.first_outer)


def _launch(plan: Plan, group: int) -> int:
    return to_ticks(plan.choice(group)[0].rate.launch) if plan.choices else 0


def duration(plan: Plan, group: int = 0) -> int:
    """Ticks of one group's collective with nothing else on the fabric."""
    return _launch(plan, group) + sum(step.phase.repeat * (step.latency + step.work) for step in _steps(plan, group))


def activities(plan: Plan, group: int = 0) -> tuple[Activity, ...]:
    """One activity a phase of a group, to run one after the other; resources are the links that it uses, in bytes per
    tick.

    The launch is part of the first one's latency.
    """
    found: list[Activity] = []
    for step in _steps(plan, group):
        start = 0 if found else _launch(plan, group)
        uses = step.uses(step.demand.sparse())
        found.append(Activity(start + step.phase.repeat * step.latency, step.phase.repeat * step.work, uses))
    return tuple(found)


def steps(plan: Plan, group: int = 0) -> Iterator[tuple[Activity, ...]]:
    """Activities that start together, one a transfer; the next ones start when all are over.

    Transfers of one step keep pace with the slowest, as chunks of a library do, and so ask each link for no more than
    it has.
    """
    start = _launch(plan, group)
    for step in _steps(plan, group):
        transfers = zip(step.phase.size.tolist(), step.demand.paths.T.tolist(), strict=True)
        uses = [step.uses({link: (size, 1) for link in path if link >= 0}) for size, path in transfers]
        for _ in range(step.phase.repeat):
            yield tuple(Activity(start + step.latency, step.work, use) for use in uses)
            start = 0
