"""Seq1F1B against its closed forms, and its passes with the keys that slices share against the longest path."""

from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from simulator.program.actions import Kind
from simulator.program.slices import Slices
from simulator.program.timing import Costs, least_makespan, time_schedule
from simulator.training.schedules import Pipeline, seq1f1b

SIZES = [(2, 2, 2), (4, 4, 2), (4, 8, 4), (6, 6, 5), (8, 16, 3)]


@pytest.mark.parametrize(("forward", "backward"), [(1, 1), (1, 2), (3, 4)])
@pytest.mark.parametrize(("ranks", "microbatches", "slices"), SIZES)
def test_equal_slices(ranks: int, microbatches: int, slices: int, forward: int, backward: int) -> None:
    """Without attention idle is (p - 1)(F + B) / k, and rank r keeps p - r + k - 1 slices."""
    ticks = Costs.equal(ranks, slices * forward, slices * backward, slices)
    costs = replace(ticks, slices=Slices.equal(slices))
    timing = time_schedule(seq1f1b(Pipeline(ranks, 1, microbatches, slices=slices)), costs)
    assert timing.idle.tolist() == [(ranks - 1) * (forward + backward + 1)] * ranks
    assert timing.peak == pytest.approx([(ranks - r + slices - 1) / slices for r in range(ranks)])


@pytest.mark.parametrize(("ranks", "microbatches", "slices"), SIZES)
@pytest.mark.parametrize("attention", [Fraction(0), Fraction(1, 4), Fraction(1)])
@pytest.mark.parametrize("make", [Slices.equal, Slices.balanced])
def test_to_the_tick(make: object, attention: Fraction, ranks: int, microbatches: int, slices: int) -> None:
    """Of passes that differ by stage and slice, with an edge wherever a slice needs the keys, or their gradients, of
    others; nothing beats the bound, and cutting changes no work."""
    stages = np.arange(ranks)
    cut = make(slices, attention)  # type: ignore[operator]  # one of two constructors
    whole = Costs(9007 + 701 * stages % 2003, 8009 + 503 * stages % 1009, 4001 + 97 * stages, *np.ones((2, ranks)))
    costs = replace(whole, slices=cut)
    schedule = seq1f1b(Pipeline(ranks, 1, microbatches, slices=slices))
    each = costs.by_number(schedule.microbatches)
    graph = nx.DiGraph()
    for row in schedule.actions():
        nodes = [(a.stage, a.kind == Kind.F, a.microbatch) for a in row]
        graph.add_nodes_from(
            (node, {"ticks": int(each[node[0], Kind.F if node[1] else Kind.B, node[2]])}) for node in nodes
        )
        nx.add_path(graph, nodes)
    for stage, forward, number in list(graph):
        if forward and stage:
            graph.add_edge((stage - 1, True, number), (stage, True, number))
        if not forward:
            after = (stage + 1, False, number) if stage + 1 < ranks else (stage, True, number)
            graph.add_edge(after, (stage, False, number))
        if number % slices:  # keys of the slice before; gradients of those of the slice after
            graph.add_edge((stage, True, number - 1), (stage, True, number))
            graph.add_edge((stage, False, number), (stage, False, number - 1))
    ends: dict[tuple[int, bool, int], int] = {}
    for node in nx.topological_sort(graph):
        ends[node] = max((ends[one] for one in graph.predecessors(node)), default=0) + graph.nodes[node]["ticks"]
    timing = time_schedule(schedule, costs)
    assert timing.makespan == max(ends.values())
    assert timing.makespan >= least_makespan(costs, stages, microbatches)
    work = (whole.forward + whole.input_gradient + whole.weight_gradient) * microbatches
    assert timing.work == pytest.approx(work, abs=2 * schedule.microbatches)  # rounded to ticks


def test_attention_makes_later_slices_longer_unless_they_are_balanced() -> None:
    """Half of F is attention, four slices: products 1/8 each, pairs 1, 3, 5, 7 of 32. Balanced forward passes differ by
    no more than the grain of the cuts, and the step is shorter."""
    half = Fraction(1, 2)
    assert Slices.equal(4, half).passes == tuple(Fraction(4 + pairs, 32) for pairs in (1, 3, 5, 7))
    even = Slices.balanced(4, half)
    assert [float(share) for share in even.passes] == pytest.approx([0.25] * 4, abs=2e-3)
    assert sum(even.tokens) == sum(even.passes) == 1
    assert list(even.tokens) == sorted(even.tokens, reverse=True)
    made = seq1f1b(Pipeline(4, 1, 8, slices=4))
    plain, balanced = (
        time_schedule(made, replace(Costs.equal(4, 10**6, 10**6, 10**6), slices=cut)).makespan
        for cut in (Slices.equal(4, half), even)
    )
    assert balanced < plain
