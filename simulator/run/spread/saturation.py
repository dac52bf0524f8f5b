"""What a queue makes of an error of speed: intervals of runs whose requests come at a rate near that of saturation.

Requests that come at a rate do not wait for slower answers. Where every step takes k times as long, times are k times
those of the same run with k times the rate: far from saturation the same but for k, near it the queue is another one.
So the first requests of a run are simulated again at the ends of the interval of its speed; by how much more than k
their latencies change is an error beside those that published rows tell of, and independent of them: their squares add
up. A queue that grows where it did not goes on to grow with the rest of the requests. Only runs pay for it that come
near saturation at the slow end. Left out: fleets that change, tenants, several models.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import exp, hypot, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator import units
from simulator.results.ground import Ground
from simulator.results.spread import REQUEST, TPOT, TTFT, Spread
from simulator.run.spread.near import AT_A_RATE, Like, like
from simulator.run.spread.residuals import spread_of
from simulator.serving.fleet.rates import first_to_saturate
from simulator.serving.workload.generate import NEVER, Workload

if TYPE_CHECKING:
    from simulator.run.serve import ServingRun

NEAR = 0.8
"""Share of the rate that can be taken up from which on a queue may change with speed."""
FIRST = 500
"""Requests of a run that are simulated again, so that it costs little: the first ones."""
COLUMNS = (
    *("arrival", "prompt", "output", "priority", "follows", "delay", "prefix"),
    *("session", "images", "chunks", "encoded", "due"),
)
"""Those of a workload that have a row for each request; tenants are left out."""
SLIGHT = 0.1
"""Change of a latency, a logarithm, from which on something is said."""


class Strain(NamedTuple):
    """How much further than speed itself a latency goes where all steps are as fast, or as slow, as they may be."""

    low: float
    """A logarithm, at most 0."""
    high: float
    """A logarithm, at least 0."""
    fast: float
    """How many times as long steps take at least."""
    slow: float
    """How many times as long they may take."""
    load: float
    """Rate of requests over the one that can be taken up."""

    @property
    def words(self) -> str:
        """Why an interval is wide."""
        ends = units.plain(exp(self.low)), units.plain(exp(self.high))
        return (
            f"near saturation: requests come at {self.load:.2f} of the rate that is taken up, and with steps"
            f" {self.fast:.2f} to {self.slow:.2f} times as long the queue makes another factor of {' to '.join(ends)}"
        )


Again = Callable[["ServingRun", Workload], "ServingRun"]
"""A run of the same scenario on the same machine, of other requests."""
Known = Callable[[Like, str], Spread | None]
"""The spread of a quantity of a run."""


def strains(run: "ServingRun", again: Again, known: Known = spread_of) -> Mapping[str, Strain]:
    """What the queue of a run makes of the error of its speed, by quantity; nothing where it is far from saturation."""
    own = like(run.scenario)
    speed = _speed(own, known) if own.load == AT_A_RATE and _plain(run) else None
    if speed is None:
        return {}
    load = _load(run)
    if load * speed.high < NEAR:
        return {}
    here, first = _latencies(run), first_of(run.workload, FIRST)
    slower = _latencies(again(run, paced(first, speed.high)))
    faster = _latencies(again(run, paced(first, speed.low))) if load > NEAR else here
    if load < 1 < load * speed.high:  # the wait of a request is in proportion to those before it
        waits = here[0] + max(slower[0] - here[0], 0.0) * len(run.ledger) / len(first)
        slower = waits, slower[1]
    return {
        about: Strain(min(log(fast / now), 0.0), max(log(slow / now), 0.0), speed.low, speed.high, load)
        for about, now, slow, fast in zip((TTFT, TPOT), here, slower, faster, strict=True)
        if now and slow and fast
    }


def under_load(ground: Ground, found: Mapping[str, Strain]) -> Ground:
    """A ground whose spreads have what its queue makes of the error of speed."""
    known = {about: strained(spread, found.get(about)) for about, spread in ground.spreads.items()}
    return replace(ground, spreads=known)


def strained(spread: Spread, by: Strain | None) -> Spread:
    """A spread with a second, independent cause."""
    if by is None:
        return spread
    low, high = log(spread.low), log(spread.high)
    low, high = low - _more(low, by.low), high + _more(high, by.high)
    wide = max(-by.low, by.high) > SLIGHT
    return replace(spread, low=exp(low), high=exp(high), why=by.words if wide else "")


def unexplained(residual: float, by: Strain | None) -> float:
    """What of a residual, a logarithm, is left for other causes: its interval holds it where the strained one does."""
    if by is None:
        return residual
    part = by.high if residual > 0 else by.low
    return float(np.copysign(max(residual**2 - part**2, 0.0) ** 0.5, residual))


def first_of(workload: Workload, count: int) -> Workload:
    """The first requests of some."""
    if len(workload) <= count:
        return workload
    columns = {name: getattr(workload, name) for name in COLUMNS}
    return replace(workload, **{name: known[:count] for name, known in columns.items() if known is not None})


def paced(workload: Workload, pace: float) -> Workload:
    """Requests that come `pace` times as fast, each as long after the others in its share of time."""
    times = np.where(workload.arrival == NEVER, NEVER, np.rint(workload.arrival / pace).astype(np.int64))
    due = None if workload.due is None else np.rint(workload.due / pace).astype(np.int64)
    return replace(workload, arrival=times, delay=np.rint(workload.delay / pace).astype(np.int64), due=due)


def _more(end: float, part: float) -> float:
    """By how much the root of the squares of both is more than the one."""
    return hypot(end, part) - abs(end)


def _speed(own: Like, known: Known) -> Spread | None:
    """The spread of how long work takes: of throughput, or of later tokens where no published run tells of it."""
    return known(own, REQUEST) or known(own, TPOT)


def _plain(run: "ServingRun") -> bool:
    """Whether the run is one that can be simulated again as it was."""
    changes = (run.operations, run.models, run.roles, run.condensing, run.workload.tenant)
    return bool(run.replicas) and len(run.ledger) > 1 and all(one is None for one in changes)


def _load(run: "ServingRun") -> float:
    """Rate of requests over the one that is taken up when all devices work."""
    came = run.workload.arrival[run.workload.arrival != NEVER]
    lasted = units.to_seconds(int(came.max() - came.min())) if len(came) > 1 else 0.0
    prompt, output = (round(float(np.mean(tokens))) for tokens in (run.workload.prompt, run.workload.output))
    most = first_to_saturate(run.systems, prompt, output).requests_per_s
    return (len(run.workload) - 1) / lasted / most if lasted and most else 0.0


def _latencies(run: "ServingRun") -> tuple[float, float]:
    """Mean ticks to the first token and of each later one, of the first requests; 0 where none finished."""
    arrival, first, finish, output = (
        np.asarray(column, np.int64)[:FIRST]
        for column in (run.ledger.arrival, run.ledger.first_token, run.ledger.finish, run.ledger.output)
    )
    done = (finish >= 0) & (first >= 0)
    several = done & (output > 1)
    waits = (first - arrival)[done]
    later = ((finish - first) / np.maximum(output - 1, 1))[several]
    return float(waits.mean()) if len(waits) else 0.0, float(later.mean()) if len(later) else 0.0
