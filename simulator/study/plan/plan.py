"""Capacity: the largest rate of arrivals at which a serving system keeps its promise, and the layout to choose.

Every load is the same requests (same seed, same draws) at another rate. A system meets its objectives at a rate where
at least `slo.attainment` of all requests met every one of them; requests that were rejected or did not finish met none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from simulator.errors import InputError, Problem
from simulator.results.infeasibility import infeasibility, reason
from simulator.run.dispatch import simulate as run
from simulator.specs.requests import Slo
from simulator.specs.scenario import ServingScenario
from simulator.study.executors import each
from simulator.study.plan.layouts import Candidate, candidate, with_replicas
from simulator.study.plan.load import Load, load
from simulator.study.plan.probe import CannotRun, Probe, Simulate, probe
from simulator.study.plan.search import exceptions, in_order, largest

TOLERANCE = 0.01
"""Relative distance of the largest rate that meets from the smallest one that misses."""
CURVE = 8
"""Rates of the curve besides those of the search, where there is one layout."""
FEW = 10
"""Requests that may miss below which the share of them says little."""
_REACH = 1.6  # the curve goes up to this times the largest rate
_AT_ONCE = 0.01  # share of the run in which all requests have come, below which a higher rate changes nothing

HOPELESS = 0.95
"""Share of the best rate for each device at which a layout must still meet for its own rate to be looked for."""
SHORTER = 10
"""Times as few requests in the runs that only say in which order layouts are planned."""
_ROUGH = 0.25  # relative distance of the two ends of a search in those runs
_FEWEST = 50  # requests of such a run; with fewer, layouts are planned as they come

State = Literal[
    "found", "unbounded", "unreachable", "cut", "out of memory", "all requests rejected", "no replica starts", "refused"
]


@dataclass(frozen=True, slots=True)
class Options:
    """How to plan."""

    tolerance: float = TOLERANCE
    """Relative distance of the two ends of the search."""
    curve: int = 0
    """Rates to simulate besides those of the search."""
    target: float | None = None
    """Arrivals per second that must be carried."""
    cut: bool = False
    """Whether layouts that cannot be the best for each device are left at one run that says so; of no effect with a
    target, which every layout is held to."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was found for one layout."""

    candidate: Candidate
    state: State
    reason: str = ""
    """Why nothing was simulated, or does not fit."""
    process: str = ""
    """What is varied: a key of `Arrivals`, or `trace`."""
    unit: str = "requests"
    """What arrives."""
    best: Probe | None = None
    """At the largest rate that meets; where none does, where most requests did: at best one after the other."""
    miss: Probe | None = None
    """At the smallest rate above it that misses."""
    probes: tuple[Probe, ...] = ()
    """All rates that were tried, rising."""
    odd: tuple[Probe, ...] = ()
    """Those of them that met above a miss, or missed below the best."""
    devices: int = 0
    """Devices of all replicas."""
    usd_per_hour: float | None = None
    """Price of the devices, where their profiles know it."""
    carries: bool | None = None
    """Whether the target was met; None where there is none."""
    at_target: Probe | None = None
    """At the target; None where there is none."""
    runs: int = 0
    """Simulations."""

    @property
    def rate(self) -> float | None:
        """The largest rate that meets."""
        return self.best.rate if self.best is not None and self.state in ("found", "unbounded") else None

    @property
    def settled(self) -> bool:
        """Whether a longer run would give the same rate, as far as these can tell."""
        return self.state == "found" and self.best is not None and self.best.settled

    @property
    def lasting(self) -> bool:
        """Whether a longer run would carry the target too, as far as this one can tell."""
        return self.at_target is not None and self.at_target.settled

    @property
    def rate_per_device(self) -> float | None:
        """The same for each device."""
        return None if self.rate is None or not self.devices else self.rate / self.devices


def slo_of(scenario: ServingScenario) -> Slo:
    """The objectives of a scenario; InputError where it has none."""
    slo = scenario.slo
    if slo is None or (slo.ttft is None and slo.tpot is None and slo.e2e is None):
        message = "nothing is promised, so that any rate would do"
        hint = 'write `slo: {ttft: 1 s, tpot: 50 ms}`, or add it: "+slo={ttft: 1 s, tpot: 50 ms}"'
        raise InputError(Problem(message, path="slo", hint=hint))
    return slo


