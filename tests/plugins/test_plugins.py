"""What third parties add: one file each, found by its entry point, and nothing else touched."""

import json
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from pathlib import Path
from sys import modules
from types import SimpleNamespace

import pytest

from simulator import registry
from simulator.axes import AXES
from simulator.collectives.algorithms import ALGORITHMS
from simulator.errors import InputError
from simulator.fabric import build
from simulator.fabric.scale_out import NETWORKS
from simulator.fabric.scale_up import SCALE_UPS
from simulator.model.blocks import MLPS
from simulator.report.catalogue.profiles import profiles
from simulator.report.catalogue.schema import schema
from simulator.report.result import html
from simulator.results import Result
from simulator.run import dispatch
from simulator.run.jobs.perturbations import PERTURBATIONS
from simulator.run.serve import serve
from simulator.run.simulate import simulate
from simulator.serving.policies import POLICIES
from simulator.specs import load_scenario, load_spec
from simulator.specs.files import shape
from simulator.specs.hardware import NETWORK_KEYS, SCALE_UP_KEYS, Cluster
from simulator.specs.jobs import PERTURBATION_KEYS
from simulator.training.schedules import SCHEDULES
from tests import jobs
from tests.replicas import Setting, asked, check, run

Install = Callable[[str], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a module of this folder as a plug-in, until the test is over."""
    topologies = NETWORKS, NETWORK_KEYS, SCALE_UPS, SCALE_UP_KEYS
    for known in (SCHEDULES, ALGORITHMS, AXES, MLPS, POLICIES, *topologies, PERTURBATIONS, PERTURBATION_KEYS):
        monkeypatch.setattr(known, "_things", dict(known._things))

    def entry(name: str) -> None:
        module = f"tests.plugins.{name}"
        monkeypatch.delitem(modules, module, raising=False)
        point = SimpleNamespace(name=name, value=module, load=lambda: import_module(module))
        monkeypatch.setattr(metadata, "entry_points", lambda group: [point])
        registry.load_plugins.cache_clear()
        shape.fields.cache_clear()

    yield entry
    registry.load_plugins.cache_clear()
    shape.fields.cache_clear()


def step(**training: object) -> Result:
    """A step of 4 stages, or of as many data-parallel devices where `pp` is 1."""
    return simulate(jobs.scenario(devices=4, batch=16, pp=int(training.pop("pp", 4)), training=training))


def test_a_pipeline_schedule(install: Install) -> None:
    """Backward passes in another order take as long as GPipe's."""
    install("schedule_last_first")
    plain, added = step(schedule="gpipe"), step(schedule="last-first")
    assert added.metrics["step_time_s"] == pytest.approx(plain.metrics["step_time_s"], rel=0.02)
    spans = added.spans
    last = spans.names.index("backward")
    backward = (spans.name == last) & (spans.stage == 3)
    assert spans.microbatch[backward].tolist() == list(reversed(range(16)))


def test_a_collective_algorithm(install: Install) -> None:
    """The hub's link carries the gradients of all others, so three times what a ring asks of it."""
    install("algorithm_first_sums")
    overlap = {"overlap_gradients": False, "pp": 1}
    ring = step(**overlap, algorithms={"dp": "ring"})
    star = step(**overlap, algorithms={"dp": "first-sums"})
    exposed = [result.breakdown[0]["exposed_dp"] for result in (ring, star)]
    assert exposed[1] > 2.5 * exposed[0]
    busiest = [max(load.bytes for load in result.links) for result in (ring, star)]
    assert busiest[1] > 1.9 * busiest[0]


def test_a_parallel_axis(install: Install) -> None:
    """Two devices along the axis halve the MLP, sum over their own groups, and show under the axis's name."""
    install("axis_features")
    shape = jobs.model(hidden=4096, heads=32, pattern=[{"repeat": 8, "mlp": "features"}])
    one, two = (simulate(jobs.scenario(devices=4, batch=16, pp=2, fp=fp, shape=shape)) for fp in (1, 2))
    assert two.scenario["training"]["parallel"]["more"] == {"fp": 2}
    assert "exposed_fp" not in one.breakdown[0]
    assert all(part["exposed_fp"] > 0 for part in two.breakdown)
    assert two.metrics["step_time_s"] > one.metrics["step_time_s"]  # half as many replicas, and attention is not cut
    assert two.breakdown[0]["compute"] < 2 * one.breakdown[0]["compute"]
    assert "feature-parallel" in html.document(two)
    with pytest.raises(InputError, match="fp 3 x tp 1 x cp 1 x dp 1 x pp 2 = 6, but the cluster has 4 devices"):
        simulate(jobs.scenario(devices=4, batch=16, pp=2, fp=3, shape=shape))


def test_an_axis_that_no_block_uses_is_refused(install: Install) -> None:
    """Its devices would all do the same."""
    install("axis_features")
    with pytest.raises(InputError, match="fp 2: no block of small is cut along `fp`"):
        simulate(jobs.scenario(devices=4, batch=16, pp=2, fp=2))


def test_a_batching_policy(install: Install) -> None:
    """A scenario names it; prompts have half of what `vllm-v1` gives them, and take no more than is free."""
    install("policy_urgent_first")
    few = ["requests.count=200", "serving.batching.max_sequences=64"]
    plain, added = (
        serve(load_scenario("scenarios/serving/quickstart.yaml", [*few, f"serving.batching.policy={name}"]).spec)
        for name in ("vllm-v1", "urgent-first")
    )
    tokens = [
        max(int(one.iterations.prompt_tokens.max()) for one in result.service.replicas) for result in (plain, added)
    ]
    assert tokens[1] == added.scenario["serving"]["batching"]["token_budget"] // 2 < tokens[0]
    assert added.metrics["completed"] == plain.metrics["completed"] == 200


def test_a_batching_policy_says_who_loses_its_memory(install: Install) -> None:
    """The least urgent of three that decode does first, though it came first; the most urgent one never does."""
    install("policy_urgent_first")
    rows = [(0, 40, 60), (1, 40, 60), (2, 10, 60)]
    given = {"policy": "urgent-first", "blocks": 40, "budget": 128}
    ran = run(asked(rows, priority=[2, 1, 0]), Setting(**given))
    check(ran)
    usual = run(asked(rows, priority=[2, 1, 0]), Setting(**{**given, "policy": "vllm-v1"}))
    assert usual.ledger.preemptions[0] == 0 < usual.ledger.preemptions[2]
    assert ran.ledger.preemptions[2] == 0 < ran.ledger.preemptions[0]
    assert min(ran.ledger.pauses, key=lambda pause: pause[1])[0] == 0
    slow = run(asked(rows, priority=[2, 1, 0]), Setting(**given), fast_forward=False)
    assert slow.ledger == ran.ledger


HUB = "kind: hub, ports: 4, cable: 10 GB/s"
STAR = "kind: star, spoke: 100 GB/s"


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., str]:
    """Writes a cluster of 2 nodes x 2 devices on topologies of plug-ins."""

    def write(network: str = HUB, scale_up: str = STAR) -> str:
        node = f"{{extends: dgx-a100, devices: 2, nics: {{count: 2}}, scale_up: {{{scale_up}}}}}"
        (tmp_path / "machine.yaml").write_text(
            f"name: Hubbed\nnodes: 2\nnode: {node}\nnetwork: {{{network}}}\ncollectives: nccl-a100\n"
        )
        return str(tmp_path / "machine.yaml")

    return write


