"""Branch and bound over structures and rates: closed forms rule out, the rest is simulated, the likely best first.

Rates rise by equal ratios. At each the structure with the most tokens per second and user is wanted, among those that
keep the objectives; a structure whose bound is not above the best one found is left out, and one that missed at a rate
is not tried at a higher one. What the guess of the closed form puts far behind is left as unlikely, and counted apart.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.specs.requests import Slo
from simulator.specs.scenario import ServingScenario
from simulator.study.executors import processes
from simulator.study.frontier.options import Base, Measured, Option, measure
from simulator.study.frontier.run import Outcome, Task, run
from simulator.study.frontier.seen import Seen
from simulator.study.frontier.space import Structure, aggregated, meshes
from simulator.study.frontier.table import table
from simulator.study.frontier.tally import Counts, Settings, tally
from simulator.study.plan.plan import slo_of

Item = TypeVar("Item")
Done = TypeVar("Done")
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RATIO = 2.0**0.5
"""Of neighbouring rates of the first pass."""
FINER = (2.0**0.125, 2.0**0.25, 2.0**0.375)
"""Times the largest rate of the first pass that is carried: the rates of the second."""
TOGETHER = 2
"""Structures that are simulated before it is looked again which are worth it."""
WAVES = 6.0
"""Times what a request takes for which requests come."""
MARGIN = 0.01
"""Share by which a bound must be above what was found to be worth a simulation."""
PATIENCE = 1
"""Times in a row that nothing better is found at a rate, after which the rest is taken to be as likely as it looks."""
LONGER = 4
"""Times as many requests in the run that confirms a winner whose run was short, where requests are not of a trace."""
CONFIRMED = 3
"""Runs to confirm winners, at most."""
_LOOKED_AT = 256
"""Rows at a time of which the next ones to simulate are chosen."""
NEAREST = 4
"""Structures that are tried one request at a time where no rate meets the objectives."""


@dataclass(frozen=True)
class Point:
    """A structure simulated at a rate."""

    structure: Structure
    rate: float
    """Requests per second of all devices."""
    devices: int
    outcome: Outcome

    @property
    def per_user(self) -> float:
        """Tokens per second that a user gets: one over the mean time between two tokens."""
        return 1.0 / self.outcome.gap_s

    @property
    def per_device(self) -> float:
        """Output tokens per second and device of the cluster, those that stay idle too."""
        return self.rate * self.outcome.tokens / self.devices

    @property
    def kind(self) -> tuple[object, ...]:
        """What makes two points different systems: mode and layouts, limits and ratio apart."""
        own = self.structure
        return own.mode, own.decode.mesh, own.prefill.mesh if own.prefill else None

    @property
    def decodes_per_device(self) -> float:
        """Sequences that decode at once on a device in the mean (Little's law)."""
        return self.per_device / self.per_user


@dataclass
class Found:
    """What a search found."""

    points: list[Point] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    rates: list[float] = field(default_factory=list)
    devices: int = 0
    could: float | None = None
    """Tokens per second and device that a structure which was not simulated might reach as far as bounds say."""
    reasons: tuple[str, ...] = ()
    """Why layouts are refused, some of them."""
    exhausted: bool = False
    """Whether the number of simulations ended the search."""

    @property
    def front(self) -> list[Point]:
        """Points that meet the objectives and that none exceeds in both, by rising tokens per user."""
        return pareto(point for point in self.points if point.outcome.meets)

    @property
    def runner_up(self) -> Point | None:
        """The best point within the objectives of another mode or other layouts than the winner's."""
        best = self.winner
        others = [one for one in self.points if best and one.outcome.meets and one.kind != best.kind]
        return max(others, key=lambda one: (one.per_device, one.per_user), default=None)

    @property
    def winner(self) -> Point | None:
        """Of those that meet, the one with the most tokens per second and device; of equal ones the fastest."""
        able = self.front
        return max(able, key=lambda one: (one.per_device, one.per_user), default=None)


def pareto(points: Iterable[Point]) -> list[Point]:
    """Points that no other one exceeds or equals in both, by rising tokens per user."""
    kept: list[Point] = []
    for one in sorted(points, key=lambda point: (-point.per_user, -point.per_device)):
        if not kept or one.per_device > kept[-1].per_device:
            kept.append(one)
    return kept[::-1]


def search(
    scenario: ServingScenario,
    base: Base,
    settings: Settings,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Found:
    """The frontier of a scenario; `progress` gets the number of simulations done.

    InputError where no layout has room.
    """
    devices = scenario.cluster.devices
    with processes(jobs) if jobs > 1 else nullcontext() as pool:
        wanted = list(meshes(scenario.model, scenario.cluster.node.devices, devices))
        measured = list(_each(pool, partial(measure, base=base), wanted))
        found = _Search(scenario, base, settings, measured, devices, pool, progress)
        found.all_rates()
        if found.found.winner is None:
            found.nearest()
        if settings.confirm:
            found.confirm()
    return found.result()


def _each(pool: Executor | None, work: Callable[[Item], Done], items: Iterable[Item]) -> Iterable[Done]:
    return pool.map(work, items) if pool is not None else map(work, items)


class _Search:
    """A search under way."""

    def __init__(
        self,
        scenario: ServingScenario,
        base: Base,
        settings: Settings,
        measured: list[Measured],
        devices: int,
        pool: Executor | None,
        progress: Callable[[int], None] | None,
    ) -> None:
        self.base, self.settings, self.pool, self.progress = base, settings, pool, progress
        self.scenario, self.slo = scenario, slo_of(scenario)
        self.found = Found(devices=devices)
        self.options = [one for mesh in measured for one in mesh.options]
        self.measured = measured
        self.table = table(self.options, devices, settings.apart, settings.together)
        self.seen = Seen(self.table, self.slo.attainment)
        self.failed = np.full(len(self.table), np.inf)
        """The lowest rate at which it missed."""
        self.longest_s = _longest(self.slo, self.options)
        self.tried = np.zeros(len(self.table), np.bool_)
        self.open = np.zeros(len(self.table), np.bool_)
        """Whether a bound was above what was found at some rate at which it was not simulated."""
        self.carried = np.zeros(len(self.table), np.bool_)
        """Whether it may carry any of the rates."""
        if not self.options:
            raise InputError(*dict.fromkeys(mesh.reason or f"{mesh.mesh}: {mesh.refused}" for mesh in measured))

    def all_rates(self) -> None:
        """Both passes."""
        first = self._first_rates()
        last = None
        for rate in first:
            self.found.rates.append(rate)
            if self._at(rate, first.index(rate), len(first) + len(FINER)):
                last = rate
        for number, factor in enumerate(FINER if last is not None else ()):
            self.found.rates.append(last * factor)
            self._at(last * factor, len(first) + number, len(first) + len(FINER))

    def _first_rates(self) -> list[float]:
        """From what all can carry to what only the bound of the best can."""
        most = float(self.table.capacity.max(initial=0.0))
        if most <= 0.0:
            return []
        rates = [most / RATIO**step for step in range(3 * self.settings.levels)]
        likely = next((i for i, rate in enumerate(rates) if self._likely(rate).max(initial=0.0) > 0), 0)
        first = max(likely - 1, 0) if self.settings.likely else 0
        return rates[first : first + self.settings.levels][::-1]

    def _likely(self, rate: float) -> Floats:
        return self.table.likely(rate, self.slo.ttft, self.slo.tpot)

    def _at(self, rate: float, number: int, levels: int) -> bool:
        """Whether any structure carries a rate; each gets its share of the simulations that are left."""
        bound, guess = self.table.users(rate, self.base.sizes[-1], self.longest_s), self._likely(rate)
        score, soon = np.where(guess > 0, guess, bound * 1e-6), self.table.soon(rate)
        self.carried |= bound > 0
        quota = max((self.settings.simulations - len(self.found.points)) // (levels - number), 0)
        here = np.zeros(len(self.table), np.bool_)
        best, some, idle = 0.0, 0, 0
        while True:
            worth = (bound > best * (1.0 + MARGIN)) & (self.failed > rate) & ~here
            hopeful = worth & self._hopeful(rate, guess, best) if self.settings.likely else worth
            rows = self._first(score, soon, hopeful, TOGETHER)
            if len(rows) == 0 or some >= quota or (self.settings.likely and best and idle >= PATIENCE):
                self.found.exhausted |= len(rows) > 0 and some >= quota
                break
            some, before = some + len(rows), best
            for row, point in zip(rows, self._simulate(rows, rate), strict=True):
                here[row] = self.tried[row] = True
                self._note(row, point, float(guess[row]))
                best = max(best, point.per_user) if point.outcome.meets else best
            idle = 0 if best > before * (1.0 + MARGIN) else idle + 1
        self.open |= worth
        if self.settings.likely:
            best = self._bold(bound, soon, rate, best, here)
        self._other_kind(here, guess, soon, rate)
        return best > 0

    def _bold(self, bound: Floats, soon: Floats, rate: float, best: float, here: Bools) -> float:
        """Tokens per second and user of the best one, where some are tried whose first tokens the guess has late."""
        guess = self.table.likely(rate, self.slo.ttft, self.slo.tpot, bold=True)
        while len(self.found.points) < self.settings.simulations:
            able = (bound > best * (1.0 + MARGIN)) & (self.failed > rate) & ~here & self._hopeful(rate, guess, best)
            rows = self._first(guess, soon, able & (self.seen.corrected(guess) > best), 1)
            if not rows:
                return best
            here[rows] = self.tried[rows] = True
            (point,) = self._simulate(rows, rate)
            self._note(rows[0], point, 0.0)
            if not (point.outcome.meets and point.per_user > best * (1.0 + MARGIN)):
                return max(best, point.per_user) if point.outcome.meets else best
            best = point.per_user
        return best

    def _hopeful(self, rate: float, guess: Floats, best: float) -> Bools:
        """What neither the guess nor structures that share a side put behind the best one."""
        able = self.seen.hopeful(rate) & (self.seen.corrected(guess) > best * self.settings.likely)
        return able & (self.seen.at_most(rate) > best * (1.0 + MARGIN))

    def _first(self, score: Floats, soon: Floats, among: Bools, number: int) -> list[int]:
        """Rows with the highest scores, of equal ones that with the soonest first token; decode sides once each."""
        rows = np.flatnonzero(among)
        rows = rows[np.lexsort((soon[rows], -score[rows]))]
        if not self.settings.likely:
            return [int(row) for row in rows[:number]]
        found: dict[tuple[int, int, int], int] = {}
        for start in range(0, len(rows), _LOOKED_AT):
            some = rows[start : start + _LOOKED_AT]
            for row, side in zip(some.tolist(), self.seen.sides(some), strict=True):
                found.setdefault(side, row)
                if len(found) == number:
                    return list(found.values())
        return list(found.values())

    def _note(self, row: int, point: Point, guess: float) -> None:
        self.seen.note(row, point.rate, point.outcome, point.per_user, guess)
        if not point.outcome.meets:
            self.failed[row] = min(self.failed[row], point.rate)

    def _other_kind(self, here: Bools, guess: Floats, soon: Floats, rate: float) -> None:
        """Simulate the likely best of the kind of systems of which none was, so that both can be compared."""
        apart = self.table.prefill >= 0
        for kind in (apart, ~apart):
            if here.any() and not (here & kind).any():
                rows = self._first(guess, soon, kind & (self.failed > rate) & (guess > 0), 1)
                for row, point in zip(rows, self._simulate(rows, rate), strict=True):
                    self.tried[row] = True
                    self._note(row, point, float(guess[row]))

    def confirm(self) -> None:
        """Run the winner for longer where its run is short, until one stands; and the next one at the winner's rate."""
        for _ in range(CONFIRMED):
            best = self.found.winner
            if best is None or not best.outcome.short:
                break
            each = best.rate / best.structure.copies
            again = Task(self.base, best.structure.overrides(self.scenario), each, LONGER * self.base.sizes[-1])
            outcome = run(again)
            place = next(i for i, one in enumerate(self.found.points) if one is best)
            self.found.points[place] = Point(best.structure, best.rate, best.devices, replace(outcome, short=False))
        best, second = self.found.winner, self.found.runner_up
        if best is not None and second is not None and second.rate < best.rate:
            known = {(one.structure, one.rate) for one in self.found.points}
            if (second.structure, best.rate) not in known:
                self._simulate_structures([second.structure], best.rate)

    def nearest(self) -> None:
        """Where nothing meets the objectives: what comes nearest, with requests that hardly meet each other."""
        quick = sorted(self.options, key=lambda one: one.ceiling.shortest_step)[:NEAREST]
        early = sorted(self.options, key=lambda one: one.ceiling.ttft_token)[:NEAREST]
        for one in {option.worker: option for option in (*quick, *early)}.values():
            made = aggregated(one.worker, self.found.devices)
            rate = made.copies * 0.1 / (one.ceiling.tokens * one.ceiling.shortest_step)
            outcome = run(Task(self.base, made.overrides(self.scenario), rate / made.copies, self.base.sizes[0]))
            self.found.points.append(Point(made, rate, self.found.devices, outcome))

    def _simulate(self, rows: Iterable[int], rate: float) -> list[Point]:
        return self._simulate_structures([self.table.structure(int(row)) for row in rows], rate)

    def _simulate_structures(self, made: list[Structure], rate: float) -> list[Point]:
        points = [
            Point(one, rate, self.found.devices, outcome)
            for one, outcome in zip(made, _each(self.pool, run, [self._task(one, rate) for one in made]), strict=True)
        ]
        self.found.points += points
        if self.progress is not None:
            self.progress(len(self.found.points))
        return points

    def _task(self, one: Structure, rate: float) -> Task:
        each = rate / one.copies
        return Task(self.base, one.overrides(self.scenario), each, self._requests(one, each))

    def _requests(self, one: Structure, rate: float) -> int:
        """Requests of a run: enough for several times what one of them takes."""
        option = next(each for each in self.options if each.worker == one.decode)
        gap = option.ceiling.guess.latency(rate / one.decodes, one.prefill is None)
        gap = gap if np.isfinite(gap) else 2.0 * float(option.ceiling.step[-1])
        wanted = WAVES * rate * (option.ceiling.tokens * gap + option.ceiling.guess.prompt_s)
        return next((size for size in self.base.sizes if size >= wanted), self.base.sizes[-1])

    def result(self) -> Found:
        """What was found, and where every candidate went."""
        counts = self.found.counts = tally(self.measured, self.found.devices, self.base, self.settings)
        counts.simulated = int(self.tried.sum())
        counts.rate = int((~self.carried & ~self.tried).sum())
        counts.unlikely = int((self.open & self.carried & ~self.tried).sum())
        counts.bound = len(self.table) - counts.simulated - counts.rate - counts.unlikely
        counts.objectives -= len(self.table)
        left = self.table.capacity[self.open & ~self.tried]
        tokens = self.found.points[0].outcome.tokens if self.found.points else 0.0
        self.found.could = float(left.max()) * tokens / self.found.devices if len(left) else None
        self.found.reasons = tuple(dict.fromkeys(one.reason for one in self.measured if one.reason))
        return self.found


def _longest(slo: Slo, options: Sequence[Option]) -> float:
    """Seconds that a request may take: what is promised, or twice a guess of the slowest."""
    tokens = max((one.ceiling.tokens for one in options), default=0.0)
    if slo.e2e is not None:
        return slo.e2e
    if slo.ttft is not None and slo.tpot is not None:
        return slo.ttft + slo.tpot * tokens
    return max((2.0 * (one.ceiling.ttft_token + float(one.ceiling.step[-1]) * tokens) for one in options), default=0.0)
