"""The network of a run: which of its links were busy, and for how much of the step."""

import json
from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.report.result.html import document
from simulator.results import drawn
from simulator.results.files import read, save
from simulator.results.parts import Misfit
from simulator.results.result import Result
from simulator.results.summary import to_json
from simulator.run.simulate import simulate
from simulator.specs.resolve import load_scenario
from simulator.specs.scenario import Scenario


def ran(nodes: int, tp: int, dp: int) -> Result:
    """Llama-3.1-8B on nodes of eight H100."""
    size = {
        "cluster.nodes": nodes,
        "training.parallel.tp": tp,
        "training.parallel.pp": 1,
        "training.global_batch": 2 * dp,
    }
    scenario = load_scenario("quickstart", [f"{key}={value}" for key, value in size.items()]).spec
    assert isinstance(scenario, Scenario)
    return simulate(scenario)


@pytest.fixture(scope="module")
def result() -> Result:
    return ran(2, 8, 2)


def test_links_between_nodes_are_busy_for_what_they_carry(result: Result) -> None:
    network = result.network
    assert network is not None and network.nodes == 2
    kinds = {load.name: load.utilisation for load in result.links}
    warmest = max(join.heat for join in network.joins)
    assert warmest == pytest.approx(max(use for name, use in kinds.items() if name.startswith("NIC")), rel=0.01)
    ends = {network.points[join.start].kind for join in network.joins if join.heat > 0}
    assert "node" in ends
    assert f"at most {warmest:.0%} of it" in network.collective


def test_one_node_has_its_devices() -> None:
    network = ran(1, 4, 2).network
    assert network is not None
    assert sum(point.kind == "device" for point in network.points) == 8
    assert all(0 < join.heat < 1 for join in network.joins)


def test_large_networks_are_left_out() -> None:
    assert ran(300, 8, 300).network is None


def test_it_is_kept_listed_and_drawn(result: Result, tmp_path: Path) -> None:
    file = tmp_path / "run"
    save(result, file)
    assert read(file).network == result.network
    rows = to_json(result)["network"]
    assert rows[0]["busy"] == max(row["busy"] for row in rows) > 0
    assert {"from", "to", "links", "capacity_bytes_per_s", "busy"} == set(rows[0])
    html = document(result)
    assert "The network under load" in html and "busy in one step" in html


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"joins": [[0, 99, 1, 1.0, 0.5]]}, "no end"),
        ({"joins": [[0, 1, 1, 1.0, 2.0]]}, "busy for no share"),
        ({"joins": [[0, 1, 1, -1.0, 0.5]]}, "no rate"),
        ({"points": {}}, "no lists"),
        ({"nodes": "two"}, "whole number"),
    ],
)
def test_a_file_that_was_changed_is_refused(result: Result, change: dict[str, object], words: str) -> None:
    header = json.loads(json.dumps(drawn.written(result.network))) | change
    with pytest.raises((Misfit, InputError), match=words):
        drawn.read(header)
