"""What links carried while requests were served: bytes by operation, whose they are, and the peak."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulator import fabric
from simulator.collectives import Plan
from simulator.random import stream
from simulator.results import Result
from simulator.run.links.serving import Flow, _Carried
from simulator.run.serve import run_serving
from simulator.run.service import gather
from simulator.serving.costs.iteration import StageCost
from simulator.serving.costs.sends import Library
from simulator.serving.fleet.system import resolve
from simulator.specs import load_scenario, load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.serving import ServingStack

HIDDEN, LAYERS = 8192, 80
FILE = "scenarios/serving/disaggregated-70b-h100.yaml"
MOVES = ["requests.count=60"]


def served(*overrides: str, leap: bool = True) -> Result:
    return gather(run_serving(load_scenario(FILE, [*MOVES, *overrides]).spec, leap=leap))


@pytest.fixture(scope="module")
def apart() -> Result:
    return served()


@pytest.fixture(scope="module")
def stage() -> StageCost:
    """The only stage of a replica of Llama 3.1 70B on two devices."""
    return resolve(load_scenario(FILE).spec)[0].cost.stages[0]


def test_an_iteration_says_which_collectives_it_runs(stage: StageCost) -> None:
    """Two sums a layer and one of the embedding, of 16-bit rows; logits of the rows that give a token are gathered."""
    summed, gathered = stage.calls(100, 3)
    assert (summed.comm.operation, summed.comm.axis, summed.runs) == ("all_reduce", "tp", 2 * LAYERS + 1)
    assert summed.comm.size == 100 * HIDDEN * 2
    assert (gathered.comm.operation, gathered.comm.axis, gathered.runs) == ("all_gather", "tp", 1)
    assert gathered.comm.size == 3 * 128256 * 2


@pytest.mark.parametrize(("tokens", "sampled"), [(1, 1), (100, 3), (2048, 0)])
def test_collectives_take_the_time_of_their_axis(stage: StageCost, tokens: int, sampled: int) -> None:
    exposed = sum(call.exposed for call in stage.calls(tokens, sampled))
    assert exposed == pytest.approx(stage.parts(tokens, sampled)["tp"], abs=4)


def test_links_carry_the_bytes_of_iterations_and_of_moved_caches(apart: Result) -> None:
    """Each of two devices sends the other what it has of a sum, and half of the caches that its replica hands on."""
    assert apart.service is not None and apart.service.transfers is not None
    (load,) = apart.links
    assert (load.name, load.links) == ("scale-up", 16)
    rows = apart.service.replicas[0].iterations
    summed = HIDDEN * 2 * (2 * LAYERS + 1) * (rows.count * (rows.decodes + rows.prompt_tokens)).sum()
    assert load.by_operation["all_reduce tp"] == pytest.approx(summed)
    assert sum(load.by_operation.values()) == pytest.approx(load.bytes)
    moved = load.by_operation["kv transfer"]
    assert 0 < moved <= apart.service.transfers.bytes.sum() / 2
    assert load.bytes / load.capacity < load.utilisation * apart.metrics["duration"] * 1.0001
    assert load.utilisation * load.capacity < load.peak


def test_who_uses_the_busiest_link(apart: Result) -> None:
    (load,) = apart.links
    names = [apart.classes[user].name for user in load.users]
    assert len(names) == 2 and names[1].startswith("answers")
    (alone,) = served("serving.pools=[]", "+serving.replicas=2", "serving.parallel.tp=4").links
    assert len(alone.users) == 1 and "kv transfer" not in alone.by_operation


def test_requests_of_one_token_move_no_cache() -> None:
    (load,) = served("requests.lengths={prompt: {fixed: 146}, output: {fixed: 1}}").links
    assert load.bytes > 0 and "kv transfer" not in load.by_operation


def test_fast_forward_sends_the_same_bytes(apart: Result) -> None:
    (fast,), (slow,) = apart.links, served(leap=False).links
    assert slow.bytes == pytest.approx(fast.bytes, rel=1e-12)
    assert replace(slow, bytes=0, utilisation=0, peak=0, at_peak=(), by_operation={}) == replace(
        fast, bytes=0, utilisation=0, peak=0, at_peak=(), by_operation={}
    )


def test_experts_in_step_exchange_over_their_own_axis() -> None:
    overrides = [
        "requests.count=40",
        "model=models/mixtral-8x7b",
        "cluster={extends: clusters/dgx-h100, nodes: 2}",
        "serving={replicas: 16, parallel: {ep: 8}}",
    ]
    result = gather(run_serving(load_scenario("scenarios/serving/quickstart.yaml", overrides).spec))
    (load,) = result.links
    assert set(load.by_operation) == {"all_gather ep", "reduce_scatter ep"}
    gathered, scattered = load.by_operation.values()
    assert gathered == pytest.approx(scattered)


def test_links_that_nobody_shares_show_what_they_are_asked_for() -> None:
    """Caches of two pools go down to one leaf: more than it passes, where everybody has links for itself."""
    overrides = ["requests.count=60", "requests.arrivals.poisson=40 /s"]
    loaded = load_scenario("serving/disaggregated-two-generations", overrides)
    alone, shared = (gather(run_serving(loaded.spec, share_links=shared)) for shared in (False, True))  # type: ignore[arg-type]
    assert max(load.peak / load.capacity for load in alone.links) > 1.02
    assert max(load.peak / load.capacity for load in shared.links) == 1.0


def test_caches_between_single_devices_are_planned_once_for_ways_that_are_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each has the bytes of its own plan all the same."""
    network = fabric.build(load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": 40}))
    library = Library(load_spec(ServingStack, "sglang"), network, load_spec(CollectiveProfile, "nccl-h100"))
    random, none = stream(1, "pairs"), np.zeros(0, np.int64)
    pairs = [tuple(random.choice(320, 2, replace=False).tolist()) for _ in range(60)]
    flows = [
        Flow("kv transfer", "send", 0, (pair,), np.array([1e6]), np.ones(1), none, none, library) for pair in pairs
    ]
    expected = [library.plan("send", flow.groups, 2.0**20).carried(np.ones(1)) for flow in flows]
    planned: list[int] = []
    plan = Library.plan

    def counted(self: Library, *given: Any) -> Plan:
        planned.append(1)
        return plan(self, *given)

    monkeypatch.setattr(Library, "plan", counted)
    known = _Carried(network)
    for flow, own in zip(flows, expected, strict=True):
        for link in (*network.route(*flow.groups[0]), 0, network.first_outer):
            assert known.on(link, flow, 2.0**20) == own.at(link)
    assert len(planned) < 10