def plan_layout(candidate: Candidate, options: Options, simulate: Simulate = run, floor: float | None = None) -> Plan:
    """The largest rate of one layout; with a target, of the fewest replicas for it.

    One that misses at `floor` arrivals per second and device is `cut` there: a larger rate is taken to be harder.
    Raises InputError where objectives or a rate are missing; what the simulation refuses is a Plan that says why.
    """
    scenario = candidate.scenario.model_copy(update={"published": ()})
    slo, offered = slo_of(scenario), load(scenario)
    runs: list[Probe] = []

    def attempt(asked: ServingScenario, rate: float) -> Probe:
        runs.append(probe(simulate, asked, slo, rate))
        return runs[-1]

    try:
        if candidate.shrinks and options.target is not None:
            candidate = _fewest(candidate, options.target, attempt)
            offered = replace(offered, scenario=candidate.scenario.model_copy(update={"published": ()}))
        found = None if floor is None else _cut(candidate, offered, floor, attempt)
        return replace(found or _search(candidate, offered, options, attempt), runs=len(runs))
    except CannotRun as error:
        devices, price = _devices(candidate.scenario)
        return Plan(
            candidate,
            infeasibility(error.result),
            reason(error.result),
            devices=devices,
            usd_per_hour=price,
            runs=len(runs),
            carries=None if options.target is None else False,
        )
    except InputError as error:
        return Plan(candidate, "refused", " ".join(str(error).split()), runs=len(runs))


def plan(
    candidates: Sequence[Candidate], options: Options, jobs: int = 1, progress: Callable[[int], None] | None = None
) -> list[Plan]:
    """Plan layouts on `jobs` processes, in their order; `progress` gets the number done.

    Raises InputError where no layout can be simulated, with the reason of each.
    """
    for one in candidates:
        slo_of(one.scenario)
        load(one.scenario)
    if options.cut and options.target is None and len(candidates) > 1:
        found = _raced(candidates, options, jobs, progress)
    else:
        found = list(each(partial(plan_layout, options=options), candidates, jobs, progress))
    if all(one.state == "refused" for one in found):
        raise InputError(*dict.fromkeys(one.reason for one in found))
    return found


def _raced(
    candidates: Sequence[Candidate], options: Options, jobs: int, progress: Callable[[int], None] | None
) -> list[Plan]:
    """Plan the layouts that short runs find good first, and the others as far as they can be the best.

    As many at a time as there are processes, so that the rate to beat is known early.
    """
    order = _order(candidates, options)
    found: dict[int, Plan] = {}
    floor: float | None = None
    while len(found) < len(order):
        some = order[len(found) :] if floor is not None else order[len(found) : len(found) + jobs]
        work = partial(plan_layout, options=options, floor=floor)
        for place, one in zip(some, each(work, [candidates[place] for place in some], jobs), strict=True):
            found[place] = one
            if progress is not None:
                progress(len(found))
        known = [one.rate_per_device for one in found.values() if one.state == "found" and one.rate_per_device]
        floor = HOPELESS * max(known) if known else None
    return [found[place] for place in range(len(candidates))]


def _order(candidates: Sequence[Candidate], options: Options) -> list[int]:
    """Places of layouts, that with the largest rate for each device in a short and rough search first.

    Each of these searches starts from what the one before it found.
    """
    places = list(range(len(candidates)))
    count = (candidates[0].scenario.requests.count or 0) // SHORTER
    if count < _FEWEST:
        return places
    rates: list[float] = []
    rough = replace(options, tolerance=_ROUGH, curve=0)
    for one in candidates:
        short = candidate(one.file, (*one.common, f"requests.count={count}"), one.overrides)
        found = plan_layout(short, rough)
        rates.append(found.rate_per_device or 0.0)
        rough = replace(rough, target=found.rate or rough.target)
    return sorted(places, key=lambda place: -rates[place])


def best_per_device(plans: Sequence[Plan]) -> Plan | None:
    """The layout with the largest rate for each device.

    None where a rate without an upper end, or a larger one that a longer run could take back, leaves that open.
    """
    most = max(plans, key=lambda one: one.rate_per_device or 0.0, default=None)
    open_end = any(one.state == "unbounded" for one in plans)
    return most if most is not None and most.settled and not open_end else None