def test_topologies(install: Install, machine: Callable[..., str]) -> None:
    """Named in files with keys of their own: a hub of half the bandwidth moves gradients in about twice the time."""
    install("network_hub")
    layout = ("training.parallel={tp: 2, pp: 1}", "training.global_batch=8", "training.overlap_gradients=false")
    fast, slow = (
        simulate(load_scenario("quickstart", [f"cluster={machine()}", *layout, *change]).scenario)
        for change in ((), ("cluster.network.cable=5 GB/s",))
    )
    assert {load.name for load in fast.links} == {"scale-up", "to the hub", "from the hub"}
    assert slow.breakdown[0]["exposed_dp"] > 1.8 * fast.breakdown[0]["exposed_dp"] > 0
    assert slow.breakdown[0]["exposed_tp"] == fast.breakdown[0]["exposed_tp"] > 0
    assert fast.scenario["cluster"]["network"]["more"] == {"ports": 4, "cable": 10e9, "passage": 0.0}
    replicas = load_scenario(
        "serving/quickstart", [f"cluster={machine()}", "requests.count=20", "serving.parallel.tp=2"]
    )
    assert dispatch.simulate(replicas.scenario).feasible


@pytest.mark.parametrize(
    ("network", "scale_up", "message"),
    [
        ("kind: hubb", STAR, "network.kind: `hubb` is not accepted; did you mean `hub`?"),
        (HUB, "kind: sta, spoke: 1 GB/s", "node.scale_up.kind: `sta` is not accepted; did you mean `star`?"),
        ("kind: hub, ports: 4", STAR, "network.cable: `cable` is missing"),
        (HUB + ", passage: 3", STAR, "network.passage: `3` has no unit"),
        (HUB.replace("4", "four"), STAR, "network.ports: `four` is not a whole number"),
        (HUB + ", portes: 3", STAR, "network.portes: unknown key `portes`; did you mean `ports`?"),
        ("kind: tree, levels: [{name: leaf, nodes: 2}], ports: 4", STAR, "`ports` is no key of kind `tree`"),
        (HUB.replace("4", "3"), STAR, "4 devices on a hub of 3 ports; write 4"),
    ],
)
def test_keys_of_topologies_are_checked(
    install: Install, machine: Callable[..., str], network: str, scale_up: str, message: str
) -> None:
    """At their place in the file, by what the plug-in says of them."""
    install("network_hub")
    with pytest.raises(InputError) as refused:
        build(load_spec(Cluster, machine(network, scale_up)))
    assert message in str(refused.value)


