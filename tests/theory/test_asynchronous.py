"""Steps without a flush: PipeDream-2BW's steady state against closed forms and the critical cycle of its passes."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from simulator.errors import InputError
from simulator.program.timing import Costs, steady_step, time_schedule
from simulator.program.validate import validate
from simulator.training.schedules import Pipeline, one_f_one_b, pipedream_2bw

SIZES = [(1, 1), (2, 2), (4, 4), (4, 10), (8, 8), (6, 24)]


@pytest.mark.parametrize("costs", [(1, 1, 1), (2, 3, 1)])
@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
def test_nothing_is_idle(ranks: int, microbatches: int, costs: tuple[int, int, int]) -> None:
    """A step takes m (F + B), (p - 1)(F + B) less than with a flush; rank r keeps p - r microbatches."""
    ticks = Costs.equal(ranks, *costs)
    timing = steady_step(validate(pipedream_2bw(Pipeline(ranks, 1, microbatches))), ticks)
    assert timing.makespan == microbatches * sum(costs)
    assert timing.idle.tolist() == [0] * ranks
    assert timing.peak.tolist() == [ranks - r for r in range(ranks)]
    flushed = time_schedule(one_f_one_b(Pipeline(ranks, 1, microbatches)), ticks)
    assert flushed.makespan - timing.makespan == (ranks - 1) * sum(costs)


@pytest.mark.parametrize("send", [1, 5])
@pytest.mark.parametrize(("ranks", "rounds"), [(2, 2), (3, 3), (4, 2), (6, 2)])
def test_sends_show_as_microbatches_under_way_are_p(ranks: int, rounds: int, send: int) -> None:
    """m (F + B + 2 C (p - 1) / p): p microbatches go round in p (F + B) + 2 (p - 1) C."""
    ones = np.ones(ranks, np.int64)
    ticks = Costs(20 * ones, 20 * ones, 20 * ones, 1.0 * ones, 1.0 * ones, send)
    timing = steady_step(pipedream_2bw(Pipeline(ranks, 1, rounds * ranks)), ticks)
    assert timing.makespan == rounds * (ranks * 60 + 2 * (ranks - 1) * send)


@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 4), (4, 6), (5, 15)])
def test_uneven_stages_follow_the_slowest(ranks: int, microbatches: int) -> None:
    """The period is that of the critical cycle: the largest time of a cycle of waits for each microbatch it spans."""
    stages = np.arange(ranks)
    ticks = Costs(50 + 13 * stages % 29, 40 + 7 * stages % 19, 30 + 5 * stages % 11, *np.ones((2, ranks)))
    graph = (
        nx.DiGraph()
    )  # nodes are the passes of a microbatch; edges (time of what is waited for, microbatches between)
    forward, back = ticks.forward, ticks.input_gradient + ticks.weight_gradient
    for r in range(ranks):
        ahead = ranks - 1 - r
        graph.add_edge(("F", r), ("B", r), ticks=forward[r], later=-ahead)  # F of n + ahead, then B of n
        graph.add_edge(("B", r), ("F", r), ticks=back[r], later=ahead + 1)
        if r:
            graph.add_edge(("F", r - 1), ("F", r), ticks=forward[r - 1], later=0)
            graph.add_edge(("B", r), ("B", r - 1), ticks=back[r], later=0)
    cycles = [[*cycle, cycle[0]] for cycle in nx.simple_cycles(graph)]
    rates = []
    for cycle in cycles:
        edges = [graph.edges[one, other] for one, other in pairwise(cycle)]
        rates.append(sum(edge["ticks"] for edge in edges) / sum(edge["later"] for edge in edges))
    timing = steady_step(pipedream_2bw(Pipeline(ranks, 1, microbatches)), ticks)
    assert timing.makespan == microbatches * max(rates)
    assert timing.makespan == microbatches * int((forward + back).max())


def test_fewer_microbatches_than_stages_are_refused() -> None:
    with pytest.raises(InputError, match="`pipedream-2bw` needs 4 microbatches or more, not 3"):
        pipedream_2bw(Pipeline(4, 1, 3))
