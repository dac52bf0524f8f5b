"""One point of a frontier: a structure simulated at a rate of requests and held to its objectives."""

from dataclasses import dataclass
from math import isfinite

from simulator.errors import InputError
from simulator.results.infeasibility import infeasibility, reason
from simulator.results.result import Result
from simulator.run.serve import serve
from simulator.specs.scenario import ServingScenario
from simulator.study.frontier.options import Base, serving
from simulator.study.plan.load import load
from simulator.study.plan.plan import slo_of
from simulator.study.plan.probe import CannotRun, Probe, probe

_TIMES = tuple(
    f"{kind}_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el") for kind in ("mean", "median", "p90", "p99")
)
_KEPT = ("request_throughput", *_TIMES)


@dataclass(frozen=True)
class Task:
    """What to simulate."""

    base: Base
    overrides: tuple[str, ...]
    rate: float
    """Arrivals per second."""
    requests: int


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    state: str
    """`meets`, `misses`, `grows` (the queue), `out of memory`, `all requests rejected`, `refused`."""
    reason: str = ""
    gap_s: float = float("inf")
    """Mean seconds between two tokens of a request."""
    tokens: float = 0.0
    """Mean tokens of an answer."""
    attainment: float = 0.0
    short: bool = False
    """Whether the run is too short for a steady state."""
    objectives: tuple[tuple[str, float, float, float | None], ...] = ()
    """(name, limit in seconds, share of requests within it, seconds that the wanted share keeps to)."""
    metrics: tuple[tuple[str, float], ...] = ()
    warnings: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def meets(self) -> bool:
        """Whether all objectives are met, by a queue that does not grow."""
        return self.state == "meets"


def run(task: Task) -> Outcome:
    """Simulate a task."""
    try:
        scenario = serving(task.base, (*task.overrides, f"requests.count={task.requests}"))
        return _outcome(probe(_simulate, load(scenario).at(task.rate), slo_of(scenario), task.rate))
    except CannotRun as error:
        return Outcome(infeasibility(error.result), reason(error.result))
    except InputError as error:
        return Outcome("refused", " ".join(str(error).split()))


def _simulate(scenario: ServingScenario) -> Result:
    """The Result of a scenario but its links and what queues make of intervals, of which frontiers say nothing."""
    return serve(scenario, links=False, intervals=False)


def _outcome(found: Probe) -> Outcome:
    own = found.metrics
    gap = own.get("mean_itl_ms", float("nan")) / 1e3
    goals = tuple(
        (goal.name, goal.limit_s, goal.attainment, goal.reached_s if isfinite(goal.reached_s) else None)
        for goal in found.goals
    )
    return Outcome(
        "grows" if found.saturated else "meets" if found.meets else "misses",
        gap_s=gap if gap > 0 else float("inf"),
        tokens=own["total_output_tokens"] / max(own["completed"], 1.0),
        attainment=found.attainment,
        short=found.short,
        objectives=goals,
        metrics=tuple((name, float(own[name])) for name in _KEPT if isfinite(own.get(name, float("nan")))),
        warnings=found.warnings,
        assumptions=found.assumptions,
    )