def cheapest(plans: Sequence[Plan]) -> Plan | None:
    """Of the layouts that carry the target, without a queue that grows, the one at the lowest price.

    By devices where a price is not known. None where the run of that one is too short to tell.
    """
    able = [one for one in plans if one.carries and one.at_target and not one.at_target.saturated]
    priced = all(one.usd_per_hour is not None for one in able)
    least = min(
        able,
        key=lambda one: ((one.usd_per_hour or 0.0) if priced else 0.0, one.devices, -(one.rate or 0.0)),
        default=None,
    )
    return least if least is not None and least.lasting else None


def _search(
    candidate: Candidate, offered: Load, options: Options, attempt: Callable[[ServingScenario, float], Probe]
) -> Plan:
    """Bisect, then fill the curve."""
    alone: list[Probe] = []

    def reachable() -> bool:
        alone.append(attempt(offered.alone(), 0.0))
        return alone[0].meets

    found = largest(
        lambda rate: attempt(offered.at(rate), rate),
        options.target or offered.rate,
        options.tolerance,
        reachable=reachable,
        exhausted=_exhausted,
    )
    best = found.best
    state: State = "found" if found.miss is not None else "unbounded"
    probes = found.tried
    at_target = next((one for one in probes if one.rate == options.target), None)
    if best is None:
        best, state = max((*alone, *probes), key=lambda one: one.attainment), "unreachable"
    else:
        more = tuple(attempt(offered.at(rate), rate) for rate in _grid(best.rate, options.curve, probes))
        probes = in_order((*probes, *more))
    odd = exceptions(probes, best, found.miss) if found.best is not None else ()
    devices, price = _devices(candidate.scenario)
    return Plan(
        candidate,
        state,
        process=offered.process,
        unit=offered.unit,
        best=best,
        miss=found.miss,
        probes=probes,
        odd=odd,
        devices=devices,
        usd_per_hour=price,
        at_target=at_target,
        carries=None if at_target is None else at_target.meets,
    )


def _cut(
    candidate: Candidate, offered: Load, floor: float, attempt: Callable[[ServingScenario, float], Probe]
) -> Plan | None:
    """The plan of a layout that misses at the rate to beat; None of one that meets there."""
    devices, price = _devices(candidate.scenario)
    tried = attempt(offered.at(floor * devices), floor * devices)
    if tried.meets:
        return None
    return Plan(
        candidate,
        "cut",
        process=offered.process,
        unit=offered.unit,
        best=tried,
        miss=tried,
        probes=(tried,),
        devices=devices,
        usd_per_hour=price,
    )


def _grid(rate: float, number: int, known: Sequence[Probe]) -> list[float]:
    """Evenly spaced rates up to somewhat above the largest one, without those that were tried already."""
    wanted = [rate * _REACH * (step + 1) / number for step in range(number)]
    return [each for each in wanted if all(abs(probe.rate / each - 1) > TOLERANCE for probe in known)]


def _exhausted(tried: Probe) -> bool:
    """Whether all requests came so close together that a higher rate would be the same run."""
    return tried.asked / tried.rate <= _AT_ONCE * tried.metrics["duration"]


def _fewest(candidate: Candidate, target: float, attempt: Callable[[ServingScenario, float], Probe]) -> Candidate:
    """The layout with the fewest replicas that carry the target; all of them where none do."""

    def carried(replicas: int) -> bool:
        scenario = with_replicas(candidate, replicas).scenario.model_copy(update={"published": ()})
        tried = attempt(load(scenario).at(target), target)
        return tried.meets and not tried.saturated

    low, high = 0, candidate.replicas  # low does not carry it; high does, as far as is known
    if not carried(high):
        return candidate
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if carried(middle) else (middle, high)
    return with_replicas(candidate, high)


def _devices(scenario: ServingScenario) -> tuple[int, float | None]:
    """Devices of all replicas, and their price in US dollars per hour where it is known."""
    serving = scenario.serving
    sizes = [
        (pool.replicas * layout.ranks * layout.devices, *serving.home(pool, scenario.cluster))
        for pool in serving.all_pools
        for layout in (pool.parallel or serving.parallel,)
    ]
    prices = [(number, cluster.partitions[kind].node.accelerator.price) for number, cluster, kind in sizes]
    known = [number * price.value * 3600 for number, price in prices if price is not None]
    return sum(number for number, *_ in sizes), sum(known) if len(known) == len(prices) else None
