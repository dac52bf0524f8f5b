"""Microbatches that skip stages against the longest path through their passes, and against 1F1B where none does."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from simulator.program.actions import Kind
from simulator.program.timing import Costs, least_makespan, time_schedule
from simulator.program.validate import validate
from simulator.training.schedules import Pipeline, one_f_one_b, skippipe

PATHS = [
    ((0, 1, 2, 3),),
    ((0, 1, 3), (0, 2, 3)),
    ((0, 2, 1, 3), (0, 3), (0, 1, 2)),
    ((0, 1), (2, 3)),
]


@pytest.mark.parametrize("send", [0, 13])
@pytest.mark.parametrize("microbatches", [3, 8, 13])
@pytest.mark.parametrize("paths", PATHS)
def test_to_the_tick(paths: tuple[tuple[int, ...], ...], microbatches: int, send: int) -> None:
    stages = np.arange(4)
    costs = Costs(101 + 7 * stages, 97 + 5 * stages, 53 + 3 * stages, *np.ones((2, 4)), send)
    schedule = validate(skippipe(Pipeline(4, 1, microbatches, costs=costs, paths=paths)))
    graph, ticks = nx.DiGraph(), costs.table()
    for row in schedule.actions():
        nodes = [(a.stage, a.kind == Kind.F, a.microbatch) for a in row]
        graph.add_nodes_from((n, {"ticks": int(ticks[n[0], Kind.F if n[1] else Kind.B])}) for n in nodes)
        nx.add_path(graph, nodes, sent=0)
    for number in range(microbatches):
        path = paths[number % len(paths)]
        way = [(s, True, number) for s in path] + [(s, False, number) for s in reversed(path)]
        for one, other in pairwise(way):
            graph.add_edge(one, other, sent=send * (one[0] != other[0]))
    ends: dict[tuple[int, bool, int], int] = {}
    for node in nx.topological_sort(graph):
        begins = (ends[one] + graph.edges[one, node]["sent"] for one in graph.predecessors(node))
        ends[node] = max(begins, default=0) + graph.nodes[node]["ticks"]
    timing = time_schedule(schedule, costs)
    assert len(graph) == len(schedule)
    if not send:  # sends of a rank in one direction follow each other besides
        assert timing.makespan == max(ends.values())
    assert timing.makespan >= max(ends.values())
    assert timing.makespan >= least_makespan(costs, stages, microbatches, 1, paths)


@pytest.mark.parametrize(("ranks", "microbatches"), [(1, 3), (2, 4), (4, 4), (4, 12), (8, 16)])
def test_whole_paths_are_1f1b(ranks: int, microbatches: int) -> None:
    """Idle (p - 1)(F + B), and rank r keeps p - r microbatches."""
    costs = Costs.equal(ranks)
    plain = time_schedule(one_f_one_b(Pipeline(ranks, 1, microbatches)), costs)
    found = time_schedule(skippipe(Pipeline(ranks, 1, microbatches, paths=(tuple(range(ranks)),))), costs)
    assert found.makespan == plain.makespan
    assert found.peak.max() == plain.peak.max()


@pytest.mark.parametrize(("ranks", "rounds"), [(3, 2), (4, 4), (6, 8)])
def test_each_skips_one_stage_in_turn(ranks: int, rounds: int) -> None:
    """All ranks but the first do (p - 2)/(p - 1) of the work; the step is no longer than with all stages: they
    keep up to 1.5 p microbatches."""
    microbatches, costs = rounds * (ranks - 1), Costs.equal(ranks)
    found = time_schedule(skippipe(Pipeline(ranks, 1, microbatches)), costs)
    assert found.work.tolist() == [3 * microbatches] + [3 * rounds * (ranks - 2)] * (ranks - 1)
    assert found.peak.max() <= 1.5 * ranks
    assert found.makespan <= time_schedule(one_f_one_b(Pipeline(ranks, 1, microbatches)), costs).makespan
