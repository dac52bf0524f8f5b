"""Orders of nodes over unequal pairs: a ring avoids the slow pair, nothing is lost, nothing gets worse."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator.collectives.placement import in_turn
from simulator.fabric import build
from simulator.random import stream
from simulator.run.gather import Run
from simulator.run.links.carried import sent
from simulator.run.order.search import _Search, search
from simulator.run.order.traffic import TIE, Traffic, rates_of, traffic_of
from simulator.run.simulate import run, simulate
from simulator.specs.hardware import Cluster
from simulator.specs.noise import Noise
from simulator.specs.scenario import NodeOrder, Scenario
from tests import jobs as factory
from tests.machines import cluster as machine
from tests.machines import torus
from tests.matrices import table

Floats = NDArray[np.float64]
FAST, SLOW = 20.0, 4.0


def matrix(nodes: int, *slow: tuple[int, int]) -> Floats:
    """Equal pairs but for some, which are slow both ways."""
    found = np.full((nodes, nodes), FAST)
    for one, other in slow:
        found[one, other] = found[other, one] = SLOW
    return found


def drawn(nodes: int, seed: int) -> Floats:
    return np.random.default_rng(seed).uniform(SLOW, FAST, (nodes, nodes)).round(3)


def training(folder: Path, rates: Floats, devices: int = 1, seed: int = 0, **parallel: int) -> Scenario:
    """A training on nodes whose pairs have these GB/s."""
    path = folder / "rates.csv"
    path.write_text(table("GB/s", rates.tolist()))
    made = factory.scenario(devices=devices, batch=8 * len(rates), **parallel)
    network, node = {"kind": "pairs", "matrix": str(path)}, made.cluster.node
    wide = Cluster.model_validate({"name": "c", "node": node, "nodes": len(rates), "network": network})
    return made.model_copy(update={"cluster": wide, "seed": seed})


def placed(scenario: Scenario, nodes: tuple[int, ...]) -> Run:
    return run(scenario.model_copy(update={"placement": NodeOrder(nodes=nodes)}))


def around(nodes: tuple[int, ...]) -> set[tuple[int, int]]:
    """Neighbours of a ring."""
    return {(min(a, b), max(a, b)) for a, b in zip(nodes, (*nodes[1:], nodes[0]), strict=True)}


@pytest.mark.parametrize("nodes", [5, 12])
def test_a_ring_avoids_the_slow_pair(tmp_path: Path, nodes: int) -> None:
    """All orders of five nodes are looked at, of twelve some; either way the step is that of equal pairs."""
    equal = run(training(tmp_path, matrix(nodes)))
    uneven = training(tmp_path, matrix(nodes, (1, 2)))
    found = search(uneven, run)
    assert (1, 2) not in around(found.nodes)
    assert found.best_s == equal.steps.mean_s < found.default_s
    assert found.busy_s[1] == pytest.approx(found.busy_s[0] * SLOW / FAST)


def test_equal_pairs_keep_their_order(tmp_path: Path) -> None:
    found = search(training(tmp_path, matrix(6)), run)
    assert found.nodes == tuple(range(6)) and (found.looked_at, found.simulated) == (1, 1)
    assert found.best_s == found.default_s
    assert found.busy_s[0] == found.busy_s[1] > 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("layout", [{}, {"pp": 2}, {"pp": 4, "tp": 2}])
def test_no_answer_is_worse(tmp_path: Path, seed: int, layout: dict[str, int]) -> None:
    scenario = training(tmp_path, drawn(8, seed), devices=2, seed=seed, **layout)
    found = search(scenario, run)
    assert found.best_s <= found.default_s
    assert sorted(found.nodes) == list(range(8))
    assert placed(scenario, found.nodes).steps.mean_s == found.best_s
    assert search(scenario, run).nodes == found.nodes  # the same seed, the same order


def test_the_best_of_all_orders_is_found(tmp_path: Path) -> None:
    """Of one ring the busy time of links orders the steps, so that no order of all is better."""
    scenario = training(tmp_path, drawn(5, 3))
    every = min(placed(scenario, nodes).steps.mean_s for nodes in permutations(range(5)) if nodes[0] == 0)
    assert search(scenario, run).best_s == every


def test_a_local_search_comes_near_the_best_of_all(tmp_path: Path) -> None:
    for seed in range(5):
        base = run(training(tmp_path, drawn(7, seed), pp=1))
        rates, traffic = rates_of(base.network.fabric), traffic_of(base)
        assert traffic is not None
        best = traffic.busy(rates, np.array(list(permutations(range(7)))), TIE).min()
        found, order = _Search(traffic, rates, stream(0, "test")).from_order(np.arange(7), 500_000)
        assert found == traffic.busy(rates, order[None], TIE)[0] <= 1.05 * best


def test_an_order_is_a_permuted_matrix(tmp_path: Path) -> None:
    """Ranks on nodes in an order take as long as ranks in order on nodes that are numbered so."""
    rates, order = drawn(6, 1), (4, 0, 5, 2, 1, 3)
    moved = placed(training(tmp_path, rates, devices=2, pp=2, tp=2), order)
    other = run(training(tmp_path, rates[np.ix_(order, order)], devices=2, pp=2, tp=2))
    assert moved.timeline.makespan == other.timeline.makespan


def carried(done: Run) -> Floats:
    """Bytes of a step from node to node; (nodes, nodes)."""
    fabric = done.network.fabric
    total, nodes = np.zeros(len(fabric.capacity)), fabric.numbering.all_nodes
    for flow in sent(done.program, done.classes):
        done.classes.priced[flow.comm].cost.carried(flow.runs).add_to(total)
    found = np.zeros((nodes, nodes))
    found[~np.eye(nodes, dtype=bool)] = total[-nodes * (nodes - 1) :]
    return found


def test_bytes_of_every_link_are_conserved(tmp_path: Path) -> None:
    """An order moves what places send to other pairs of nodes; it neither adds nor loses a byte."""
    scenario = training(tmp_path, drawn(6, 2), devices=2, pp=2)
    order = (3, 5, 0, 2, 4, 1)
    before, after = carried(run(scenario)), carried(placed(scenario, order))
    assert before.sum() > 0
    assert after[np.ix_(order, order)] == pytest.approx(before)
    traffic = traffic_of(run(scenario))
    assert traffic is not None
    of_places = np.zeros((6, 6))
    np.add.at(of_places, (traffic.src, traffic.dst), traffic.size)
    assert of_places == pytest.approx(before)


def test_busy_time_is_bytes_over_rates() -> None:
    """Two phases, of which the second loads one pair only."""
    traffic = Traffic(np.array([0, 1, 2]), np.array([1, 2, 0]), np.array([6.0, 6.0, 8.0]), np.array([0, 2]))
    rates = np.array([[np.inf, 3, 1], [6, np.inf, 2], [4, 8, np.inf]])
    orders = np.array([[0, 1, 2], [2, 1, 0]])
    # In order 6 / 3 and 6 / 2, then 8 / 4; turned round 6 / 8 (2 > 1) and 6 / 6 (1 > 0), then 8 / 1 (0 > 2).
    assert traffic.busy(rates, orders).tolist() == [3 + 2, 1 + 8]
    assert traffic.slowest(rates, orders[0]) == [(1, 2), (2, 0)]


def test_a_searched_scenario_says_what_was_found(tmp_path: Path) -> None:
    scenario = training(tmp_path, matrix(5, (1, 2))).model_copy(update={"placement": "searched"})
    result = simulate(scenario)
    (told,) = [line for line in result.assumptions if line.startswith("ranks lie on nodes")]
    default = simulate(scenario.model_copy(update={"placement": "in-order"}))
    assert "in order a step takes" in told and result.metrics["step_time_s"] < default.metrics["step_time_s"]


def test_slow_devices_stay_where_they_are(tmp_path: Path) -> None:
    """A slow device is one of the machine, whichever ranks lie on it: a pipeline waits for it at another stage."""
    scenario = training(tmp_path, matrix(4), pp=4)
    noise = Noise.model_validate({"stragglers": {"devices": [3], "slowdown": 1.5}})
    slow = scenario.model_copy(update={"training": scenario.training.model_copy(update={"noise": noise})})
    busy = [placed(slow, order).noise.factors for order in ((0, 1, 2, 3), (3, 0, 1, 2))]
    assert busy[0] is not None and busy[1] is not None
    assert busy[0][0].argmax() == 3 and busy[1][0].argmax() == 0


def test_groups_go_round_nodes_as_they_name_them() -> None:
    fabric = build(machine(4, None, devices=2, nics=2))
    groups = np.array([[6, 0, 7, 1, 4], [2, 3, 0, 1, 6]])
    assert in_turn(groups, fabric).tolist() == [[6, 7, 0, 1, 4], [2, 3, 0, 1, 6]]
    grid = build(machine(8, torus(2, 4), devices=1, kind="none", nics=0))
    assert in_turn(np.array([[6, 0, 7]]), grid).tolist() == [[0, 6, 7]]
