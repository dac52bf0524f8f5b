"""A list scheduler: every rank, whenever it is free, takes the most urgent pass that is ready and may be kept.

Backward passes are cut in two. By default input gradients come first, for others wait for them; forward
passes follow, those of later stages before those of earlier ones; weight gradients fill what would be idle, or make
room. A stage keeps at most its cap of microbatches from F to the end of W, and a rank no more than its limit. Caps
never wait in a circle: the last stage can always go on. A limit on a rank with several stages can, and then there is no
order.

The method is that of the heuristic in arXiv:2401.10241, section 3.1, for any placement.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from simulator.program.schedule import Schedule
from simulator.program.timing import Costs, Ints
from simulator.training.schedules.orders import B, F, I, Pass, W, from_rows


@dataclass(frozen=True, slots=True)
class Rules:
    """How a rank chooses."""

    caps: Ints
    """Most microbatches that each stage keeps; shape (stages,)."""
    ahead: Ints | None = None
    """Most microbatches of each stage between F and I; shape (stages,). None: as many as may be kept."""
    limit: float = float("inf")
    """Most that a rank keeps, in the unit of `Costs.kept`."""
    urgency: Callable[[int, int], int] | None = None
    """Of F or I (`orders`) of a stage, the smaller the sooner; None: I before F, later stages before earlier ones."""
    split: bool = True
    """Whether backward passes are cut in two."""
    patience: float = 0.0
    """Part of a weight gradient's time that a rank would rather be idle than be late by for what is under way."""
    until: float = float("inf")
    """Ticks after which an order is of no use: it is given up when the work left on a rank says that it takes more."""


def arrange(home: Ints, microbatches: int, costs: Costs, rules: Rules) -> Schedule | None:
    """The order that comes out; `home` (stages,) is the rank of each stage. None where the limit lets no rank go
    on, or the order would take longer than it may."""
    line = _Line(home, microbatches, costs, rules)
    line.run()
    return from_rows(line.rows) if line.left == 0 else None  # a W that is owed can always run


class _Line:
    """Ranks at work; a stage takes microbatches in order, so that counts of passes say which comes next."""

    def __init__(self, home: Ints, microbatches: int, costs: Costs, rules: Rules) -> None:
        """Nothing has run."""
        stages, ranks = len(home), int(home.max()) + 1
        self.home, self.microbatches, self.rules, self.send = home.tolist(), microbatches, rules, costs.send
        self.stages_of = [[s for s in reversed(range(stages)) if self.home[s] == rank] for rank in range(ranks)]
        urgency = rules.urgency or (lambda kind, stage: -kind * stages - stage)
        pairs = [[(kind, s) for kind in (F, I) for s in own] for own in self.stages_of]
        self.choices = [sorted(own, key=lambda pair: urgency(*pair)) for own in pairs]
        self.ticks = [[0] * stages for _ in range(4)]
        for kind, ticks in ((F, costs.forward), (I, costs.input_gradient), (W, costs.weight_gradient)):
            self.ticks[kind] = ticks.tolist()
        self.kept, self.rest = costs.kept.tolist(), costs.kept_for_weights.tolist()
        if not rules.split:
            self.ticks[I] = costs.whole_backward.tolist()
        self.caps: list[int] = rules.caps.tolist()
        self.ahead: list[int] = (rules.caps if rules.ahead is None else rules.ahead).tolist()
        self.done = [[0] * stages for _ in range(4)]
        self.arrived: list[list[deque[int]]] = [[deque() for _ in range(stages)] for _ in range(I + 1)]
        self.arrived[F][0].extend([0] * microbatches)
        self.level = [0.0] * ranks
        self.free = [0] * ranks
        self.rows: list[list[Pass]] = [[] for _ in range(ranks)]
        self.left = 2 * stages * microbatches
        each = costs.forward + (costs.input_gradient + costs.weight_gradient if rules.split else costs.whole_backward)
        self.work: list[int] = (np.bincount(home, each).astype(np.int64) * microbatches).tolist()
        self.events = [(0, rank) for rank in range(ranks)]

    def run(self) -> None:
        """Let time pass until nothing is left or nothing goes on."""
        while self.events:
            now, rank = heappop(self.events)
            if self.free[rank] > now:
                continue
            chosen = self.choose(rank, now)
            if chosen is not None:
                self.start(rank, now, *chosen)

    def choose(self, rank: int, now: int) -> tuple[int, int] | None:
        """Kind and stage of the pass that a free rank takes, None to wait."""
        for kind, stage in self.choices[rank]:
            arrived = self.arrived[kind][stage]
            if arrived and arrived[0] <= now and (kind == I or self.fits(rank, stage)):
                return kind, stage
        owed = [s for s in self.stages_of[rank] if self.done[W][s] < self.done[I][s]]
        if not owed:
            return None
        stage = max(owed, key=lambda s: self.done[I][s] - self.done[W][s]) if len(owed) > 1 else owed[0]
        return None if self.rules.patience and self.soon(rank, now, stage) else (W, stage)

    def fits(self, rank: int, stage: int) -> bool:
        """Whether one more microbatch may be kept."""
        begun = self.done[F][stage]
        if begun - self.done[W][stage] >= self.caps[stage] or begun - self.done[I][stage] >= self.ahead[stage]:
            return False
        return self.level[rank] + float(self.kept[stage]) <= self.rules.limit

    def soon(self, rank: int, now: int, stage: int) -> bool:
        """Whether something arrives so soon that a weight gradient of the stage would make it too late."""
        until = now + self.rules.patience * self.ticks[W][stage]
        for s in self.stages_of[rank]:
            backward, forward = self.arrived[I][s], self.arrived[F][s]
            if (backward and backward[0] < until) or (forward and forward[0] < until and self.fits(rank, s)):
                return True
        return False

    def start(self, rank: int, now: int, kind: int, stage: int) -> None:
        """Run a pass and hand its output on."""
        number = self.done[kind][stage]
        self.done[kind][stage] = number + 1
        self.rows[rank].append((kind if self.rules.split or kind == F else B, stage, number))
        self.left -= kind != W
        end = self.free[rank] = now + self.ticks[kind][stage]
        self.work[rank] -= self.ticks[kind][stage]
        if end + self.work[rank] > self.rules.until:
            self.events.clear()
            self.left = -1
            return
        heappush(self.events, (end, rank))
        if kind == W:
            self.level[rank] -= self.rest[stage]
            return
        self.arrived[kind][stage].popleft()
        if kind == F:
            self.level[rank] += self.kept[stage]
            last = stage + 1 == len(self.home)
            self.hand(end, rank, I if last else F, stage if last else stage + 1)
        else:
            self.level[rank] -= self.kept[stage] - self.rest[stage]
            if stage:
                self.hand(end, rank, I, stage - 1)
            if not self.rules.split:
                self.done[W][stage] = number + 1
                self.level[rank] -= self.rest[stage]

    def hand(self, end: int, rank: int, kind: int, stage: int) -> None:
        """Make an output known to the stage that takes it, when it gets there."""
        taker = self.home[stage]
        there = end if taker == rank else end + self.send
        self.arrived[kind][stage].append(there)
        if taker != rank:
            heappush(self.events, (there, taker))
