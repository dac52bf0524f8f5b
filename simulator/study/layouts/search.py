"""The best layouts of a training: candidates by their bounds, the lowest first, until no bound is below what was found.

A candidate that comes first by its closed forms gets a dearer bound, that of its step with nothing shared, and waits
for its turn by that one.

Exact: a candidate is left out only where its memory does not fit, where a lower bound of its time or money is above a
limit, or above the last of the best that were priced. Candidates are priced some at once, always as many, so that what
is priced does not depend on how many processes there are.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from simulator.errors import InputError, Problem
from simulator.results.result import Result
from simulator.study import executors, fingerprint
from simulator.study.layouts.floors import Bound, Floor, Floors
from simulator.study.layouts.goal import DAY_S, Goal
from simulator.study.layouts.layout import Layout
from simulator.study.layouts.machines import Machine
from simulator.study.layouts.price import bounds_of, cache_key, confirmed, least, price
from simulator.study.layouts.shape import cuts
from simulator.study.layouts.space import MOST, Space, layouts
from simulator.study.layouts.tally import Counts
from simulator.study.sweep.cache import Cache
from simulator.study.sweep.evaluate import Outcome

AT_ONCE = 4
"""Candidates that are priced before the best are looked at again."""
TOP = 5
"""Layouts that a plan shows."""
Progress = Callable[[int, int], None]
T = TypeVar("T")


class Candidate(NamedTuple):
    """A layout on a machine that memory and limits leave, with its bounds."""

    bound: float
    """Of what is minimised."""
    number: int
    machine: Machine
    layout: Layout
    floor: Floor
    refined: bool = False
    """Whether `bound` is that of the step in which nothing is shared, where that is higher."""


class Priced(NamedTuple):
    """A candidate and its figures."""

    value: float
    """What is minimised."""
    candidate: Candidate
    outcome: Outcome

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return _step(self.outcome)


@dataclass
class Found:
    """What a search found."""

    goal: Goal
    best: list[Priced] = field(default_factory=list)
    """The best ones, the best first."""
    counts: Counts = field(default_factory=Counts)
    notes: list[str] = field(default_factory=list)
    full: bool = False
    """Whether as many best ones are there as were asked for."""


@dataclass
class Prices:
    """The figures of candidates: known ones, those of a cache, and those that are worked out now."""

    executor: Executor | None
    cache: Cache | None
    known: dict[str, Outcome] = field(default_factory=dict)
    looked_up: int = 0
    worked_out: int = 0

    def of(self, some: Sequence[Candidate]) -> list[Outcome]:
        """The outcome of each."""
        keys = [cache_key(one.machine.key, one.layout) for one in some]
        missing = [key for key in keys if key not in self.known]
        if self.cache is not None and missing:
            found = self.cache.known(missing)
            self.looked_up += len(found)
            self.known |= found
        todo = [(key, one) for key, one in zip(keys, some, strict=True) if key not in self.known]
        for key, outcome in self._work(todo):
            self.known[key] = outcome
            self.worked_out += 1
            if self.cache is not None and outcome.status != "failed":
                self.cache.keep(key, outcome)
        return [self.known[key] for key in keys]

    def _work(self, todo: Sequence[tuple[str, Candidate]]) -> Iterator[tuple[str, Outcome]]:
        program = fingerprint.program()
        if self.executor is None or len(todo) < 2:
            yield from ((key, price(one.machine.document, one.layout, program)) for key, one in todo)
            return
        waiting = [(key, self.executor.submit(price, one.machine.document, one.layout, program)) for key, one in todo]
        yield from ((key, future.result()) for key, future in waiting)

    def least(self, some: Sequence[Candidate]) -> list[float]:
        """Seconds of a step of each in which nothing is shared."""
        return self._each(least, some)

    def confirmed(self, some: Sequence[Candidate]) -> list[Result]:
        """The Result of each, event by event."""
        return self._each(confirmed, some)

    def _each(self, work: Callable[[str, Layout, str], T], some: Sequence[Candidate]) -> list[T]:
        """What `work` makes of each."""
        program, each = fingerprint.program(), [(one.machine.document, one.layout) for one in some]
        if self.executor is None or len(some) < 2:
            return [work(*one, program) for one in each]
        waiting = [self.executor.submit(work, *one, program) for one in each]
        return [future.result() for future in waiting]


@dataclass
class Planner:
    """A search over spaces of layouts, one a machine."""

    spaces: Sequence[tuple[Machine, Space]]
    prices: Prices
    progress: Progress | None = None
    floors: dict[str, Floors] = field(default_factory=dict)
    _bounds: dict[tuple[str, Layout], Bound] = field(default_factory=dict)
    _least: dict[tuple[str, Layout], float] = field(default_factory=dict)

    def search(self, goal: Goal, top: int = TOP) -> Found:
        """The best layouts for a goal."""
        found = Found(goal)
        heap = list(self._candidates(goal, found.counts))
        heapify(heap)
        before = self.prices.looked_up, self.prices.worked_out
        while heap and not (len(found.best) >= top and heap[0].bound >= found.best[-1].value):
            taken = [heappop(heap) for _ in range(min(AT_ONCE, len(heap)))]
            for one in self._refined(goal, found.counts, [one for one in taken if not one.refined]):
                heappush(heap, one)
            some = [one for one in taken if one.refined]
            for candidate, outcome in zip(some, self.prices.of(some), strict=True):
                booked(found, candidate, outcome, top)
            if self.progress is not None:
                done = found.counts.all - found.counts.leaders + len(found.best)
                self.progress(done, done + len(heap))
        for left in heap:
            ruled_out(found.counts, goal, left, found.best[-1].value)
        looked_up, worked_out = self.prices.looked_up - before[0], self.prices.worked_out - before[1]
        found.counts.looked_up, found.counts.priced = looked_up, looked_up + worked_out
        found.counts.leaders = len(found.best)
        return found

    def _refined(self, goal: Goal, counts: Counts, some: Sequence[Candidate]) -> Iterator[Candidate]:
        """Candidates with the bound of a step in which nothing is shared; not those that miss a limit by it."""
        unknown = [one for one in some if (one.machine.key, one.layout) not in self._least]
        for one, step_s in zip(unknown, self.prices.least(unknown), strict=True):
            self._least[one.machine.key, one.layout] = step_s
        for one in some:
            scenario, step_s = one.machine.scenario, self._least[one.machine.key, one.layout]
            if limit := goal.missed(scenario, step_s):
                miss(counts, goal, limit, one.machine, one.layout, step_s)
            else:
                yield one._replace(bound=max(one.bound, goal.value(scenario, step_s)), refined=True)

    def _candidates(self, goal: Goal, counts: Counts) -> Iterator[Candidate]:
        """Those that memory and limits leave."""
        every = list(islice(((one, layout) for one, space in self.spaces for layout in layouts(space)), MOST + 1))
        if len(every) > MOST:
            hint = "list fewer values: `--only micro_batch=1,2`"
            raise InputError(Problem(f"more than {MOST:,} candidates are too many", hint=hint))
        self._bound_ahead([(machine, layout) for machine, layout in every if not goal.unpriced(machine.scenario)])
        for number, (machine, layout) in enumerate(every, start=1):
            need, floor, reason = self.bound(goal, machine, layout)
            if reason:
                counts.refuse(reason)
            elif floor is None:
                counts.miss("memory", layout, machine.name, need, machine.capacity)
            elif limit := goal.missed(machine.scenario, floor.bubble):
                miss(counts, goal, limit, machine, layout, floor.bubble)
            else:
                yield Candidate(goal.value(machine.scenario, floor.bubble), number, machine, layout, floor)

    def _bound_ahead(self, every: Sequence[tuple[Machine, Layout]]) -> None:
        """Bounds of all candidates on several processes, those that share layers and network in one."""
        if self.prices.executor is None:
            return
        groups: dict[tuple[str, tuple[int, ...]], tuple[Machine, list[Layout]]] = {}
        for machine, layout in every:
            if (machine.key, layout) not in self._bounds:
                groups.setdefault((machine.key, cuts(layout)), (machine, []))[1].append(layout)
        program = fingerprint.program()
        waiting = [
            (machine, some, self.prices.executor.submit(bounds_of, machine.document, some, program))
            for machine, some in groups.values()
        ]
        for machine, some, future in waiting:
            self._bounds |= {(machine.key, one): bound for one, bound in zip(some, future.result(), strict=True)}

    def bound(self, goal: Goal, machine: Machine, layout: Layout) -> Bound:
        """Of a candidate."""
        if reason := goal.unpriced(machine.scenario):
            return 0.0, None, reason
        known = machine.key, layout
        if known not in self._bounds:
            if machine.key not in self.floors:
                self.floors[machine.key] = Floors(machine.scenario)
            self._bounds[known] = self.floors[machine.key].bound(layout)
        return self._bounds[known]


def planned(
    spaces: Sequence[tuple[Machine, Space]],
    work: Callable[["Planner"], T],
    jobs: int = 1,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> T:
    """What `work` makes of a planner with so many processes and a cache file."""
    with ExitStack() as stack:
        executor = stack.enter_context(executors.processes(jobs)) if jobs > 1 else None
        kept = stack.enter_context(Cache(cache) if cache is not None else nullcontext())
        return work(Planner(spaces, Prices(executor, kept), progress))


def _step(outcome: Outcome) -> float:
    value = (outcome.metrics or {}).get("step_time_s")
    return float("inf") if value is None else value


def booked(found: Found, candidate: Candidate, outcome: Outcome, top: int) -> float | None:
    """Count what was priced, and keep it where it is among the best; what it comes to, None where it cannot be."""
    counts, scenario, layout, name = found.counts, candidate.machine.scenario, candidate.layout, candidate.machine.name
    step_s = _step(outcome)
    if outcome.status == "refused":
        counts.refuse(outcome.reason)
    elif outcome.status == "failed":
        counts.failed += 1
        found.notes.append(f"{layout.name}: {outcome.reason}")
    elif outcome.status != "ok":
        capacity = scenario.cluster.node.accelerator.memory.capacity.value
        need = (outcome.metrics or {}).get("peak_memory_bytes") or capacity
        counts.miss("memory", layout, name, max(need, capacity), capacity)
        counts.ledger += 1
    elif limit := found.goal.missed(scenario, step_s):
        miss(counts, found.goal, limit, candidate.machine, layout, step_s)
    else:
        value = found.goal.value(scenario, step_s)
        found.full = len(found.best) + 1 >= top
        found.best.append(Priced(value, candidate, outcome))
        found.best.sort(key=lambda one: (one.value, one.candidate.number))
        counts.beaten += len(found.best) > top
        del found.best[top:]
        return value
    return None


def miss(counts: Counts, goal: Goal, limit: str, machine: Machine, layout: Layout, step_s: float) -> None:
    """Count a layout whose step of so many seconds misses a limit."""
    if limit == "days":
        assert goal.days is not None
        need, most = goal.seconds(machine.scenario, step_s) / DAY_S, goal.days
    else:
        assert goal.budget is not None
        need, most = goal.cost(machine.scenario, step_s) or 0.0, goal.budget
    counts.miss(limit, layout, machine.name, need, most)


def ruled_out(counts: Counts, goal: Goal, candidate: Candidate, best: float) -> None:
    """Count a candidate under the first of its bounds that is above the best found."""
    scenario, floor = candidate.machine.scenario, candidate.floor
    for name, seconds in zip(Floor._fields, floor, strict=True):
        if goal.value(scenario, seconds) >= best:
            setattr(counts, name, getattr(counts, name) + 1)
            return
    counts.unshared += 1
