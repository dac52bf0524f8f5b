"""Microbatches that skip stages, each by a path of its own, in the manner of SkipPipe.

A free rank takes a backward pass that is there, else the forward pass of the earliest microbatch; p microbatches may
be under way, or as many more as it takes to be no longer than 1F1B through all stages. Stages of a path may come in any
order, and backward passes go the same way back. How SkipPipe chooses paths (fewest collisions, links between far
places) is left out: paths are given.

Source: arXiv:2502.19913.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

from simulator.errors import InputError, Problem
from simulator.program.schedule import Paths, Schedule
from simulator.program.timing import Costs, time_schedule
from simulator.training.schedules.base import SCHEDULES, ChunksError, Pipeline
from simulator.training.schedules.one_forward import one_f_one_b
from simulator.training.schedules.orders import B, F, Pass, from_rows


@SCHEDULES.add("skippipe")
def skippipe(pipeline: Pipeline) -> Schedule:
    """Each microbatch goes through the stages of its path alone; by default, each skips one of all but the first in
    turn."""
    if pipeline.chunks != 1:
        message = f"schedule `skippipe` runs one chunk a rank, not {pipeline.chunks}"
        raise ChunksError(Problem(message, hint="write `vpp: 1`"))
    paths = pipeline.paths or one_skipped(pipeline.ranks, pipeline.microbatches)
    check_paths(paths, pipeline.ranks, pipeline.microbatches)
    ranks, most, costs = pipeline.ranks, pipeline.microbatches, pipeline.known_costs
    enough = time_schedule(one_f_one_b(pipeline), costs).makespan
    found: list[tuple[int, Schedule]] = []
    for many in sorted({min(many, most) for many in (ranks, ranks + 1, -(-3 * ranks // 2), 2 * ranks, most)}):
        made = from_rows(_Line(pipeline, paths, many).run(), paths=paths)
        found.append((time_schedule(made, costs).makespan, made))
        if found[-1][0] <= enough:
            break
    return min(found, key=lambda one: one[0])[1]


def one_skipped(ranks: int, microbatches: int) -> Paths:
    """Paths of which each skips one stage, the second first; all stages where that would leave one without work."""
    if ranks <= 2 or microbatches == 1:
        return (tuple(range(ranks)),)
    return tuple(tuple(s for s in range(ranks) if s != skipped) for skipped in range(1, ranks))


def check_paths(paths: Paths, ranks: int, microbatches: int) -> None:
    """InputError for paths that go nowhere, through a stage twice or through none that there is; or leave one out."""
    hint = f"write stages from 0 to {ranks - 1}, for example 0-{ranks - 1}"
    for path in paths:
        text = "-".join(map(str, path))
        if not path or len(set(path)) < len(path) or not set(path) <= set(range(ranks)):
            raise InputError(Problem(f"path `{text}` is none through {ranks} stages", hint=hint))
    taken = {stage for path in paths[:microbatches] for stage in path}
    if left := sorted(set(range(ranks)) - taken):
        raise InputError(Problem(f"no microbatch goes through stage {left[0]}", hint="write a path with it"))


class _Line:
    """Ranks at work, rank r on stage r."""

    def __init__(self, pipeline: Pipeline, paths: Paths, many: int) -> None:
        """Nothing has run; so many microbatches wait at the start of their paths."""
        costs: Costs = pipeline.known_costs
        self.send, self.paths = costs.send, paths
        self.ticks = {F: costs.forward.tolist(), B: costs.whole_backward.tolist()}
        self.rows: list[list[Pass]] = [[] for _ in range(pipeline.ranks)]
        self.free = [0] * pipeline.ranks
        self.waiting = list(range(pipeline.microbatches))[::-1]
        self.arrived: list[list[tuple[int, int, int]]] = [[] for _ in range(pipeline.ranks)]
        self.events: list[tuple[int, int]] = []
        for _ in range(many):
            self.enter(0)

    def path(self, number: int) -> Sequence[int]:
        """Stages of a microbatch."""
        return self.paths[number % len(self.paths)]

    def enter(self, now: int) -> None:
        """Let the next microbatch begin."""
        if self.waiting:
            number = self.waiting.pop()
            self.hand(now, F, number, self.path(number)[0])

    def hand(self, there: int, kind: int, number: int, stage: int) -> None:
        """Make a pass known to the rank that runs it, when its input gets there; backward passes come first."""
        heappush(self.arrived[stage], (F - kind, number, there))
        heappush(self.events, (there, stage))

    def run(self) -> list[list[Pass]]:
        """Let time pass until nothing is left; returns what each rank ran."""
        while self.events:
            now, rank = heappop(self.events)
            ready = [one for one in self.arrived[rank] if one[2] <= now]
            if self.free[rank] <= now and ready:
                chosen = min(ready)
                self.arrived[rank].remove(chosen)
                self.start(now, rank, F - chosen[0], chosen[1])
        return self.rows

    def start(self, now: int, rank: int, kind: int, number: int) -> None:
        """Run a pass and hand its output on along the path, or back."""
        self.rows[rank].append((kind, rank, number))
        end = self.free[rank] = now + self.ticks[kind][rank]
        heappush(self.events, (end, rank))
        path = self.path(number)
        at = path.index(rank)
        if kind == F and at + 1 == len(path):
            self.hand(end, B, number, rank)
        elif kind == F:
            self.hand(end + self.send, F, number, path[at + 1])
        elif at:
            self.hand(end + self.send, B, number, path[at - 1])
        else:
            self.enter(end)
