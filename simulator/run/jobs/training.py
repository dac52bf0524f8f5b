"""A training job on a site: step after step, on links that it shares with the jobs that it can meet there.

A job that meets no others is not rerun: each of its steps is what it is alone. Of one that does, operations that send
over links on which it can meet others are activities on them; passes in which such collectives run are cut into parts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.engine.load import Load, Span
from simulator.engine.player import Player
from simulator.engine.tape import Tape, Timeline
from simulator.engine.wires import User, Wires
from simulator.errors import InputError, Problem
from simulator.results.result import Result
from simulator.run.gather import Run, gather
from simulator.run.links.carried import Recorded, link_loads
from simulator.run.links.contention import Traffic
from simulator.run.simulate import Prepared, alone
from simulator.run.site import Site
from simulator.run.spans import spans_of
from simulator.run.steps import Lowered, Steps, at_pace, slowest
from simulator.specs.jobs import TrainingJob
from simulator.training.noise import fold_keys, joined, slowdowns
from simulator.training.rescale import durations, rescaled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_KEPT = 20_000_000
"""Operations of all steps of a job that are counted, above which it is refused."""


@dataclass(slots=True, eq=False)
class Trainer:
    """A job that trains, beside others."""

    name: str
    spec: TrainingJob
    prepared: Prepared
    site: Site
    own: Run = field(init=False)
    """All its steps alone."""
    user: User = field(init=False)
    traffic: Traffic = field(init=False)
    """Of the program that it runs."""
    lowered: Lowered = field(init=False)
    steps: list[Timeline] = field(init=False, default_factory=list)
    """Those that are counted."""
    begun: list[int] = field(init=False, default_factory=list)
    """When each of them began."""
    links: Ints = field(init=False)
    """Of the fabric, those that its operations are activities on."""
    load: Load | None = field(init=False, default=None)
    _tapes: dict[int, Tape] = field(init=False, default_factory=dict)
    _cut: bool = field(init=False, default=False)
    _wires: Wires = field(init=False, default_factory=Wires)
    _resources: list[int] = field(init=False, default_factory=list)
    _begun: int = field(init=False, default=0)
    """Steps so far, counted or not."""
    _done: Callable[[], None] = field(init=False)
    _others: Callable[[], bool] = field(init=False)
    _gathered: Result | None = field(init=False, default=None)
    _inside: frozenset[int] = field(init=False)
    """Links that passes send over which run as one instruction."""

    def __post_init__(self) -> None:
        """Run it alone."""
        self.own = alone(self.prepared)
        self.lowered = Lowered(self.own.classes, self.own.program)
        self.traffic = Traffic(self.own.program, self.own.classes, self.site.fabric)
        everything, inside = self.traffic.most()
        links = np.flatnonzero(everything)
        self._inside = frozenset(np.flatnonzero(inside).tolist())
        rates = dict(zip(links.tolist(), everything[links].tolist(), strict=True))
        self.user = User(rates.keys(), lambda: rates, lambda: self._wires, self.name)

    @property
    def meets(self) -> bool:
        """Whether it can meet other users of links."""
        return bool(self.user.met)

    @property
    def needed(self) -> Ints:
        """Links that its operations must be activities on: where it meets others, and where they meet each other."""
        own = self.traffic.of_kinds(self.own.shared)
        met = np.intersect1d(np.array(list(self.user.met), np.int64), self.traffic.used)
        return np.union1d(own, met)

    def prepare(self) -> None:
        """Lower it anew, so that it can share: passes are cut where what runs in them can meet others, chains of
        devices that are slowed differently stay apart."""
        self._cut = not self._inside.isdisjoint(self.user.met)
        if self._pace is not None:
            self._lower(joined(self.own.classes.number, fold_keys(self._pace)))
        elif self._cut:
            self._lower(self.own.classes.number)

    def refold(self, keys: Ints | None) -> bool:
        """Take chains of different `keys` (chains,) apart; whether any were together."""
        joined = None if keys is None else self.lowered.classes.split(keys)
        if joined is not None:
            self._lower(joined)
        return joined is not None

    def _lower(self, keys: Ints) -> None:
        self.lowered = self.prepared.lower(keys, self._cut)
        self.traffic = Traffic(self.lowered.program, self.lowered.classes, self.site.fabric)

    @property
    def _pace(self) -> Floats | None:
        """Factors of each place of each chain by step, (chains, pp, steps); None where nothing is slowed."""
        factors = self.prepared.noise.factors
        if self.prepared.still or factors is None:
            return None
        return slowdowns(self.prepared.job.meeting().values(), self.prepared.network.chains, factors)

    def bind(self, links: Ints, load: Load) -> None:
        """Run on some links of the fabric, whose load is written down."""
        self.links, self.load = links, load
        tape = self.traffic.tape(links)
        self._resources = [self.site.clock.add(units) for units in tape.capacity[: len(tape.capacity) - len(links)]]
        self._resources += links.tolist()
        pace, program = self._pace, replace(self.lowered.program, tape=tape)
        if pace is None:
            self._tapes = {0: tape}
            return
        paces = slowest(self.lowered.classes, pace)
        columns = durations(program, paces)
        self._tapes = {i: rescaled(tape, ticks) for i, ticks in enumerate(columns.T)}

    def start(self, measured: Callable[[], None], others: Callable[[], bool]) -> None:
        """Begin at its time; `measured` is called after the steps that count, `others` tells whether jobs have still
        to do theirs."""
        clock, begin = self.site.clock, units.to_ticks(self.spec.start)
        steps = self.spec.training.steps
        if not self.meets:
            clock.at(begin + self.own.steps.total, lambda _: measured())
            return
        if len(self.lowered.program.tape) * steps > MOST_KEPT:
            message = f"{steps:,} steps that meet other jobs are more than are kept"
            most = max(MOST_KEPT // len(self.lowered.program.tape), 1)
            raise InputError(Problem(message, path="training.steps", hint=f"at most {most:,}"))
        self._done, self._others = measured, others
        clock.at(begin, self._first)

    def _first(self, _: object) -> None:
        self._wires.enter()
        self._step()

    def _step(self) -> None:
        """Begin the next step, if there is one."""
        number, steps = self._begun, self.spec.training.steps
        self._begun += 1
        if number == steps:
            self._done()
        if number >= steps and not (self.spec.repeat and self._others()):
            self._wires.leave()
            return
        if number < steps:
            self.begun.append(self.site.clock.now)
        tape = self._tapes[number % len(self._tapes)]
        Player(self.site.clock, tape, resources=self._resources, name=self.name, label=self._label, on_end=self._ended)

    def _ended(self, player: Player) -> None:
        """A step is over."""
        if len(self.steps) < self.spec.training.steps:
            self.steps.append(player.timeline())
        self._step()

    def _label(self, operation: int) -> tuple[str, str]:
        return self.name, self.traffic.label(operation)

    @property
    def alone(self) -> dict[str, float]:
        """Its figures alone."""
        return self._alone.metrics

    @property
    def _alone(self) -> Result:
        """What it does alone."""
        if self._gathered is None:
            self._gathered = gather(self.own)
        return self._gathered

    @property
    def shown_from(self) -> int:
        """The tick at which the step that its Result shows began."""
        if self.meets:
            return int(self.begun[self._measured.shown])
        ticks, shown = list[int](self.own.steps.ticks.tolist()), self.own.steps.shown
        return units.to_ticks(self.spec.start) + sum(ticks[:shown])

    @property
    def _measured(self) -> Steps:
        """The steps that are counted."""
        return Steps(np.array([timeline.makespan for timeline in self.steps], np.int64))

    def result(self) -> Result:
        """What it did beside the others."""
        return gather(self._run()) if self.meets else self._alone

    def _run(self) -> Run:
        own, job = self.own, self.prepared.job
        steps = self._measured
        shown, timeline, pace = steps.shown, self.steps[steps.shown], self._pace
        lowered = self.lowered
        if pace is not None:
            lowered = at_pace(lowered, slowest(lowered.classes, pace)[:, :, shown % pace.shape[2]])
        begun = self.begun[shown]
        fabric, spans = self.site.fabric, spans_of(lowered.program, timeline, job.pp)
        assert self.load is not None
        net = self.traffic.net(self.links)
        resources = tuple(self.links.tolist())
        recorded = OfStep(self.links, self.load, resources, net, self.name, begun, timeline.makespan)
        step_s = units.to_seconds(timeline.makespan)
        links = link_loads(fabric, lowered.program, lowered.classes, step_s, spans, recorded)
        return replace(
            own,
            classes=lowered.classes,
            program=lowered.program,
            timeline=timeline,
            steps=steps,
            links=links,
            executor="simpy",
        )


@dataclass(frozen=True, slots=True, eq=False)
class OfStep(Recorded):
    """What links carried for one job in one step."""

    job: str
    begun: int
    lasted: int

    def spans(self, link: int) -> list[Span]:
        """In ticks of the step, by the name of the operation."""
        found = []
        for start, stop, capacity, by in super(OfStep, self).spans(link):
            first, last = max(start - self.begun, 0), min(stop - self.begun, self.lasted)
            mine = {label[1]: rate for label, rate in by.items() if isinstance(label, tuple) and label[0] == self.job}
            if last > first:
                found.append(Span(first, last, capacity, mine))
        return found
