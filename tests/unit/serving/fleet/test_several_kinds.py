"""Pools on nodes of several kinds that one network joins."""

from typing import Any

import pytest

from simulator import units
from simulator.cli import main
from simulator.errors import InputError
from simulator.results.result import Result
from simulator.results.serving.service import span
from simulator.run.ground import ground
from simulator.run.serve import serve
from simulator.serving.fleet.system import System, resolve
from simulator.specs import load_scenario
from simulator.specs.resolve import dump
from simulator.study.header import scenario_fields

FILE = "scenarios/serving/disaggregated-two-generations.yaml"
FEW = "requests.count=60"


def loaded(*overrides: str, file: str = FILE) -> Any:
    return load_scenario(file, [FEW, *overrides]).spec


def served(*overrides: str) -> Result:
    return serve(loaded(*overrides))


def test_pools_lie_on_their_nodes_and_are_priced_with_their_devices() -> None:
    prompts, answers = resolve(loaded())
    assert [prompts.devices(i) for i in range(2)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert [answers.devices(i)[0] for i in range(4)] == [8, 12, 16, 20]
    assert (prompts.node.name, answers.node.name) == ("NVIDIA DGX H100", "NVIDIA DGX A100 640GB")
    assert prompts.cluster is answers.cluster
    assert answers.elsewhere == {}


def costs(system: System) -> list[Any]:
    stage = system.cost.stages[0]
    return [stage.parts(rows, 1) for rows in (1, 16, 512)] + [system.cost.blocks, system.cost.weights_bytes]


def test_a_replica_costs_what_it_costs_on_a_cluster_of_its_nodes_alone() -> None:
    _, answers = resolve(loaded())
    plain = "{name: DGX A100, node: nodes/dgx-a100, nodes: 2, collectives: nccl-h100, network: {kind: none}}"
    (alone,) = resolve(loaded(f"cluster={plain.replace('nodes: 2', 'nodes: 1')}", "serving={parallel: {tp: 4}}"))
    assert costs(answers) == costs(alone)


def test_replicas_without_pools_lie_where_they_are_told() -> None:
    (first,) = resolve(loaded("serving={parallel: {tp: 4}}"))
    (second,) = resolve(loaded("serving={parallel: {tp: 4}, partition: a100, replicas: 2}"))
    assert (first.devices(0), first.node.devices) == ((0, 1, 2, 3), 8)
    assert [second.devices(i)[0] for i in range(2)] == [8, 12]
    assert "A100" in second.node.accelerator.name


def test_a_pool_takes_the_nodes_of_the_system_where_it_names_none() -> None:
    pools = "[{name: here, parallel: {tp: 4}}, {name: there, partition: h100, parallel: {tp: 4}}]"
    here, there = resolve(loaded(f"serving={{partition: a100, pools: {pools}}}"))
    assert (here.devices(0)[0], there.devices(0)[0]) == (8, 0)


def test_the_slower_card_decides_how_long_a_cache_moves() -> None:
    """Alone: each of four devices sends a quarter of 327,680 bytes a token from 50 GB/s to 25 GB/s."""
    one = (
        "requests.arrivals={poisson: 0.01 /s}",
        "requests.count=1",
        "requests.lengths={prompt: {fixed: 4096}, output: {fixed: 8}}",
    )
    result = served(*one)
    assert result.service is not None and result.service.transfers is not None
    moved = result.service.transfers
    assert moved.bytes[0] == 4096 * 2 * 80 * 8 * 128 * 2
    wire = moved.bytes[0] / 4 / 25e9
    lasts = units.to_seconds(int(moved.end[0] - moved.start[0]))
    # NCCL's sends reach 0.715 of the wire between H100 nodes; half as much time on equal cards.
    assert wire / 0.715 < lasts < 1.01 * wire / 0.715
    equal = served(*one, "cluster.more_nodes=[{name: a100, node: nodes/dgx-h100, nodes: 2}]")
    assert equal.service is not None and equal.service.transfers is not None
    other = units.to_seconds(int(equal.service.transfers.end[0] - equal.service.transfers.start[0]))
    assert lasts == pytest.approx(2 * other, rel=0.01)


def test_links_are_listed_once_and_all_devices_are_named() -> None:
    result = served()
    assert sorted(load.name for load in result.links) == ["NIC down", "NIC up", "leaf down", "leaf up", "scale-up"]
    assert {load.name: load.links for load in result.links} == {
        "scale-up": 48,
        "NIC up": 24,
        "NIC down": 24,
        "leaf up": 3,
        "leaf down": 3,
    }
    assert result.service is not None
    assert {replica.pool: replica.device for replica in result.service.replicas} == {
        "prompts": "NVIDIA H100 SXM5 80GB",
        "answers": "NVIDIA A100 SXM4 80GB",
    }
    assert any("have the latencies and shares of `nccl-h100`" in text for text in result.assumptions)
    assert scenario_fields(result.scenario)["devices"] == "8 x NVIDIA H100 SXM5 80GB + 16 x NVIDIA A100 SXM4 80GB"


def test_energy_and_cost_are_those_of_each_device() -> None:
    """Eight H100 and sixteen A100 at the price of each; what they draw lies between idle and peak of each."""
    result = served()
    kinds = [(8, result.scenario["cluster"]["node"]), (16, result.scenario["cluster"]["more_nodes"][0]["node"])]
    devices = [(number, node["accelerator"]) for number, node in kinds]
    assert result.service is not None
    begin, end = span(result.service)
    lasts = units.to_seconds(end - begin)
    price = sum(number * device["price"]["value"] for number, device in devices)
    assert result.metrics["cost_usd"] == pytest.approx(lasts * price)
    least, most = (sum(number * device["power"][of]["value"] for number, device in devices) for of in ("idle", "peak"))
    assert least * lasts < result.metrics["energy_j"] < most * lasts


def test_nodes_of_equal_kinds_are_equal_nodes() -> None:
    """The same run, to the byte, but for what the scenario says."""
    equal = ("cluster.more_nodes=[]", "cluster.nodes=3", "cluster.partition=main")
    pools = "serving.pools=[{name: prompts, role: prefill, replicas: 2, parallel: {tp: 4}}, %s]"
    one = served(*equal, pools % "{name: answers, role: decode, replicas: 4, parallel: {tp: 4}}")
    two = served(
        "cluster.more_nodes=[{name: more, node: nodes/dgx-h100, nodes: 2}]",
        pools % "{name: answers, role: decode, partition: more, replicas: 4, parallel: {tp: 4}}",
    )
    assert one.metrics == two.metrics
    assert (one.links, one.classes, one.breakdown) == (two.links, two.classes, two.breakdown)
    assert one.service is not None and two.service is not None
    assert one.service.requests.finish.tobytes() == two.service.requests.finish.tobytes()
    assert one.ground == two.ground


def test_ground_is_that_of_the_devices_that_run() -> None:
    other = "cluster.more_nodes.0.node.accelerator.memory.bandwidth=1 TB/s"
    assert ground(loaded("serving={parallel: {tp: 4}}", other)).validation.changed == ()
    assert ground(loaded("serving={parallel: {tp: 4}, partition: a100}", other)).validation.changed == ("accelerator",)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            ["serving.pools.1.partition=a10"],
            ("serving.pools.1.partition", "no nodes called `a10`", "did you mean `a100`"),
        ),
        (["serving={partition: h200}"], ("serving.partition", "no nodes called `h200`, but `h100` and `a100`")),
        (["serving.pools.1.replicas=5"], ("the replicas take 20 devices, the nodes `a100` have 16", "by `partition`")),
        (["serving.pools.1.parallel={tp: 32}"], ("32 devices, the cluster has 16",)),
        (["cluster.more_nodes.0.name=h100"], ("two kinds of nodes are called `h100`",)),
        (["cluster.more_nodes.0.node=nodes/nowhere"], ("nowhere",)),
        (["cluster.network={kind: none}"], ("several nodes need a `network`",)),
        (
            ["cluster.network={kind: torus, shape: [24], bandwidth: {value: 1 GB/s, status: estimate, source: x}}"],
            ("joins equal nodes only", "cluster.more_nodes"),
        ),
        (
            ["serving.pools.1.cluster=clusters/dgx-a100", "~serving.pools.1.partition"],
            ("list its nodes under `cluster.more_nodes`",),
        ),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    overrides: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", FILE, "--quiet", FEW, *overrides]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    for word in words:
        assert word in " ".join(said.split())


def test_training_takes_equal_nodes() -> None:
    with pytest.raises(InputError, match="takes equal nodes: list it under `jobs`, with `partition: old`"):
        load_scenario(
            "scenarios/quickstart.yaml", ["+cluster.more_nodes=[{name: old, node: nodes/dgx-a100, nodes: 1}]"]
        )


def test_a_heading_names_the_devices_of_every_pool() -> None:
    fleet = load_scenario("scenarios/serving/fleet-two-device-kinds.yaml").spec
    said = scenario_fields(dump(fleet))["devices"]
    assert said == "2 x NVIDIA H100 SXM5 80GB + 6 x NVIDIA L40S"


def test_no_link_of_two_generations_shows_more_than_it_has() -> None:
    loaded = load_scenario("serving/disaggregated-two-generations", ["requests.count=60"])
    result = serve(loaded.spec)  # type: ignore[arg-type]
    assert result.links
    assert all(load.peak <= load.capacity for load in result.links)
