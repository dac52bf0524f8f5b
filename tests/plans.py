"""Plans for tests: a stand-in for the simulation whose outcome at each rate is made up."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from simulator.results.documents.plan import PlanDocument
from simulator.results.result import Result
from simulator.specs.scenario import ServingScenario
from simulator.study.plan.document import document
from simulator.study.plan.layouts import Candidate, candidate
from simulator.study.plan.plan import Options, Plan, plan_layout
from tests.services import Slo, asked, serve, serving_result

QUICKSTART = "scenarios/serving/quickstart.yaml"
SLO = "+slo={ttft: 1 s, tpot: 50 ms}"
DEFAULT = Options()


@cache
def base() -> Result:
    """A run of which the stand-in changes what it is asked for."""
    return serving_result(serve(asked(200)), Slo(1.0, 0.05), warnings=(), assumptions=("a block has 16 tokens",))


class Simulated:
    """In the place of the simulation: `attained` says which share meets TPOT at a rate, 0 for one at a time."""

    def __init__(self, attained: Callable[[float], float], **changes: Any) -> None:
        self.attained, self.changes = attained, changes
        self.seen: list[ServingScenario] = []

    @property
    def rates(self) -> list[float]:
        """Rates that were asked for, 0 for one at a time."""
        return [scenario.requests.arrivals.poisson or 0.0 for scenario in self.seen]

    def __call__(self, scenario: ServingScenario) -> Result:
        self.seen.append(scenario)
        rate = self.rates[-1]
        share = self.attained(rate)
        metrics = {
            **base().metrics,
            "slo_attainment": share,
            "tpot_attainment": share,
            "ttft_attainment": 1.0,
            "completed": 1000.0,
            "failed": 0.0,
            "unfinished": 0.0,
            "p90_e2el_ms": 1000.0,
            "duration": max(1000.0 / rate if rate else 1000.0, 50.0),
            "request_goodput": rate * share,
        }
        return replace(base(), metrics=metrics, **self.changes)


def threshold(rate: float) -> Callable[[float], float]:
    """Enough requests meet their objectives up to this rate."""
    return lambda asked: 0.95 if asked <= rate else 0.5


def chosen(*overrides: str, slo: str = SLO, shrinks: bool = False) -> Candidate:
    """The quickstart with objectives and with overrides of its own."""
    return candidate(QUICKSTART, (slo,), overrides, shrinks)


def planned(simulated: Simulated, *overrides: str, options: Options = DEFAULT, **other: Any) -> Plan:
    """The plan of the quickstart."""
    return plan_layout(chosen(*overrides, **other), options, simulated)


def one_layout() -> PlanDocument:
    """The document of a plan of one layout with a curve."""
    options = Options(curve=6)
    return document([planned(Simulated(threshold(6.3)), options=options)], options)


def several_layouts(target: float | None = None) -> PlanDocument:
    """The document of four layouts: two with a rate, one that cannot meet the objectives, one that is refused."""
    options = Options(0.05, 0, target)
    full = Simulated(threshold(0.0), feasible=False)
    plans = [
        planned(Simulated(threshold(rate)), f"serving.parallel.tp={tp}", options=options)
        for tp, rate in ((1, 4.2), (2, 9.5))
    ]
    plans.append(planned(Simulated(lambda rate: 0.2), "serving.parallel.tp=4", options=options))
    plans.append(planned(full, "serving.parallel.tp=8", options=options))
    return document(plans, options)
