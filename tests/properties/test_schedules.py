"""Every schedule by name, over random sizes and uneven costs: sound, read back, above the bound, as long as its longest
path."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.executor import execute
from simulator.errors import InfeasibleError, InputError
from simulator.program.actions import Action, Kind
from simulator.program.csv_form import read_csv, write_csv
from simulator.program.lowering import lower
from simulator.program.schedule import Schedule
from simulator.program.timing import Costs, least_makespan, time_schedule
from simulator.program.validate import validate
from simulator.training.schedules import SCHEDULES, Pipeline
from tests.effort import simulations

Pass = tuple[int, bool, int]
"""Stage, whether forward, microbatch: what hands data on."""
CHUNKS = {
    **dict.fromkeys(["1f1b", "zb-h2", "dualpipe", "chimera"], (1,)),
    **dict.fromkeys(["zb-v", "v-half", "v-min", "dualpipev"], (2,)),
    **dict.fromkeys(["gpipe", "breadth-first", "interleaved-1f1b", "depth-first", "zb-h1", "auto"], (1, 2, 3)),
    "hanayo": (2, 4),
}
"""Orders of F, I, W and B that wait for nothing but each other, and chunks of a rank that they take."""


class Case(NamedTuple):
    """What a maker is asked for."""

    name: str
    sizes: Pipeline
    costs: Costs


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Sizes that suit a maker, or any, which it may refuse; stages that cost differently, some of them much."""
    name = draw(st.sampled_from(sorted(CHUNKS)))
    ranks, chunks, microbatches = (draw(st.integers(1, most)) for most in (6, 3, 16))
    if draw(st.integers(0, 3)):
        ranks, chunks = 2 * draw(st.integers(1, 3)), draw(st.sampled_from(CHUNKS[name]))
        microbatches = ranks * draw(st.integers(1, 4))
    stages = ranks * chunks
    ticks = st.lists(st.integers(1, 40), min_size=stages, max_size=stages)
    forward, back, weights = (np.array(draw(ticks), np.int64) for _ in range(3))
    kept = np.array(draw(ticks), float)
    costs = Costs(forward, back, weights, kept, kept * 0.5, draw(st.sampled_from([0, 0, 1, 7, 60])))
    return Case(name, Pipeline(ranks, chunks, microbatches, costs=costs), costs)


def longest(rows: list[list[Action]], costs: Costs) -> int:
    """Ticks of the longest path, from what the text of a schedule says alone.

    Passes side by side are one node; the sends of a rank in one direction follow each other.
    """
    graph, made, table = nx.DiGraph(), {}, costs.table()
    for rank, row in enumerate(rows):
        for place, action in enumerate(row):
            graph.add_node((rank, place), ticks=sum(int(table[p.stage, p.kind]) for p in action.passes()))
            made |= {(p.stage, p.kind is Kind.F, p.microbatch): (rank, place) for p in handing_on(action)}
        graph.add_edges_from(pairwise((rank, place) for place in range(len(row))))
    lanes: dict[tuple[int, bool], list[tuple[int, ...]]] = {}
    for rank, row in enumerate(rows):
        for place, action in enumerate(row):
            for part in handing_on(action):
                forward = part.kind is Kind.F
                taker = made.get((part.stage + (1 if forward else -1), forward, part.microbatch))
                if taker is None:
                    continue
                if taker[0] == rank:
                    graph.add_edge((rank, place), taker)
                    continue
                send = (rank, place, part.stage, int(forward), part.microbatch)
                graph.add_node(send, ticks=costs.send)
                graph.add_edges_from([((rank, place), send), (send, taker)])
                lanes.setdefault((rank, forward), []).append(send)
    for sends in lanes.values():
        graph.add_edges_from(pairwise(sends))
    ends: dict[tuple[int, ...], int] = {}
    for node in nx.topological_sort(graph):
        ends[node] = max((ends[before] for before in graph.predecessors(node)), default=0) + graph.nodes[node]["ticks"]
    return max(ends.values())


def handing_on(action: Action) -> Iterator[Action]:
    """Passes of which another stage may wait."""
    return (part for part in action.passes() if part.kind is not Kind.W)


def asked(case: Case) -> Schedule | None:
    """The order, or None where the maker refuses the sizes, in words."""
    try:
        return SCHEDULES.get(case.name)(case.sizes)
    except InputError as refused:
        assert f"`{case.name}`" in str(refused) or "`interleaved-1f1b`" in str(refused)
        return None


@simulations(300)
@given(case=cases())
def test_orders_are_sound_and_no_shorter_than_the_bound(case: Case, tmp_path_factory: pytest.TempPathFactory) -> None:
    schedule = asked(case)
    if schedule is None:
        return
    assert validate(schedule) is schedule
    stages, microbatches = case.sizes.stages, case.sizes.microbatches
    timing = time_schedule(schedule, case.costs)
    every = sorted((s, k, m) for s in range(stages) for k in (Kind.F, Kind.B) for m in range(microbatches))
    found = [(p.stage, p.kind, p.microbatch) for row in schedule.actions() for a in row for p in a.passes()]
    assert sorted((s, Kind.B if k is Kind.I else k, m) for s, k, m in found if k is not Kind.W) == every
    halves = [{(s, m) for s, k, m in found if k is kind} for kind in (Kind.I, Kind.W)]
    assert halves[0] == halves[1]
    assert timing.makespan >= least_makespan(case.costs, schedule.rank_of_stage(), microbatches, schedule.copies)
    kept = np.bincount(schedule.rank_of_stage(), np.tile(case.costs.kept, schedule.copies))
    assert np.all(timing.peak <= kept * microbatches)
    path = tmp_path_factory.getbasetemp() / "order.csv"
    write_csv(schedule.actions(), path)
    assert read_csv(path, "order.csv") == schedule.actions()


@simulations(200)
@given(case=cases())
def test_a_step_is_as_long_as_its_longest_path(case: Case) -> None:
    """Of both executors of the simulation, to the tick."""
    schedule = asked(case)
    if schedule is None:
        return
    rows, costs = schedule.actions(), case.costs
    assert time_schedule(schedule, costs).makespan == longest(rows, costs)
    table = np.tile(costs.table(), (schedule.copies, 1))
    sends = np.full((max(schedule.stages - 1, 0), 2), costs.send, np.int64)
    assert execute(lower(schedule, table, sends).tape).makespan == longest(rows, costs)


@simulations(60)
@given(case=cases(), share=st.floats(0.05, 1.5))
def test_auto_keeps_to_its_limit_or_names_the_least(case: Case, share: float) -> None:
    sizes, costs = case.sizes, case.costs
    whole = costs.kept.reshape(sizes.chunks, sizes.ranks).sum(axis=0).max()
    limit = share * whole * min(sizes.microbatches, sizes.ranks)
    bounded = Pipeline(sizes.ranks, sizes.chunks, sizes.microbatches, costs=costs, limit=limit)
    try:
        schedule = SCHEDULES.get("auto")(bounded)
    except InfeasibleError as refused:
        least = float(str(refused).split(": ")[1].split(" is the least")[0].replace(",", ""))
        assert least > limit
        again = Pipeline(sizes.ranks, sizes.chunks, sizes.microbatches, costs=costs, limit=least * (1 + 1e-5))
        assert time_schedule(SCHEDULES.get("auto")(again), costs).peak.max() <= again.limit
        return
    assert time_schedule(schedule, costs).peak.max() <= limit * (1 + 1e-9)
