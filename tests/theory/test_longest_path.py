"""Schedules without communication in time, against the longest path through their passes."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from simulator.program.actions import Action, Kind
from simulator.program.timing import Costs, least_makespan, time_schedule
from simulator.training.schedules import SCHEDULES, Pipeline

ONE = ["gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe", "chimera", "seq1f1b", "auto"]
TWO = ["interleaved-1f1b", "zb-h1", "zb-v", "v-half", "v-min", "breadth-first", "hanayo", "dualpipev", "auto"]
Node = tuple[int, int]


def longest(rows: list[list[Action]], stages: int, ticks: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> int:
    """Ticks of the longest path, from what the text of a schedule says alone; passes side by side are one node."""
    graph, made = nx.DiGraph(), {}
    for rank, row in enumerate(rows):
        for place, action in enumerate(row):
            for part in action.passes():
                made[part.stage, part.kind in (Kind.F,), part.microbatch, part.kind is Kind.W] = (rank, place)
            graph.add_node((rank, place), ticks=sum(int(ticks[p.stage, p.kind]) for p in action.passes()))
        graph.add_edges_from(pairwise((rank, place) for place in range(len(row))))
    for rank, row in enumerate(rows):
        for place, action in enumerate(row):
            for part in action.passes():
                if part.kind is Kind.F and part.stage:
                    graph.add_edge(made[part.stage - 1, True, part.microbatch, False], (rank, place))
                if part.kind in (Kind.B, Kind.I) and part.stage < stages - 1:
                    graph.add_edge(made[part.stage + 1, False, part.microbatch, False], (rank, place))
    ends: dict[Node, int] = {}
    for node in nx.topological_sort(graph):
        ends[node] = max((ends[before] for before in graph.predecessors(node)), default=0) + graph.nodes[node]["ticks"]
    return max(ends.values())


@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 4), (4, 8), (4, 12), (6, 12)])
@pytest.mark.parametrize(("name", "chunks"), [(name, 1) for name in ONE] + [(name, 2) for name in TWO])
def test_to_the_tick(name: str, chunks: int, ranks: int, microbatches: int) -> None:
    """Stages differ, so that nothing comes out right by symmetry."""
    stages = np.arange(ranks * chunks)
    kept = np.ones(len(stages))
    costs = Costs(101 + 7 * stages % 23, 97 + 5 * stages % 19, 53 + 3 * stages % 11, kept, kept)
    schedule = SCHEDULES.get(name)(Pipeline(ranks, chunks, microbatches, costs=costs))
    made = time_schedule(schedule, costs).makespan
    assert made == longest(schedule.actions(), len(stages), costs.table())
    if schedule.copies == 1:
        assert made >= least_makespan(costs, schedule.rank_of_stage(), microbatches)
