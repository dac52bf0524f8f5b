"""What collectives cost: the closed form, for one group or for all groups that run at the same time.

Time of a collective = launch + sum over its phases of repeat x (hops x step latency + time of the busiest link), each
term rounded to ticks; time of a link = bytes of all transfers of all groups on it / (capacity x efficiency of the
protocol). A message that does not fill the library's pipeline takes longer by the protocol's `fill`. Latency of the
wire beyond what the profile's step latencies include is added to each hop. Sibling groups run in step, phase by phase,
so their bytes on shared links add up. Which algorithm and protocol run is the plan's.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.collectives.choice import in_step
from simulator.collectives.link_range import LinkRange
from simulator.collectives.plan import Plan, plan
from simulator.collectives.rate import counted, rounded
from simulator.collectives.routing import Routing
from simulator.fabric import Fabric
from simulator.specs.libraries.collectives import CollectiveProfile

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveCost:
    """What a plan costs with all its groups running and nothing else on the fabric."""

    plan: Plan
    ticks: Ints
    """Of each group; (groups,)."""
    moving: Ints
    """Of the ticks, those in which bytes move; the others are launch and hops; (groups,)."""
    bottleneck: NDArray[np.int16]
    """Kind of link (index into `Fabric.kinds`) that decides the rate for most of that time, -1 for none; (groups,)."""

    @property
    def algorithms(self) -> tuple[str, ...]:
        """`algorithm/protocol` that groups run; several where groups lie differently."""
        return self.plan.algorithms

    @property
    def slowest(self) -> int:
        """Ticks until the last group is done."""
        return int(self.ticks.max(initial=0))

    @property
    def carries(self) -> LinkRange:
        """Bytes that links carry for all groups together, added up when asked for: they are many."""
        phases = in_step(list(self.plan.choices))
        return LinkRange.total([load.times(self.plan.size_bytes) for load, _ in phases])

    @property
    def load(self) -> Floats:
        """Bytes that each link carries for all groups together; (links,)."""
        return self.carries.everywhere(len(self.plan.fabric.capacity))

    def carried(self, runs: Floats) -> LinkRange:
        """Bytes on links when each group, (groups,), runs the collective so often."""
        return self.carries.times(float(runs[0])) if _alike(runs) else self.plan.carried(runs)

    def carried_at(self, link: int, runs: Floats) -> float:
        """Of `carried`, the bytes on one link."""
        if not _alike(runs):
            return self.plan.carried_at(link, runs)
        total = 0.0
        for sharing in zip_longest(*(choice.demands for choice in self.plan.choices)):
            phase = 0.0
            for demand in sharing:
                phase += demand.load_at(link) * demand.phase.repeat if demand is not None else 0.0
            total += phase * self.plan.size_bytes
        return total * float(runs[0])


def _alike(runs: Floats) -> bool:
    """Whether all groups run equally often."""
    return len(runs) > 0 and bool((runs == runs[0]).all())


def cost_of(
    operation: str,
    groups: ArrayLike,
    size_bytes: float,
    fabric: Fabric,
    profile: CollectiveProfile,
    algorithm: str = "auto",
    routing: Routing | None = None,
) -> CollectiveCost:
    """The cost of a collective; arguments and errors as of `plan`."""
    return cost(plan(operation, groups, size_bytes, fabric, profile, algorithm, routing))


def cost(plan: Plan) -> CollectiveCost:
    """The closed form of a plan."""
    fabric, groups = plan.fabric, len(plan.groups)
    ticks, moving = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    bottleneck = np.full(groups, -1, np.int16)
    held = {id(choice): Counter[int]() for choice in plan.choices}
    for load, sharing in in_step(list(plan.choices)):
        for choice, demand in sharing:
            repeat = demand.phase.repeat
            seconds = load.over(fabric.capacity, repeat)
            busy = demand.busiest(seconds, fabric.first_outer)
            part = repeat * rounded(choice.rate.moving(busy))
            ticks[choice.rows] = counted(ticks[choice.rows] + repeat * choice.rate.step_ticks(demand, busy))
            moving[choice.rows] += part
            slowest = int(np.argmax(part))
            link = demand.slowest_link(slowest, seconds, choice.rate.per_byte, fabric.first_outer)
            held[id(choice)][fabric.block_of(link) if link >= 0 else -1] += int(part[slowest])
    for choice in plan.choices:
        ticks[choice.rows] += rounded(choice.rate.launch)
        bottleneck[choice.rows] = held[id(choice)].most_common(1)[0][0]
    return CollectiveCost(plan, ticks, moving, bottleneck)
