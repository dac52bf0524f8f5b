"""The life of a run on a clock: steps, failures, detection, restarts, spare nodes, until it is done.

Between two events all steps are alike, so that what happened is reckoned in closed form (`segment`). A failure that
stops the run loses what was done since the last checkpoint that is whole at that moment; failures strike while the run
is down as well, and it then begins to recover anew. A silent one makes steps longer from the next one on, until it is
detected; the run is then saved, stopped and started without it. Left out: failures of nodes that wait as spares.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.engine.clock import Clock
from simulator.engine.event import Appointment
from simulator.run.long.arrivals import LAST, Arrival, Source
from simulator.run.long.segment import Segment

WORK, CHECKPOINT, DETECTION, RESTART, IDLE, LOST = range(6)
STATES = ("training", "checkpoint", "detection", "restart", "idle", "lost work")
"""Names of what a run does, by number."""

Pace = Callable[[int, tuple["Slow", ...]], int]
"""(data-parallel replicas, what is slow) to the ticks of a step."""


@dataclass(frozen=True, slots=True)
class Slow:
    """Something that is slow."""

    of: str
    unit: int
    left: float
    node: int


@dataclass(frozen=True, slots=True)
class Rules:
    """How a run is saved and recovers; times are ticks."""

    goal: int | None
    """Steps until it is done, or"""
    horizon: int | None
    """how long it lasts."""
    every: int
    """Steps between checkpoints; 0 for none but the last."""
    stall: int
    """For which steps wait at a checkpoint."""
    write: int
    """From there until it can be restored."""
    store: int
    """From there until it is on storage."""
    persist: int
    """Every so many-th checkpoint gets to storage; 0 where each does."""
    load: int
    """To read a checkpoint from storage."""
    load_memory: int
    """To restore one from the memory of hosts."""
    reshard: int
    """What a restart with another layout adds."""
    restart: int
    swap: int
    """What bringing in a spare node adds."""
    repair: int | None
    """Until a node is back; None for never."""
    spares: int | None
    """Nodes that wait; None for as many as are needed."""
    elastic: bool
    nodes: int
    replicas: int
    """Data-parallel replicas on all nodes."""
    most: int
    """Failures after which a run that is not done is given up."""

    def replicas_on(self, nodes: int) -> int:
        """Replicas that fit on so many nodes."""
        return nodes * self.replicas // self.nodes


@dataclass(slots=True)
class Record:
    """What became of a run."""

    end: int = 0
    """When it was over."""
    steps: int = 0
    """Steps done, each counted once."""
    ticks: Counter[str] = field(default_factory=Counter)
    """Time by what it went to; sums to `end`."""
    strikes: Counter[int] = field(default_factory=Counter)
    """Failures by the number of their cause."""
    restarts: int = 0
    checkpoints: int = 0
    bands: list[tuple[int, int, int]] = field(default_factory=list)
    """(from, to, number of the state), without gaps."""
    stuck: str = ""
    """Why it cannot go on; empty where it is done."""


class _Saved(NamedTuple):
    """A checkpoint."""

    ready: int
    step: int
    durable: bool
    """Whether it is on storage."""


class Life:
    """One run."""

    def __init__(self, rules: Rules, sources: Sequence[Source], failures: Iterator[Arrival], pace: Pace) -> None:
        """What it does follows from what fails and how long steps take."""
        self._rules, self._sources, self._failures, self._pace = rules, sources, failures, pace
        self._clock = Clock()
        self.record = Record()
        self._due: Appointment | None = None
        self._state, self._since, self._over = WORK, 0, False
        self._step, self._into, self._number = 0, 0, 0
        self._segment = Segment(0, 1, 0, 0, 0)
        self._kept: list[tuple[int, int, int, int]] = []  # (first step, steps, ticks of one, those of the layout)
        self._saves = [_Saved(0, 0, True)]
        self._free, self._returning = rules.spares, 0
        self._out: set[int] = set()
        self._lost_nodes: set[int] = set()
        self._slow: dict[int, Slow] = {}
        self._found: set[int] = set()
        self._replicas, self._swapped, self._detected, self._announced = rules.replicas, False, 0, False
        self._read, self._strikes = False, 0

    def run(self) -> Record:
        """Let it happen."""
        self._work()
        self._next_failure()
        if self._rules.horizon is not None:
            self._clock.at(self._rules.horizon, lambda _: None if self._over else self._stop())
        self._clock.run()
        if not self._over:
            self._give_up("it takes longer than the clock of a run counts, 73 years")
        self._sum_up()
        return self.record

    @property
    def _now(self) -> int:
        return self._clock.now

    # ---- steps -----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Steps run from now on."""
        rules, slow = self._rules, tuple(self._slow.values())
        self._replicas = rules.replicas_on(rules.nodes - len(self._out))
        step = self._pace(self._replicas, slow)
        self._state, self._announced = WORK, False
        self._segment = Segment(self._now, step, self._into, rules.every, rules.stall)
        if rules.goal is not None:
            self._appoint(self._segment.until(rules.goal - self._step), self._finish)

    def _close(self) -> int:
        """End the segment now; ticks of the step that was under way."""
        segment, elapsed = self._segment, self._now - self._segment.start
        done = segment.after(elapsed)
        if done.steps:
            plain = self._pace(self._replicas, ())
            self._kept.append((self._step, done.steps, segment.step, plain))
        self._note(segment, done.saves)
        self._step, self._into = self._step + done.steps, done.into
        self.record.ticks["checkpoint"] += done.stall
        self._band(segment.start, WORK)
        return done.partial

    def _note(self, segment: Segment, saves: int) -> None:
        """Checkpoints of a segment that is being closed: of each kind the last that is whole, and later ones."""
        rules, first = self._rules, self._number
        self.record.checkpoints += saves

        def note(numbers: range, write: int, durable: bool) -> None:
            for save in numbers:
                ready = segment.start + segment.until_saved(save) + write
                self._saves.append(_Saved(ready, self._step + segment.saved(save), durable))
                if ready <= self._now:
                    break

        note(range(saves, 0, -1), rules.write, not rules.persist)
        if rules.persist:
            note(range(saves - (first + saves) % rules.persist, 0, -rules.persist), rules.store, True)
        self._number += saves

    def _finish(self) -> None:
        """All steps are done; the last checkpoint is written."""
        self._close()
        self._save(self._end)

    def _save(self, then: Callable[[], None]) -> None:
        """Write a checkpoint to storage while nothing else runs."""

        def saved() -> None:
            self._pass("checkpoint", CHECKPOINT)
            self._saves.append(_Saved(self._now, self._step, True))
            self.record.checkpoints += 1
            self._number, self._into = self._number + 1, 0
            then()

        self._enter(CHECKPOINT, self._rules.stall + self._rules.store, saved)

    def _end(self) -> None:
        self._over, self.record.end = True, self._now

    def _stop(self) -> None:
        """The time is over."""
        if self._state == WORK:
            self.record.ticks["training"] += self._close()
        else:
            self._pass(STATES[self._state], self._state)
        self._end()

    # ---- failures --------------------------------------------------------------------------------------------------

    def _next_failure(self) -> None:
        arrival = next(self._failures, None)
        if arrival is not None and arrival.tick < LAST:
            self._clock.at(arrival.tick, lambda _: self._arrive(arrival))

    def _arrive(self, failure: Arrival) -> None:
        """Something fails now."""
        if self._over:
            return
        if failure.node not in self._out:
            source = self._sources[failure.source]
            self.record.strikes[failure.source] += 1
            if failure.left is not None:
                self._slows(failure, failure.left, source)
            elif source.planned:
                self._announce()
            else:
                self._strike(failure, source)
        self._strikes += 1
        if self._strikes >= self._rules.most:
            self._give_up("failures come faster than it recovers")
            return
        self._next_failure()

    def _strike(self, failure: Arrival, source: Source) -> None:
        """The run stops."""
        if failure.node >= 0:
            self._lose(failure.node, failure.until)
        if self._state == WORK:
            self.record.ticks["lost work"] += self._close()
        else:
            self._pass(STATES[self._state], self._state)
        self._restore()
        self._detected = max(self._detected, self._now + source.detection)
        self._enter(DETECTION, self._detected - self._now, self._is_detected)

    def _restore(self) -> None:
        """Go back to the last checkpoint that is whole and can be reached."""
        now, apart = self._now, any(node ^ 1 in self._lost_nodes for node in self._lost_nodes)
        whole = [save for save in self._saves if save.ready <= now and (save.durable or not apart)]
        step = max(save.step for save in whole)
        self._read = step > 0 and (not self._rules.persist or apart)
        lost = 0
        while self._kept and self._kept[-1][0] + self._kept[-1][1] > step:
            first, steps, ticks, plain = self._kept.pop()
            kept = max(step - first, 0)
            lost += (steps - kept) * ticks
            if kept:
                self._kept.append((first, kept, ticks, plain))
        self.record.ticks["lost work"] += lost
        if lost and self.record.bands and self.record.bands[-1][2] == WORK:
            start, end, _ = self.record.bands.pop()
            cut = max(start, end - lost)
            self.record.bands += [(start, cut, WORK), (cut, end, LOST)]
        self._step, self._into = step, 0
        durable = max(save.step for save in whole if save.durable)
        self._saves = [_Saved(now, durable, True)]
        if step > durable:
            self._saves.append(_Saved(now, step, False))

    def _lose(self, node: int, until: int | None) -> None:
        """A node is out."""
        self._lost_nodes.add(node)
        if self._free is None:
            return
        self._out.add(node)
        back = until if until is not None else None if self._rules.repair is None else self._now + self._rules.repair
        if back is not None:
            self._returning += 1
            self._clock.at(max(back, self._now), lambda _: self._is_back())

    def _is_back(self) -> None:
        if self._over or self._free is None:
            return
        self._returning, self._free = self._returning - 1, self._free + 1
        if self._state == IDLE:
            self._pass("idle", IDLE)
            self._allocate()
        elif self._out and self._rules.replicas_on(self._rules.nodes - len(self._out) + self._free) > self._replicas:
            self._announce()

    # ---- what is slow ----------------------------------------------------------------------------------------------

    def _slows(self, failure: Arrival, left: float, source: Source) -> None:
        """Something is slow from now on."""
        number = self._strikes
        self._slow[number] = Slow(source.of, failure.unit, left, failure.node)

        def over() -> None:
            self._found.discard(number)
            if self._slow.pop(number, None) is not None:
                self._change()

        def found() -> None:
            if number in self._slow:
                self._found.add(number)
                self._announce()

        for tick, call in ((failure.until, over), (self._now + source.detection, found)):
            if tick is not None and tick < LAST:
                self._clock.at(tick, lambda _, call=call: None if self._over else call())  # type: ignore[misc]
        self._change()

    def _change(self) -> None:
        """Steps take another time from the next one on."""
        if self._state == WORK and not self._announced:
            self._at_boundary(self._work)

    def _announce(self) -> None:
        """Save the run after this step, and start it anew."""
        if self._state == WORK and not self._announced:
            self._announced = True
            self._at_boundary(lambda: self._save(self._allocate))

    def _at_boundary(self, then: Callable[[], None]) -> None:
        def call() -> None:
            self._close()
            if self._step == self._rules.goal:
                self._save(self._end)
            else:
                then()

        elapsed = self._now - self._segment.start
        self._appoint(self._segment.boundary(elapsed) - elapsed, call)

    # ---- recovery --------------------------------------------------------------------------------------------------

    def _is_detected(self) -> None:
        self._pass("detection", DETECTION)
        self._allocate()

    def _allocate(self) -> None:
        """Replace the nodes that are out, as far as there are spares; then start, or wait."""
        for number in self._found:
            if (slow := self._slow.pop(number)).node >= 0:
                self._lose(slow.node, None)
        self._found.clear()
        while self._out and self._free:
            self._out.pop()
            self._free -= 1
            self._swapped = True
        rules, before = self._rules, self._replicas
        replicas = rules.replicas_on(rules.nodes - len(self._out))
        if self._out and not (rules.elastic and replicas):
            self._enter(IDLE, None, self._allocate)
            if not self._returning and rules.horizon is None:
                self._give_up("no spare node is left")
            return
        gone = {number for number, slow in self._slow.items() if slow.node in self._lost_nodes}
        self._slow = {number: slow for number, slow in self._slow.items() if number not in gone}
        load = (rules.load if self._read else rules.load_memory) if self._step else 0
        lasts = rules.restart + load + rules.swap * self._swapped + rules.reshard * (replicas != before)
        self._enter(RESTART, lasts, self._resume)

    def _resume(self) -> None:
        self._pass("restart", RESTART)
        self.record.restarts += 1
        self._lost_nodes.clear()
        self._swapped = self._read = False
        self._work()
        if self._found:
            self._announce()

    def _give_up(self, why: str) -> None:
        self.record.stuck = why
        self._stop()

    # ---- time ------------------------------------------------------------------------------------------------------

    def _enter(self, state: int, lasts: int | None, then: Callable[[], None]) -> None:
        """Be in a state for so long, or until something else happens."""
        self._state, self._since = state, self._now
        if lasts is None:
            self._due = None
        else:
            self._appoint(lasts, then)

    def _pass(self, name: str, state: int) -> None:
        """The state that is ending took its time."""
        self.record.ticks[name] += self._now - self._since
        self._band(self._since, state)

    def _appoint(self, delay: int, call: Callable[[], None]) -> None:
        """What the run does next, in place of what it would have done."""

        def due(moment: Appointment) -> None:
            if moment is self._due and not self._over:
                call()

        tick = self._now + delay
        self._due = self._clock.at(tick, due) if tick < LAST else None

    def _band(self, start: int, state: int) -> None:
        if self._now > start:
            self.record.bands.append((start, self._now, state))

    def _sum_up(self) -> None:
        """Time of the steps that were kept: as steps alone take, and what slow elements and fewer nodes added; where
        fewer nodes are faster, as they take."""
        ticks, base = self.record.ticks, self._pace(self._rules.replicas, ())
        expected = 0
        for first, steps, each, plain in self._kept:
            assert first == expected, "a step was lost or counted twice"
            expected += steps
            ticks["training"] += steps * min(base, plain)
            ticks["slow"] += steps * (each - plain)
            ticks["fewer nodes"] += steps * max(plain - base, 0)
        self.record.steps = expected
        assert ticks.total() == self.record.end, "time by cause does not sum to the run"
