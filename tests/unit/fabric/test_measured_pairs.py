"""Networks whose every pair of nodes has a measured bandwidth."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator import collectives
from simulator.collectives.plan import plan
from simulator.errors import InputError
from simulator.fabric import Fabric, build
from tests.machines import cluster, profile
from tests.matrices import table

RATES = [[0.0, 10.0, 20.0], [5.0, 0.0, 20.0], [20.0, 20.0, 0.0]]


def made(folder: Path, nodes: int = 3, rates: list[list[float]] = RATES, of: str = "node", **node: Any) -> Fabric:
    (folder / "pairs.csv").write_text(table("GB/s", rates))
    network = {"kind": "pairs", "matrix": str(folder / "pairs.csv"), "of": of}
    return build(cluster(nodes, network, **{"devices": 2, "nics": 2, "nic": "25 GB/s"} | node))


def test_a_way_is_card_pair_card(tmp_path: Path) -> None:
    machine = made(tmp_path)
    way = machine.route(0, 5)
    assert [machine.described(link) for link in way] == ["NIC up 0", "pair 1 (node 0 > node 2)", "NIC down 5"]
    assert machine.capacity[list(way)].tolist() == [25e9, 20e9, 25e9]
    assert machine.described(machine.route(2, 0)[1]) == "pair 2 (node 1 > node 0)"
    assert machine.capacity[machine.route(2, 0)[1]] == 5e9  # one way and the other
    assert machine.capacity[machine.route(0, 2)[1]] == 10e9
    assert len(machine.route(0, 1)) == 2  # inside the node
    assert machine.find("pair 2") == (machine.route(2, 0)[1],)
    assert sorted(machine.capacity[-6:] / 1e9) == [5, 10, 20, 20, 20, 20]


def test_every_pair_has_one_link(tmp_path: Path) -> None:
    machine = made(tmp_path)
    ranks = np.arange(6)
    pairs = [machine.route(int(a), int(b))[1] for a in ranks for b in ranks if a // 2 != b // 2]
    assert np.unique(pairs, return_counts=True)[1].tolist() == [4] * 6  # two devices at each end
    graph = machine.graph()
    assert {graph.edges[e]["link"] for e in graph.edges} >= set(pairs)


def test_figures_of_one_card_count_for_each(tmp_path: Path) -> None:
    assert made(tmp_path, of="card").capacity[-6:].tolist() == (2 * made(tmp_path).capacity[-6:]).tolist()


def test_fewer_nodes_are_the_first(tmp_path: Path) -> None:
    assert made(tmp_path, 2).capacity[-2:].tolist() == [10e9, 5e9]
    with pytest.raises(InputError, match="bandwidths of 3"):
        made(tmp_path, 4)


def test_a_ring_is_as_slow_as_its_slowest_pair(tmp_path: Path) -> None:
    """2 (n - 1) / n of the bytes over 20 GB/s, but one pair at 5 GB/s; cards of 25 GB/s each."""
    fast = [[0.0 if i == j else 20.0 for j in range(3)] for i in range(3)]
    slow = [list(row) for row in fast]
    slow[1][2] = 5.0
    size, seconds = 4e9, []
    for rates in (fast, slow):
        machine = made(tmp_path, rates=rates, devices=1, nics=1)
        cost = collectives.cost_of("all_reduce", [range(3)], size, machine, profile(), "ring")
        seconds.append(float(cost.slowest) * 1e-12)
    assert seconds[0] == pytest.approx(size * 4 / 3 / 20e9, rel=1e-3)
    assert seconds[1] == pytest.approx(size * 4 / 3 / 5e9, rel=1e-3)


def test_bytes_of_a_ring_are_conserved(tmp_path: Path) -> None:
    """Each link of a pair carries what its ring sends between the two nodes, whatever its bandwidth."""
    machine = made(tmp_path)
    size = 3e9
    cost = collectives.cost_of("all_reduce", [[0, 1, 2, 3, 4, 5]], size, machine, profile(), "ring")
    pairs = {machine.described(link): cost.load[link] for link in range(len(machine.capacity) - 6, len(cost.load))}
    used = {name: load for name, load in pairs.items() if load}
    assert len(used) == 3 and sum(used.values()) == pytest.approx(3 * 2 * 5 / 6 * size)
    assert all(load == pytest.approx(2 * 5 / 6 * size) for load in used.values())
    cards = slice(machine.first_outer, len(machine.capacity) - 6)
    assert cost.load[cards].sum() == pytest.approx(2 * sum(used.values()))


def test_libraries_do_not_know_the_matrix(tmp_path: Path) -> None:
    """What runs does not depend on what was measured."""
    slow = [[0.0 if i == j else 1e-3 for j in range(3)] for i in range(3)]
    chosen = {
        plan("all_reduce", [range(6)], 1e8, made(tmp_path, rates=rates), profile()).algorithms
        for rates in (RATES, slow)
    }
    assert len(chosen) == 1
