"""A plan of one group's collective, and the three ways to run it.

`duration` sums it in closed form, `activities` makes one fluid a phase for the engine, `steps` one activity a transfer.
With nothing else on the fabric the three agree to the tick: a test holds them to it. What they differ by under load is
contention.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.collectives.choice import choose
from simulator.collectives.demand import Demand, demand_of_ranks
from simulator.collectives.phase import Phase
from simulator.collectives.pricing import check, in_order
from simulator.collectives.rate import Rate, rate_of
from simulator.engine.tape import Activity, Use
from simulator.fabric import Fabric
from simulator.specs.collectives import CollectiveProfile
from simulator.units import TICKS_PER_SECOND, to_ticks

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a group does to carry out a collective."""

    operation: str
    algorithm: str
    protocol: str
    size_bytes: float
    group: tuple[int, ...]
    """Ranks in the order of the algorithm."""
    phases: tuple[Phase, ...]
    """Transfers between ranks, in bytes."""


def plan(
    operation: str,
    group: Sequence[int],
    size_bytes: float,
    fabric: Fabric,
    profile: CollectiveProfile,
    algorithm: str = "auto",
) -> Plan:
    """The plan of one group; arguments and errors as for `price`. A group of one, or no bytes, makes no phases."""
    check(operation)
    ranks = in_order(operation, np.asarray(group, np.int64))
    members = tuple(ranks.tolist())
    if len(members) < 2 or size_bytes <= 0:
        return Plan(operation, "none", "none", size_bytes, members, ())
    [choice] = choose(operation, ranks[None], size_bytes, fabric, profile, algorithm)
    phases = tuple(demand.phase.bind(ranks, size_bytes) for demand in choice.demands)
    return Plan(operation, choice.algorithm, choice.protocol, size_bytes, members, phases)


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One repetition of a phase in time and on links."""

    phase: Phase
    latency: int
    """Ticks before bytes move."""
    work: int
    """Ticks that bytes move."""
    span: float
    """Ticks that rates are spread over: `work`, or the part of a tick more that was rounded off."""
    demand: Demand
    taken: Floats
    """What a byte takes of the capacity of each link; (links,)."""

    def uses(self, load: dict[int, tuple[float, int]]) -> tuple[Use, ...]:
        """Rates on links, given (bytes, flows) by link."""
        return tuple(Use(k, size * float(self.taken[k]) / self.span, flows) for k, (size, flows) in load.items())


def _rate(plan: Plan, profile: CollectiveProfile) -> Rate:
    protocol = profile.protocols[plan.protocol]
    return rate_of(plan.operation, plan.phases, len(plan.group), plan.size_bytes, protocol, profile)


def _steps(plan: Plan, fabric: Fabric, profile: CollectiveProfile) -> Iterator[_Step]:
    for phase in plan.phases:
        rate, demand = _rate(plan, profile), demand_of_ranks(phase, fabric)
        inner, outer = demand.alone(fabric)
        # `moving` multiplies by the size, which the transfers of a plan hold already.
        seconds = float(rate.moving((inner / plan.size_bytes, outer / plan.size_bytes))[0])
        taken = np.full(len(fabric.capacity), rate.per_byte[0])
        taken[fabric.first_outer :] = rate.per_byte[1]
        ticks = to_ticks(seconds)
        span = max(float(ticks), seconds * TICKS_PER_SECOND, 1.0)
        yield _Step(phase, to_ticks(float(rate.step_latency(demand)[0])), ticks, span, demand, taken)


def _launch(plan: Plan, profile: CollectiveProfile) -> int:
    return to_ticks(_rate(plan, profile).launch) if plan.phases else 0


def duration(plan: Plan, fabric: Fabric, profile: CollectiveProfile) -> int:
    """Ticks of the collective with nothing else on the fabric."""
    return _launch(plan, profile) + sum(s.phase.repeat * (s.latency + s.work) for s in _steps(plan, fabric, profile))


def activities(plan: Plan, fabric: Fabric, profile: CollectiveProfile) -> tuple[Activity, ...]:
    """One activity a phase, to run one after the other; resources are links, in bytes per tick.

    The launch is part of the first one's latency.
    """
    found: list[Activity] = []
    for step in _steps(plan, fabric, profile):
        load = step.demand.load(fabric)
        flows = np.bincount(step.demand.paths[step.demand.paths >= 0], minlength=len(load))
        uses = step.uses({int(link): (float(load[link]), int(flows[link])) for link in np.flatnonzero(load)})
        start = 0 if found else _launch(plan, profile)
        found.append(Activity(start + step.phase.repeat * step.latency, step.phase.repeat * step.work, uses))
    return tuple(found)


def steps(plan: Plan, fabric: Fabric, profile: CollectiveProfile) -> Iterator[tuple[Activity, ...]]:
    """Activities that start together, one a transfer; the next ones start when all are over.

    Transfers of one step keep pace with the slowest, as chunks of a library do, and so ask each link for no more than
    it has.
    """
    start = _launch(plan, profile)
    for step in _steps(plan, fabric, profile):
        transfers = zip(step.phase.size.tolist(), step.demand.paths.T.tolist(), strict=True)
        uses = [step.uses({link: (size, 1) for link in path if link >= 0}) for size, path in transfers]
        for _ in range(step.phase.repeat):
            yield tuple(Activity(start + step.latency, step.work, use) for use in uses)
            start = 0