def test_topologies_are_in_schemas_and_profiles(install: Install, machine: Callable[..., str]) -> None:
    """Editors complete the kind and its keys; a profile in full says where each was written."""
    install("network_hub")
    drawn = json.loads(schema("cluster"))["$defs"]
    assert {"hub", "tree"} <= set(drawn["Network"]["properties"]["kind"]["enum"])
    assert "examples" in str(drawn["Network"]["properties"]["cable"]) and "more" not in drawn["Network"]["properties"]
    path = machine()
    shown = profiles(path, width=100, colour=False)
    assert "  kind: hub" in shown and "  ports: 4" in shown and "    spoke:" in shown
    (Path(path).parent / "again.yaml").write_text(shown)
    again, first = (load_spec(Cluster, name) for name in (str(Path(path).parent / "again.yaml"), path))
    assert again == first
    [line] = [line for line in shown.splitlines() if "  ports: 4" in line]
    assert "machine.yaml:4" in line


@pytest.fixture
def beside_backups(tmp_path: Path) -> Callable[..., str]:
    """Writes a scenario of a training on two nodes, beside backups over one node's card."""

    def write(backups: str) -> str:
        path = tmp_path / "backups.yaml"
        path.write_text(
            f"""
version: 1
name: A training beside backups
cluster: {{extends: clusters/generic-a100, nodes: 2, node: {{extends: dgx-a100, devices: 1}}}}
jobs:
  - name: training
    model: models/gpt-1.7b
    stack: megatron-core
    training:
      {{global_batch: 8, sequence_length: 1024, parallel: {{dp: 2, zero: 0}}, overlap_gradients: false, steps: 3}}
perturbations:
  - {{kind: backups, links: [NIC up 0], {backups}}}
"""
        )
        return str(path)

    return write


def test_a_perturbation(install: Install, beside_backups: Callable[..., str]) -> None:
    """Gradients share the link with copies, half and half; what goes on for ever ends with the jobs."""
    install("perturbation_backups")
    usual, all_along, slower, over = (
        dispatch.simulate(load_scenario(beside_backups(keys)).scenario)
        for keys in (
            "size: 1 GB, rate: 1 GB/s, pause: 1000 s, start: 900 s",
            "size: 1 GB, rate: 400 GB/s, pause: 0 s",
            "size: 1 GB, rate: 50 GB/s, pause: 0 s",
            "size: 1 GB, rate: 400 GB/s, pause: 0 s, lasts: 1 ms",
        )
    )
    step = [result.jobs[0].result.metrics["step_time_s"] for result in (usual, all_along, slower)]
    assert usual.jobs[0].slowdown == over.jobs[0].slowdown == 1
    moved = next(load for load in usual.jobs[0].result.links if load.name == "NIC up")
    longer = [seconds - step[0] for seconds in step]
    assert longer[1] == pytest.approx(3 * longer[2], rel=0.01)  # half of the link, and three quarters of it, are left
    assert longer[1] >= moved.bytes / moved.capacity
    last = all_along.jobs[0].end_s
    assert all_along.metrics["makespan_s"] == last == pytest.approx(3 * step[1], rel=0.01)
