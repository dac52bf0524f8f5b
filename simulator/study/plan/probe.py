"""One load tried: a serving scenario simulated and held to its objectives."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import RequestRecords, Result, Service
from simulator.results.serving.service import latencies
from simulator.specs.requests import Slo
from simulator.specs.scenario import ServingScenario

Simulate = Callable[[ServingScenario], Result]
"""`run.dispatch.simulate`, or what a test puts in its place."""
SHORT = 5
"""Times the 90th percentile of the time of a request below which the arrivals of a run are too short a sample."""
SATURATED = "saturated"
"""What the warning of a queue that grew begins with."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One objective at one load."""

    name: str
    """`ttft`, `tpot` or `e2el`."""
    limit_s: float
    """What was promised."""
    attainment: float
    """Share of all requests that kept to it."""
    reached_s: float
    """What the wanted share of all requests keeps to; infinite where fewer finish."""

    @property
    def excess(self) -> float:
        """How far `reached_s` is beyond the limit, as a share of it; negative within."""
        return self.reached_s / self.limit_s - 1 if self.limit_s else float("inf")


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of one load."""

    rate: float
    """Arrivals per second; 0 for requests one after the other."""
    wanted: float
    """Share of the requests that must meet all objectives."""
    attainment: float
    """Share that did; those that were rejected or not finished did not."""
    goals: tuple[Goal, ...]
    metrics: dict[str, float]
    """Metrics of the run."""
    warnings: tuple[str, ...]
    """Of the run."""
    assumptions: tuple[str, ...]
    """Of the run."""

    @property
    def meets(self) -> bool:
        """Whether enough requests met all objectives."""
        return self.attainment >= self.wanted

    @property
    def saturated(self) -> bool:
        """Whether the queue grew as long as requests came."""
        return any(text.startswith(SATURATED) for text in self.warnings)

    @property
    def asked(self) -> float:
        """Requests of the run."""
        return self.metrics["completed"] + self.metrics["failed"] + self.metrics["unfinished"]

    @property
    def short(self) -> bool:
        """Whether the run is too short for a steady state to show."""
        return self.rate > 0 and self.asked / self.rate < SHORT * self.metrics["p90_e2el_ms"] / 1e3

    @property
    def settled(self) -> bool:
        """Whether a longer run would say the same, as far as this one can tell."""
        return not self.saturated and not self.short

    @property
    def binding(self) -> Goal:
        """The objective that the fewest requests met; of equal ones, that with the least room."""
        return min(self.goals, key=lambda goal: (goal.attainment, -goal.excess))


class CannotRun(Exception):
    """The model does not fit into the memory of its devices, or no request can run; holds the Result."""

    def __init__(self, result: Result) -> None:
        """Takes the Result that says so."""
        super().__init__("infeasible")
        self.result = result


def probe(simulate: Simulate, scenario: ServingScenario, slo: Slo, rate: float) -> Probe:
    """Simulate a scenario whose load is `rate`. Raises InputError as the simulation does, and CannotRun."""
    result = simulate(scenario.model_copy(update={"records": "all"}))
    if not result.feasible or result.service is None:
        raise CannotRun(result)
    return Probe(
        rate,
        slo.attainment,
        known(result.metrics.get("slo_attainment")),
        _goals(result.service, result, slo),
        result.metrics,
        result.warnings,
        result.assumptions,
    )


def _goals(service: Service, result: Result, slo: Slo) -> tuple[Goal, ...]:
    times, requests = latencies(service.requests), service.requests
    measured = (("ttft", slo.ttft, times.ttft), ("tpot", slo.tpot, times.tpot), ("e2el", slo.e2e, times.e2el))
    return tuple(
        Goal(name, limit, known(result.metrics.get(f"{name}_attainment")), _within(requests, values, slo.attainment))
        for name, limit, values in measured
        if limit is not None
    )


def _within(requests: RequestRecords, milliseconds: NDArray[np.float64], share: float) -> float:
    """Seconds within which this share of all requests stays; those that did not finish took for ever."""
    asked = int((requests.arrival >= 0).sum())
    rank = max(ceil(share * asked - 1e-9), 1)
    if rank > len(milliseconds):
        return float("inf")
    return float(np.partition(milliseconds, rank - 1)[rank - 1]) / 1e3


def known(value: float | None) -> float:
    """A share; 0 where nothing was asked."""
    return value if value is not None and value == value else 0.0
