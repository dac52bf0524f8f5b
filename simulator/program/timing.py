"""When the passes of a schedule run and what they keep, for given costs: without a device, a network or a model.

Sends take no time of a device: the pass of the next stage starts later by what they last, and sends of a rank in one
direction follow each other, as on the lanes of `program.lowering`.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simulator.program.actions import Kind
from simulator.program.lowering import lower
from simulator.program.maxplus import sweep
from simulator.program.schedule import Paths, Schedule
from simulator.program.slices import Slices

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Costs:
    """What passes of each stage last and keep. Arrays have the shape (stages,)."""

    forward: Ints
    """Ticks of F."""
    input_gradient: Ints
    """Ticks of I."""
    weight_gradient: Ints
    """Ticks of W."""
    kept: Floats
    """What is kept from F until I or B has run."""
    kept_for_weights: Floats
    """What of it is kept on until W has run."""
    send: int = 0
    """Ticks of a send over one boundary, in either direction."""
    pair: int | None = None
    """Ticks of a forward and a backward pass side by side; None: as long as one after the other."""
    scores: Ints | None = None
    """Ticks of S on the rank of each stage; None: no time."""
    scores_gradient: Ints | None = None
    """Ticks of T there."""
    barrier: int = 0
    """Ticks of what ranks do together before S, after S and after T."""
    slices: Slices | None = None
    """How a microbatch is cut along its sequence where a schedule numbers slices; None: each number costs all of it."""
    backward: Ints | None = None
    """Ticks of B; None: of I and W one after the other. Less where a whole pass overlaps what its halves cannot."""

    @classmethod
    def equal(cls, stages: int, forward: int = 1, input_gradient: int = 1, weight_gradient: int = 1) -> Self:
        """Equal stages that keep one unit from F to the end of W."""
        ones = np.ones(stages, np.int64)
        return cls(forward * ones, input_gradient * ones, weight_gradient * ones, np.ones(stages), np.ones(stages))

    @property
    def stages(self) -> int:
        """Stages that these are the costs of."""
        return len(self.forward)

    @property
    def whole_backward(self) -> Ints:
        """Ticks of B."""
        return self.input_gradient + self.weight_gradient if self.backward is None else self.backward

    @property
    def least_weight_gradient(self) -> Ints:
        """Least ticks that gradients of weights add to those of inputs, in a pass of their own or in B."""
        least: Ints = np.clip(self.whole_backward - self.input_gradient, 0, self.weight_gradient)
        return least

    def table(self) -> Ints:
        """Ticks by stage and kind; shape (stages, kinds)."""
        table = np.zeros((self.stages, len(Kind)), np.int64)
        table[:, Kind.F], table[:, Kind.I], table[:, Kind.W] = self.forward, self.input_gradient, self.weight_gradient
        table[:, Kind.B] = self.whole_backward
        for kind, ticks in ((Kind.S, self.scores), (Kind.T, self.scores_gradient)):
            table[:, kind] = 0 if ticks is None else ticks
        return table

    def by_number(self, count: int) -> Ints:
        """`table`, or where microbatches are cut (stages, kinds, count) for each of so many slices."""
        table = self.table()
        if self.slices is None:
            return table
        shares = np.ones((len(Kind), len(self.slices)))
        shares[[Kind.F, Kind.I, Kind.B]] = [float(share) for share in self.slices.passes]
        shares[Kind.W] = [float(share) for share in self.slices.tokens]
        each = np.rint(table[..., None] * shares).astype(np.int64)
        if self.backward is None:
            each[:, Kind.B] = each[:, Kind.I] + each[:, Kind.W]
        return np.tile(each, -(-count // len(self.slices)))[..., :count]

    def released(self) -> Floats:
        """What each kind of pass adds to what is kept, negative where it frees; shape (stages, kinds)."""
        table = np.zeros((self.stages, len(Kind)))
        table[:, Kind.F], table[:, Kind.B] = self.kept, -self.kept
        table[:, Kind.I], table[:, Kind.W] = self.kept_for_weights - self.kept, -self.kept_for_weights
        return table


@dataclass(frozen=True, slots=True)
class Timing:
    """A schedule in time. `start` and `end` (n,) go with `schedule`; what is said by rank has the shape (ranks,)."""

    schedule: Schedule
    """Passes alone."""
    start: Ints
    end: Ints
    """Of passes side by side those of all of them."""
    work: Ints
    """Ticks in which a rank computes."""
    own_idle: Ints
    """Ticks between its first start and its last end in which it does not."""
    peak: Floats
    """Most that it keeps at once."""
    period: int | None = None
    """Ticks from a step to the next where they overlap; None of a step with a beginning and an end."""

    @property
    def makespan(self) -> int:
        """Ticks from the first start to the last end, or from a step to the next where they overlap."""
        return self.period if self.period is not None else int(self.end.max(initial=0))

    @property
    def idle(self) -> Ints:
        """Ticks of the makespan in which a rank does not compute."""
        return self.makespan - self.work

    @property
    def bubble(self) -> float:
        """Share of the makespan in which ranks are idle, on average."""
        return float(self.idle.mean() / self.makespan) if self.makespan else 0.0


def time_schedule(schedule: Schedule, costs: Costs) -> Timing:
    """Run the passes of a valid schedule; DeadlockError where it waits for itself.

    Costs of the stages of the model stand for those of each copy of it.
    """
    passes, times = schedule.passes(), schedule.stages // max(costs.stages, 1) if schedule.copies > 1 else 1
    table = np.concatenate([costs.by_number(passes.microbatches)] * times)
    released = np.tile(costs.released(), (times, 1))
    sends = np.full((passes.stages, 2), costs.send, np.int64)  # on a path any stage may send either way
    timeline = sweep(lower(passes, table, sends, pair=costs.pair, barrier=costs.barrier).tape)
    start, end = timeline.start[: len(passes)], timeline.end[: len(passes)]  # passes stand before sends
    edges, first = passes.rank_start, passes.rank_start[:-1]
    work = np.add.reduceat(end - start, first)
    together = passes.groups()
    start, end = start[together[0]], end[together[1]]
    span = np.maximum.reduceat(end, first) - np.minimum.reduceat(start, first)
    shares = [1.0] if costs.slices is None else [float(share) for share in costs.slices.tokens]
    return Timing(passes, start, end, work, span - work, _peaks(passes, released, edges, np.array(shares)))


def steady_step(schedule: Schedule, costs: Costs) -> Timing:
    """The last but one of several steps without a flush, from the end of the step before on the first rank to its own.

    Passes are those that begin then, counted from there, with the microbatches of a step.
    """
    whole = time_schedule(schedule, costs)
    passes, many = whole.schedule, schedule.microbatches // schedule.steps
    back = np.isin(passes.kind, (Kind.B, Kind.I)) & (passes.rank == 0)
    last = [int(whole.end[back & (passes.microbatch // many == step)].max()) for step in range(schedule.steps)]
    begin, stop = last[-3:-1]
    shown = (whole.start >= begin) & (whole.start < stop)
    lasts = (whole.end - whole.start)[shown]
    work = np.bincount(passes.rank[shown], lasts, minlength=passes.ranks).astype(np.int64)
    edges = np.concatenate(([0], np.cumsum(np.bincount(passes.rank[shown], minlength=passes.ranks))))
    columns = Schedule(passes.kind[shown], passes.stage[shown], passes.microbatch[shown] % many, edges)
    idle = stop - begin - work
    return Timing(columns, whole.start[shown] - begin, whole.end[shown] - begin, work, idle, whole.peak, stop - begin)


def _peaks(passes: Schedule, released: Floats, edges: Ints, shares: Floats) -> Floats:
    """Most that each rank keeps, in the order of its passes, each of a share of a microbatch."""
    change = released[passes.stage, passes.kind] * shares[passes.microbatch % len(shares)]
    return np.array([np.cumsum(part).max(initial=0.0) for part in np.split(change, edges[1:-1])])


def least_makespan(costs: Costs, home: Ints, microbatches: int, copies: int = 1, paths: Paths = ()) -> int:
    """Ticks that no schedule can go below; `home` (stages,) is the rank of each stage.

    A rank has all its work to do from when the first microbatch can be there; and a microbatch has to go through all
    stages and back. Of several copies of the model each takes its share of the microbatches; costs of the stages of the
    model stand for those of each copy. Where `costs` have passes over the vocabulary, the first stage of each rank in
    its order runs them, and scores come before the way back. Of one that is cut the slice that is there first counts,
    and the one that takes longest; of such that skip stages the shortest way to a rank and the longest path.
    """
    if paths:
        return _least_of_paths(costs, home, microbatches, paths)
    if costs.slices is not None:
        return _least_of_slices(costs, costs.slices, home, microbatches)
    times = max(len(home) // max(costs.stages, 1), 1)
    passes = (costs.forward, costs.input_gradient, costs.least_weight_gradient, costs.scores, costs.scores_gradient)
    forward, inputs, weights, scores, gradients = (
        np.tile(np.zeros(costs.stages, np.int64) if each is None else each, times) for each in passes
    )
    work = np.bincount(home, forward + inputs + weights).astype(np.int64) * microbatches // copies
    parts = np.unique(home, return_index=True)[1]
    work[home[parts]] += (scores + gradients)[parts] * microbatches
    enter, through = np.full(len(work), np.iinfo(np.int64).max), []
    for own in np.split(np.arange(len(home)), copies):
        hops = np.concatenate(([0], np.cumsum(home[own][1:] != home[own][:-1]))) * costs.send
        np.minimum.at(enter, home[own], np.cumsum(forward[own]) - forward[own] + hops)
        whole = forward[own].sum() + inputs[own].sum() + 2 * hops[-1] + scores[parts].max()
        through.append(int(whole + weights[own[0]]))
    return max(int((enter + work).max()), *through)


def _least_of_slices(costs: Costs, slices: Slices, home: Ints, microbatches: int) -> int:
    """`least_makespan` of microbatches that are cut."""
    each = costs.by_number(len(slices))
    work = np.bincount(home, each[:, [Kind.F, Kind.B]].sum(axis=(1, 2))).astype(np.int64) * microbatches
    hops = np.concatenate(([0], np.cumsum(home[1:] != home[:-1]))) * costs.send
    first = each[:, Kind.F].min(axis=1)
    enter = np.full(len(work), np.iinfo(np.int64).max)
    np.minimum.at(enter, home, np.cumsum(first) - first + hops)
    through = each[:, [Kind.F, Kind.I]].sum(axis=(0, 1)) + 2 * hops[-1] + each[0, Kind.W]
    return max(int((enter + work).max()), int(through.max()))


def _least_of_paths(costs: Costs, home: Ints, microbatches: int, paths: Paths) -> int:
    """`least_makespan` of microbatches that skip stages."""
    back = costs.input_gradient + costs.least_weight_gradient
    ranks = int(home.max()) + 1
    work, enter, through = np.zeros(ranks, np.int64), np.full(ranks, np.iinfo(np.int64).max), 0
    for first, path in enumerate(paths[:microbatches]):
        own = np.array(path)
        many = len(range(first, microbatches, len(paths)))
        np.add.at(work, home[own], many * (costs.forward + back)[own])
        hops = np.concatenate(([0], np.cumsum(home[own][1:] != home[own][:-1]))) * costs.send
        np.minimum.at(enter, home[own], np.cumsum(costs.forward[own]) - costs.forward[own] + hops)
        whole = costs.forward[own].sum() + costs.input_gradient[own].sum() + 2 * hops[-1]
        through = max(through, int(whole + costs.least_weight_gradient[own[0]]))
    return max(int((enter + work).max()), through)
