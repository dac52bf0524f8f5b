"""The shortest order that keeps no more than a limit, of all that are tried; of near ties the one that keeps least.

Tried are the schedules with names that take these sizes with one copy of the model, and the list scheduler on the
placements that several chunks have, with different urgencies, patience and caps. With caps of one microbatch a stage it
keeps the least that there is: one microbatch of every chunk of a rank. A limit below that no schedule meets.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from simulator import units
from simulator.errors import InfeasibleError, InputError
from simulator.program.schedule import Schedule
from simulator.program.timing import Costs, Floats, Ints, time_schedule
from simulator.training.schedules.base import SCHEDULES, Pipeline
from simulator.training.schedules.exhaustive import is_small, shortest
from simulator.training.schedules.greedy import Rules, arrange
from simulator.training.schedules.orders import B, F, loop_home, wave_home

ROUNDING = 1e-9
"""Relative excess over a limit that is rounding."""
NAME = "auto"


@SCHEDULES.add(NAME)
def auto(pipeline: Pipeline) -> Schedule:
    """The shortest order within the limit, of those about as short the one that keeps least.

    Without a barrier at the end of steps it is the one with the least time between first and last pass of a rank.

    InfeasibleError where no order keeps so little.
    """
    costs, kept, found = pipeline.known_costs, float("inf"), list[tuple[float, int, Schedule]]()

    def enough() -> float:
        if not pipeline.barrier:  # an order that ends late may begin late
            return float("inf")
        return min((lasts for _, lasts, _ in found), default=float("inf")) * (1 + pipeline.near)

    for made in _candidates(pipeline, enough):
        if not _suits(made, pipeline):
            continue
        timing = time_schedule(made, costs)
        peak = float(timing.peak.max())
        kept = min(kept, peak)
        if peak <= pipeline.limit * (1 + ROUNDING):
            lasts = timing.makespan if pipeline.barrier else int((timing.work + timing.own_idle).max())
            found.append((peak, lasts, made))
            shortest = min(other for _, other, _ in found) * (1 + pipeline.near)
            found = [one for one in found if one[1] <= shortest]
    if not found:
        message = f"no schedule keeps {units.plain(pipeline.limit, 6)} or less: {units.plain(kept, 6)} is the least"
        raise InfeasibleError(f"{message} (one microbatch of each chunk of a rank)")
    return min(found, key=lambda one: one[:2])[2]


def named(pipeline: Pipeline, home: Ints) -> Iterator[Schedule]:
    """Orders with names that lie on the ranks `home` (stages,) and suit, whatever they keep."""
    yield from (made for made in _named(pipeline) if _suits(made, pipeline) and _lies(made, home))


def searched(pipeline: Pipeline, home: Ints, most: int) -> list[Schedule]:
    """Orders of the list scheduler on the ranks `home` (stages,) within the limit, the shortest first and of equally
    short ones the one that keeps least; so many at most, no two with the same time and memory."""
    found = dict[tuple[int, float], Schedule]()

    def enough() -> float:
        return sorted(found)[most - 1][0] if len(found) >= most else float("inf")

    for made in _listed(pipeline, home, enough):
        timing = time_schedule(made, pipeline.known_costs)
        if (peak := float(timing.peak.max())) <= pipeline.limit * (1 + ROUNDING):
            found.setdefault((timing.makespan, peak), made)
    return [found[key] for key in sorted(found)[:most]]


def _lies(made: Schedule, home: Ints) -> bool:
    return bool(np.array_equal(made.rank_of_stage(), home))


def _suits(made: Schedule, pipeline: Pipeline) -> bool:
    """Whether an order runs all that is asked on one copy of the model with the vocabulary at its ends, and cuts
    backward passes only where it may."""
    sizes = (made.ranks, made.stages, made.microbatches)
    asked = (pipeline.ranks, pipeline.stages, pipeline.microbatches)
    plain = made.plain and not made.vocabulary_sums and sizes == asked
    return plain and (pipeline.split or bool(np.isin(made.kind, (F, B)).all()))


def frugal(pipeline: Pipeline, home: Ints | None = None) -> Schedule:
    """The order that keeps the least that there is, one microbatch of each chunk of a rank, however long it takes; on
    the ranks `home` (stages,), in a loop unless given."""
    rules = Rules(np.ones(pipeline.stages, np.int64), split=pipeline.split)
    place = loop_home(pipeline.ranks, pipeline.chunks) if home is None else home
    made = arrange(place, pipeline.microbatches, pipeline.known_costs, rules)
    assert made is not None  # caps alone never stop a rank
    return made


def _named(pipeline: Pipeline) -> Iterator[Schedule]:
    """Orders with names."""
    for name in SCHEDULES.names():
        if name != NAME:
            try:
                yield SCHEDULES.get(name)(pipeline)
            except InputError:  # it does not take these sizes
                continue


def _candidates(pipeline: Pipeline, enough: Callable[[], float]) -> Iterator[Schedule]:
    """Every order that is tried; of the list scheduler's those that take no longer than what is `enough` by then."""
    yield from _named(pipeline)
    for home in homes(pipeline):
        yield from _listed(pipeline, home, enough)
    if is_small(pipeline):
        gain = (1 + pipeline.near) ** 2  # by more than what says nothing
        made = shortest(pipeline, enough() / gain, pipeline.limit * (1 + ROUNDING))
        yield from [made] if made is not None else []


