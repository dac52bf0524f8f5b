"""Stages with their durations on one clock: a run begins when all that it waits for is done and its pools are free.

A pool serves one run at a time, the one that has been ready for longest first; a run that has to wait keeps its place
in all its pools, so that none is passed over for ever. Nothing is shared but pools: what runs on other devices at the
same time does not slow it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from simulator.engine.clock import Clock

Key = tuple[str, int]
"""Stage and iteration."""


@dataclass(frozen=True, slots=True)
class Step:
    """A stage as the player sees it."""

    name: str
    pools: tuple[str, ...]
    waits: tuple[tuple[str, int], ...]
    """Stages and how many iterations earlier."""


@dataclass(slots=True)
class Played:
    """A run of a stage; ticks."""

    stage: str
    iteration: int
    ready: int
    begin: int = -1
    end: int = -1
    released: Key | None = None
    """The run whose end let it begin; None at the start."""


@dataclass(slots=True, eq=False)
class _Player:
    steps: Sequence[Step]
    iterations: int
    duration: Callable[[str, int], int]
    clock: Clock = field(default_factory=Clock)
    runs: dict[Key, Played] = field(default_factory=dict)
    open: dict[Key, set[Key]] = field(default_factory=dict)
    """What each run still waits for."""
    followers: dict[Key, list[Key]] = field(default_factory=dict)
    ready: list[Key] = field(default_factory=list)
    busy: dict[str, Key] = field(default_factory=dict)
    freed: dict[str, Key] = field(default_factory=dict)
    """The last run on each pool."""
    by_name: dict[str, Step] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_name = {step.name: step for step in self.steps}
        for iteration in range(self.iterations):
            for step in self.steps:
                key = (step.name, iteration)
                waits = {(name, iteration - lag) for name, lag in (*step.waits, (step.name, 1)) if iteration >= lag}
                self.open[key] = waits
                for one in waits:
                    self.followers.setdefault(one, []).append(key)

    def run(self) -> list[Played]:
        for key in [key for key, waits in self.open.items() if not waits]:
            self._becomes_ready(key, None)
        self.clock.begin(lambda _: self._start())
        self.clock.run()
        return list(self.runs.values())

    def _becomes_ready(self, key: Key, by: Key | None) -> None:
        self.runs[key] = Played(*key, ready=self.clock.now, released=by)
        self.ready.append(key)

    def _start(self) -> None:
        """Begin what can begin, in the order in which it became ready."""
        kept: set[str] = set()
        for key in list(self.ready):
            pools = self.by_name[key[0]].pools
            if any(pool in self.busy or pool in kept for pool in pools):
                kept.update(pools)
                continue
            self.ready.remove(key)
            run = self.runs[key]
            run.begin = self.clock.now
            if run.begin > run.ready:
                freed = [self.freed[pool] for pool in pools if pool in self.freed]
                run.released = max(freed, key=lambda one: self.runs[one].end)
            for pool in pools:
                self.busy[pool] = key
            self.clock.at(run.begin + self.duration(*key), lambda _, key=key: self._end(key))  # type: ignore[misc]

    def _end(self, key: Key) -> None:
        self.runs[key].end = self.clock.now
        for pool in self.by_name[key[0]].pools:
            del self.busy[pool]
            self.freed[pool] = key
        for follower in self.followers.get(key, ()):
            self.open[follower].discard(key)
            if not self.open[follower]:
                self._becomes_ready(follower, key)
        self.clock.begin(lambda _: self._start())


def play(steps: Sequence[Step], iterations: int, duration: Callable[[str, int], int]) -> list[Played]:
    """All runs, in the order in which they became ready; `duration` gives ticks of (stage, iteration)."""
    return _Player(steps, iterations, duration).run()


def longest_path(steps: Sequence[Step], iterations: int, durations: Mapping[Key, int]) -> int:
    """Ticks of the longest chain of runs that wait for each other: the makespan where no pool is shared."""
    end: dict[Key, int] = {}
    left = [(step, iteration) for iteration in range(iterations) for step in steps]
    while left:
        waiting = []
        for step, iteration in left:
            waits = [(name, iteration - lag) for name, lag in (*step.waits, (step.name, 1)) if iteration >= lag]
            if all(one in end for one in waits):
                key = (step.name, iteration)
                end[key] = max((end[one] for one in waits), default=0) + durations[key]
            else:
                waiting.append((step, iteration))
        if len(waiting) == len(left):
            raise ValueError("stages wait for each other in a circle")
        left = waiting
    return max(end.values())


def critical(runs: Sequence[Played]) -> list[Played]:
    """The chain of runs that the last one to end hangs on, from the first on."""
    by_key = {(run.stage, run.iteration): run for run in runs}
    chain = [max(runs, key=lambda run: (run.end, run.begin))]
    while (before := chain[-1].released) is not None:
        chain.append(by_key[before])
    return chain[::-1]
