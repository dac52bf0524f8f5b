"""The vocabulary over all ranks: what ranks keep, periods of steady states, and times against the longest path."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from simulator.errors import DeadlockError, InputError
from simulator.program.actions import Action, Kind, parse
from simulator.program.timing import Costs, least_makespan, time_schedule
from simulator.program.validate import validate
from simulator.training.schedules import SCHEDULES, Pipeline

NAMES = ("vocab-1", "vocab-2", "interlaced")
KEPT = {"vocab-1": lambda p: p + 2, "vocab-2": lambda p: p + 1, "interlaced": lambda p: 3 * p // 2}


def _costs(ranks: int, forward: int, back: int, weights: int, scores: int, gradients: int, barrier: int = 0) -> Costs:
    ones = np.ones(ranks, np.int64)
    return Costs(
        forward * ones,
        back * ones,
        weights * ones,
        1.0 * ones,
        1.0 * ones,
        scores=scores * ones,
        scores_gradient=gradients * ones,
        barrier=barrier,
    )


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 16])
@pytest.mark.parametrize("ticks", [(2, 2, 2, 1, 1), (6, 6, 6, 1, 2), (10, 12, 10, 4, 2), (100, 110, 90, 7, 5)])
@pytest.mark.parametrize("name", NAMES)
def test_a_period_a_microbatch(name: str, ranks: int, ticks: tuple[int, ...]) -> None:
    """In the steady state no rank is idle, whatever passes cost; the rest of a step is about the bubble of 1F1B, and
    what is kept is as published."""
    costs, steps = _costs(ranks, *ticks), []
    for microbatches in (4 * ranks, 8 * ranks):
        schedule = validate(SCHEDULES.get(name)(Pipeline(ranks, 1, microbatches, costs=costs)))
        timing = time_schedule(schedule, costs)
        assert timing.peak.max() == KEPT[name](ranks)
        assert timing.makespan >= least_makespan(costs, schedule.rank_of_stage(), microbatches)
        steps.append(timing.makespan - microbatches * sum(ticks))
    assert steps[0] == steps[1]
    assert steps[0] <= (ranks - 1) * sum(ticks[:3]) + 2 * sum(ticks)


@pytest.mark.parametrize("name", ["vocab-1", "vocab-2"])
def test_sums_travel_beside_passes(name: str) -> None:
    """Ranks that sum for a tenth of a forward pass lose none of it; interlaced ones lose every one, three a period."""
    costs = _costs(8, 100, 100, 100, 30, 30, barrier=10)
    slack = [_left(name, costs, many) for many in (32, 64)]
    assert slack[0] == slack[1]
    stops = [_left("interlaced", costs, many) for many in (32, 64)]
    assert stops[1] - stops[0] == 32 * 3 * 10


def _left(name: str, costs: Costs, microbatches: int) -> int:
    schedule = SCHEDULES.get(name)(Pipeline(8, 1, microbatches, costs=costs))
    return time_schedule(schedule, costs).makespan - 360 * microbatches


def test_by_hand() -> None:
    """Two ranks, one microbatch, F 2, B 3, S 5 and 7, T 11 and 13, 1 to meet: in two sums 2 + 2, 1, 7, 1, 13, 1, 3 + 3;
    in one 2 + 2, 1, 7, 1, and then B and T of either rank, in whichever order it has them."""
    two, three = np.full(2, 2), np.full(2, 3)
    costs = Costs(two, three, 0 * two, np.ones(2), np.ones(2), 0, None, np.array([5, 7]), np.array([11, 13]), 1)
    twice = validate([[*map(parse, ("0F0", "0S0", "0T0", "0B0"))], [*map(parse, ("1F0", "1S0", "1T0", "1B0"))]])
    assert time_schedule(twice, costs).makespan == 4 + 1 + 7 + 1 + 13 + 1 + 6
    once = validate([[*map(parse, ("0F0", "0S0", "0T0", "0B0"))], [*map(parse, ("1F0", "1S0", "1B0", "1T0"))]])
    assert time_schedule(once, costs).makespan == 4 + 1 + 7 + 1 + max(3 + 13, 11 + 3)


@pytest.mark.parametrize(("ranks", "microbatches"), [(1, 3), (2, 4), (4, 8), (5, 3), (6, 12)])
@pytest.mark.parametrize("name", NAMES)
def test_to_the_tick(name: str, ranks: int, microbatches: int) -> None:
    """Stages differ, so that nothing comes out right by symmetry."""
    stages, kept = np.arange(ranks), np.ones(ranks)
    passes = (101 + 7 * stages % 23, 97 + 5 * stages % 19, 53 + 3 * stages % 11)
    costs = Costs(*passes, kept, kept, 0, None, 41 + 3 * stages % 7, 29 + 5 * stages % 13, 17)
    schedule = SCHEDULES.get(name)(Pipeline(ranks, 1, microbatches, costs=costs))
    sums = 1 if name == "vocab-2" else 2
    assert schedule.vocabulary_sums == sums
    assert time_schedule(schedule, costs).makespan == _longest(schedule.actions(), costs, sums)


def _longest(rows: list[list[Action]], costs: Costs, sums: int) -> int:
    """Ticks of the longest path through passes and barriers, each barrier a node of all ranks."""
    table, graph, last = costs.table(), nx.DiGraph(), len(rows) - 1
    for row in rows:
        for action in row:
            graph.add_node(str(action), ticks=int(table[action.stage, action.kind]))
        graph.add_edges_from(pairwise(map(str, row)))
    for number in sorted({action.microbatch for action in rows[0]}):
        for barrier in ("C0", "C1", "C2"):
            graph.add_node((barrier, number), ticks=costs.barrier)
            if number:  # one after the other
                graph.add_edge((barrier, number - 1), (barrier, number))
        graph.add_edge(f"{last}F{number}", ("C0", number))
        graph.add_edge(("C2" if sums == 2 else "C1", number), f"{last}B{number}")
        for rank in range(last + 1):
            graph.add_edges_from([(("C0", number), f"{rank}S{number}"), (f"{rank}S{number}", ("C1", number))])
            graph.add_edge(("C1", number), f"{rank}T{number}")
            if sums == 2:
                graph.add_edge(f"{rank}T{number}", ("C2", number))
            if rank < last:
                graph.add_edge(f"{rank}F{number}", f"{rank + 1}F{number}")
                graph.add_edge(f"{rank + 1}B{number}", f"{rank}B{number}")
    ends: dict[object, int] = {}
    for node in nx.topological_sort(graph):
        ends[node] = max((ends[one] for one in graph.predecessors(node)), default=0) + graph.nodes[node]["ticks"]
    return max(when for node, when in ends.items() if isinstance(node, str))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (("0F0 0S0 0T0 0B0", "1F0 1B0"), "every rank holds one part of the vocabulary"),
        (("0F0 0S0 0T0 0B0", "1F0 1S0 1B0"), "lacks 1T0"),
        (("0F0 0T0 0S0 0B0", "1F0 1S0 1T0 1B0"), "0T0 stands before 0S0"),
        (("0F0 0F1 0S0 0S1 0T0 0T1 0B0 0B1", "1F0 1F1 1S1 1S0 1T1 1T0 1B0 1B1"), "1S1 stands out of the order"),
    ],
)
def test_unsound_orders_are_refused(rows: tuple[str, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        validate([[parse(cell) for cell in row.split()] for row in rows])


def test_ranks_that_never_meet() -> None:
    """Rank 0 goes back before its part of what the last stage goes back after."""
    rows = "0F0 0B0 0S0 0T0", "1F0 1S0 1T0 1B0"
    with pytest.raises(DeadlockError, match="circle"):
        validate([[parse(cell) for cell in row.split()] for row in rows])


def test_words_of_a_chunk_more() -> None:
    with pytest.raises(InputError, match="`vocab-1` runs one chunk a rank, not 2"):
        SCHEDULES.get("vocab-1")(Pipeline(4, 2, 8))


def test_kinds_are_passes() -> None:
    assert parse("3S12") == Action(3, Kind.S, 12)
    assert str(parse("0T7")) == "0T7"


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("name", NAMES)
def test_any_costs_make_a_sound_order(name: str, seed: int) -> None:
    """Passes of no time, sends and barriers that are longer than all passes, stages that differ: no order waits for
    itself, keeps more than it may, or runs T and B the other way round."""
    random = np.random.default_rng(seed)
    ranks, microbatches = int(random.integers(1, 13)), int(random.integers(1, 40))
    passes = [random.integers(0, random.choice([2, 6, 101]), ranks) for _ in range(5)]
    passes[0][random.integers(ranks)] += 1
    send, barrier = (int(random.choice([0, 3, 50, 1000])) for _ in range(2))
    kept = np.ones(ranks)
    costs = Costs(*passes[:3], kept, kept, send, None, *passes[3:], barrier)
    schedule = validate(SCHEDULES.get(name)(Pipeline(ranks, 1, microbatches, costs=costs)))
    assert schedule.vocabulary_sums == (1 if name == "vocab-2" else 2)
    timing = time_schedule(schedule, costs)
    assert timing.peak.max() <= min(max(KEPT[name](ranks), 1), microbatches)
    assert timing.makespan >= least_makespan(costs, schedule.rank_of_stage(), microbatches)