def _listed(pipeline: Pipeline, home: Ints, enough: Callable[[], float]) -> Iterator[Schedule]:
    """Orders of the list scheduler, those that take longer than what is `enough` by then left out."""
    for rules in _rules(pipeline, home):
        made = arrange(home, pipeline.microbatches, pipeline.known_costs, replace(rules, until=enough()))
        if made is not None:
            yield made


def homes(pipeline: Pipeline) -> list[Ints]:
    """Ranks of the stages: looped, and to and fro where that differs."""
    ranks, chunks = pipeline.ranks, pipeline.chunks
    return [loop_home(ranks, chunks)] + ([wave_home(ranks, chunks)] if chunks > 1 and ranks > 1 else [])


def _rules(pipeline: Pipeline, home: Ints) -> Iterator[Rules]:
    """Ways for ranks to choose, the frugal one last."""
    stages = pipeline.stages
    urgencies = (
        None,
        lambda kind, stage: -stage if kind == F else stage - 2 * stages,
        lambda kind, stage: stage if kind == F else -1,
        lambda kind, stage: kind * stages - stage,
    )
    many = np.full(stages, pipeline.microbatches)
    for caps, urgency, patience in product((many, *_shares(pipeline, home)), urgencies, (0.0, 1.0)):
        yield Rules(caps, None, pipeline.limit * (1 + ROUNDING), urgency, pipeline.split, patience)
    if pipeline.chunks == 1 and pipeline.split:
        for most in (2 * stages, 2 * stages - 1):  # of ZB-H2 one less; W waits as long as there is room
            ahead = np.maximum(most - 2 * np.arange(stages), 1)
            yield Rules(many, ahead, pipeline.limit * (1 + ROUNDING))
    yield Rules(np.ones(stages, np.int64), split=pipeline.split)


def _shares(pipeline: Pipeline, home: Ints) -> Iterator[Ints]:
    """Caps of the stages: as many as 1F1B keeps on stages one after the other; and such as share out what a rank may
    keep, by how long a microbatch is under way and equally."""
    stages = pipeline.stages
    yield -(np.arange(stages) - stages) // pipeline.chunks + (pipeline.chunks > 1)
    if not np.isfinite(pipeline.limit) or pipeline.chunks == 1:
        return
    costs = pipeline.known_costs
    under_way = np.cumsum((costs.forward + costs.input_gradient)[::-1])[::-1].astype(float)
    for weight in (under_way, np.ones(stages)):
        yield _caps(costs, home, weight, pipeline.limit)


def _caps(costs: Costs, home: Ints, weight: Floats, limit: float) -> Ints:
    """Microbatches of each stage in proportion to a weight, so that no rank keeps more than the limit."""
    kept = np.maximum(costs.kept, np.finfo(np.float64).tiny)
    asked = np.bincount(home, weight * kept)[home]
    return np.maximum(weight * limit / asked, 1.0).astype(np.int64)
