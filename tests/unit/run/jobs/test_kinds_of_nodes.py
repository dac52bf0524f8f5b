"""Jobs on a cluster of several kinds of nodes."""

from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.results.result import Result
from simulator.run.dispatch import simulate
from simulator.run.jobs.parts import parts
from simulator.run.jobs.placing import place
from simulator.specs import load_scenario
from simulator.specs.jobs import JobsScenario

CLUSTER = """
version: 1
name: two generations
cluster:
  extends: clusters/dgx-h100
  nodes: 3
  partition: new
  more_nodes: [{name: old, node: nodes/dgx-a100, nodes: 3}]
  network: {kind: tree, rail_optimised: false, levels: [{name: leaf, nodes: 2, oversubscription: 8}]}
jobs:
"""
TRAINING = "training: {global_batch: 48, micro_batch: 1, sequence_length: 1024, steps: 2%s}"
POOLS = "pools: [{name: p, role: prefill, parallel: {tp: 4}%s}, {name: d, role: decode, parallel: {tp: 4}%s}]"


def trains(name: str, more: str = "", parallel: str = "") -> str:
    return f"  - {{name: {name}, model: models/llama-2-7b, stack: fsdp, {more} {TRAINING % parallel}}}\n"


def serves(name: str, more: str = "", serving: str = "parallel: {tp: 4}") -> str:
    asked = "requests: {arrivals: {poisson: 4 /s}, lengths: {prompt: {fixed: 900}, output: {fixed: 20}}, count: 20}"
    return f"  - {{name: {name}, model: models/llama-2-7b, stack: vllm, {more} serving: {{{serving}}}, {asked}}}\n"


def jobs(tmp_path: Path, *listed: str, overrides: tuple[str, ...] = ()) -> JobsScenario:
    file = tmp_path / "jobs.yaml"
    file.write_text(CLUSTER + "".join(listed))
    scenario = load_scenario(file, overrides).spec
    assert isinstance(scenario, JobsScenario)
    return scenario


def nodes(scenario: JobsScenario) -> list[list[int]]:
    node_of = scenario.cluster.numbering.node_of
    return [sorted({node_of(device) for device in devices}) for devices in place(scenario)]


def run(tmp_path: Path, *listed: str, overrides: tuple[str, ...] = ()) -> Result:
    return simulate(jobs(tmp_path, *listed, overrides=overrides))


def test_a_job_lies_on_the_first_kind_with_room_or_on_the_one_that_it_names(tmp_path: Path) -> None:
    listed = [trains("a", "nodes: 2,"), trains("b", "nodes: 2,"), trains("c", "nodes: 1, partition: old,")]
    assert nodes(jobs(tmp_path, *listed)) == [[0, 1], [3, 4], [5]]
    assert nodes(jobs(tmp_path, trains("a", "partition: old, nodes: 2, placement: spread,"))) == [[3, 4]]


def test_open_jobs_take_the_rest_of_their_own_kind(tmp_path: Path) -> None:
    listed = [trains("here", "partition: new,"), trains("there", "partition: old,"), serves("s", "partition: old,")]
    assert nodes(jobs(tmp_path, *listed)) == [[0, 1, 2], [4, 5], [3]]
    for partition in ("", "partition: new,"):
        with pytest.raises(InputError, match="`here` and `too` leave open how many devices they take"):
            place(jobs(tmp_path, trains("here", "partition: new,"), trains("too", partition)))


def test_pools_of_a_service_lie_on_their_kinds(tmp_path: Path) -> None:
    apart = serves("s", serving=POOLS % (", partition: new", ", partition: old"))
    scenario = jobs(tmp_path, trains("t", "nodes: 1,"), apart)
    assert place(scenario)[1] == (8, 9, 10, 11, 24, 25, 26, 27)
    inherited = jobs(tmp_path, serves("s", "partition: old,", POOLS % (", partition: new", "")))
    assert place(inherited) == ((0, 1, 2, 3, 24, 25, 26, 27),)
    (part,) = parts(inherited)
    assert part.serving.partition == "old"


def test_a_job_is_priced_with_the_devices_that_it_lies_on(tmp_path: Path) -> None:
    """As on a cluster of these nodes alone."""
    found = run(tmp_path, trains("t", "placement: {nodes: [4, 5]},"), serves("s"))
    only = ("cluster.node=nodes/dgx-a100", "cluster.more_nodes=[]", "cluster.partition=old")
    alone = run(tmp_path, trains("t", "placement: {nodes: [0, 1]},"), overrides=only)
    assert found.jobs[0].alone == alone.jobs[0].alone
    assert found.jobs[0].result.scenario["cluster"]["node"]["name"] == "NVIDIA DGX A100 640GB"
    service = found.jobs[1].result.service
    assert service is not None and service.replicas[0].device == "NVIDIA H100 SXM5 80GB"
    assert "s: placement packed: 4 devices of node 0" in found.assumptions


def test_a_service_without_a_name_is_priced_where_it_found_room(tmp_path: Path) -> None:
    found = run(tmp_path, trains("t", "nodes: 3,"), serves("s"))
    service = found.jobs[1].result.service
    assert found.jobs[1].devices == (24, 25, 26, 27)
    assert service is not None and service.replicas[0].device == "NVIDIA A100 SXM4 80GB"


def test_caches_between_kinds_meet_gradients(tmp_path: Path) -> None:
    apart = serves("s", serving=POOLS % (", partition: new", ", partition: old"))
    found = run(tmp_path, apart, trains("t", "placement: {nodes: [1, 2]},"))
    assert {meeting.kind for meeting in found.meetings} <= {"leaf up", "leaf down"}
    assert found.meetings


def test_links_are_slowed_by_name_on_every_kind(tmp_path: Path) -> None:
    slow = "+perturbations=[{kind: slow-links, links: ['node 4: 2 > switch', 'NIC 39'], factor: 0.02, start: 0 s}]"
    job = trains("t", "partition: old, nodes: 3,")
    clean, found = run(tmp_path, job), run(tmp_path, job, overrides=(slow,))
    assert found.metrics["makespan_s"] > 1.01 * clean.metrics["makespan_s"]
    with pytest.raises(InputError, match=r"no link `NIC 48`.*`NIC up 47`"):
        run(tmp_path, job, overrides=(slow.replace("NIC 39", "NIC 48"),))


def test_kinds_that_are_equal_are_equal_nodes(tmp_path: Path) -> None:
    listed = [trains("t", "placement: {nodes: [1, 2]},"), serves("s", "placement: {nodes: [3]}, partition: old,")]
    equal = ("cluster.more_nodes.0.node=nodes/dgx-h100",)
    plain = ("cluster.more_nodes=[]", "cluster.nodes=6", "cluster.partition=old")
    one, two = run(tmp_path, *listed, overrides=equal), run(tmp_path, *listed, overrides=plain)
    assert one.metrics == two.metrics
    assert one.meetings == two.meetings


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "unknown": ((trains("t", "partition: odd,"),), r"jobs.0.partition: .*no nodes called `odd`.*did you mean `old`"),
    "unknown of a service": ((serves("s", "partition: odd,"),), "no nodes called `odd`"),
    "over two kinds": (
        (trains("t", "placement: {nodes: [2, 3]},"),),
        "a job that trains lies on nodes of one kind, and this one is given `new` and `old`",
    ),
    "another kind": (
        (trains("t", "partition: old, placement: {nodes: [1, 2]},"),),
        "a job that trains lies on nodes of one kind, and this one is given `new`",
    ),
    "full": (
        (trains("a", "partition: old, nodes: 2,"), trains("b", "partition: old, nodes: 2,")),
        "job `b` needs 2 whole nodes, and 24 devices of `new` and 8 devices of `old` are left",
    ),
    "too large for every kind": ((trains("a", "nodes: 4,"),), "needs 4 whole nodes, and 24 devices of `new` and 24"),
    "nodes of two kinds": (
        (serves("s", "nodes: 2,", POOLS % (", partition: new", ", partition: old")),),
        "`nodes` counts nodes of one kind, and its pools lie on several",
    ),
    "too few of a kind": (
        (serves("s", "placement: {nodes: [0]},", POOLS % (", partition: new", ", partition: old")),),
        "its replicas take 4 devices of `old`, and it is given 0",
    ),
    "no such node": ((trains("t", "placement: {nodes: [6]},"),), "there is no node 6: the cluster has 6, from 0 on"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_placed_is_refused_in_words(name: str, tmp_path: Path) -> None:
    listed, words = WRONG[name]
    with pytest.raises(InputError, match=words):
        place(jobs(tmp_path, *listed))
