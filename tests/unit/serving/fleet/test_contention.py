"""Who gets into whose way: found from where replicas lie and what they send, and nobody else is touched."""

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from simulator.engine.tape import Use
from simulator.engine.wires import Wires
from simulator.results.serving.service import FINISHED
from simulator.run import serve
from simulator.run.serve import ServingRun, run_serving
from simulator.run.service import gather
from simulator.serving.fleet import contention
from simulator.serving.replica.replica import Replica
from simulator.serving.replica.wires import ReplicaWires
from simulator.specs import load_scenario

FILE = "scenarios/serving/disaggregated-70b-h100.yaml"
ALIKE = ("serving.pools=[]", "+serving.replicas=2")


def ran(*overrides: str, **options: Any) -> ServingRun:
    return run_serving(load_scenario(FILE, ["requests.count=60", *overrides]).spec, **options)


def pools(prefill: str, decode: str) -> str:
    return f"serving.pools=[{{name: p, role: prefill, {prefill}}}, {{name: d, role: decode, {decode}}}]"


def wires(replica: Replica) -> ReplicaWires:
    assert replica.wires is not None
    return replica.wires


def test_caches_inside_a_node_meet_the_all_reduces_of_both_ends() -> None:
    run = ran()
    first, second, answers = run.replicas
    assert run.kv_transfer is not None
    ways = run.kv_transfer.wires
    assert set(ways) == {(0, 2), (1, 2)}
    assert ways[0, 2].neighbours == [wires(first), wires(answers)]
    assert ways[1, 2].neighbours == [wires(second), wires(answers)]
    assert not any(wires(replica).guests for replica in run.replicas)  # all have gone
    assert sum(replica.record.stalled for replica in run.replicas) > 0
    assert not any(user.active for user in (*ways.values(), *(wires(replica) for replica in run.replicas)))


@pytest.mark.parametrize(
    "where",
    [
        (*ALIKE, "+serving.parallel={tp: 4}"),
        (*ALIKE, "+serving.parallel={tp: 16}", "cluster.nodes=4"),
        ("cluster.nodes=2", pools("parallel: {tp: 8}", "parallel: {tp: 8}")),
        (pools("replicas: 2", "replicas: 2, kv_cache: {}"), "model=models/llama-3.1-8b"),
    ],
    ids=["side by side in a node", "on nodes of their own", "caches between nodes", "no groups"],
)
def test_nobody_meets_where_no_link_is_used_by_two(where: tuple[str, ...]) -> None:
    run = ran(*where)
    assert [replica.wires for replica in run.replicas] == [None] * len(run.replicas)


@pytest.mark.parametrize("oversubscription", [1, 4])
def test_groups_meet_on_the_way_up_from_a_leaf_that_is_oversubscribed(oversubscription: int) -> None:
    """Nodes 1 and 2, and 3 and 4, on leaves of two: the one leaf that both have in common carries what both send."""
    levels = f"[{{name: leaf, nodes: 2, oversubscription: {oversubscription}}}, {{name: spine, nodes: 8}}]"
    pools = "[{name: a, parallel: {tp: 8}}, {name: b, replicas: 2, parallel: {tp: 16}}]"
    scenario = (f"serving.pools={pools}", "cluster.nodes=8", f"cluster.network={{kind: tree, levels: {levels}}}")
    run = ran(*scenario, "requests.arrivals={poisson: 40 /s}")
    alone, one, other = run.replicas
    assert alone.wires is None
    if oversubscription == 1:  # both together ask for what there is
        assert one.wires is None and other.wires is None
    else:
        assert wires(one).neighbours == [wires(other)]
        assert one.record.stalled > 0 and other.record.stalled > 0
        slow = ran(*scenario, "requests.arrivals={poisson: 40 /s}", leap=False)
        assert slow.ledger == run.ledger


def test_results_are_those_of_before_where_no_link_is_asked_for_more_than_it_has() -> None:
    """Everybody on the fabric, but one after the other: the same ticks as in closed form."""
    scenario = ("requests.count=1", "requests.arrivals={poisson: 0.01 /s}", "serving.transfer=end")
    shared = ran(*scenario)
    closed = ran(*scenario, share_links=False)
    assert shared.replicas[0].wires is not None and closed.replicas[0].wires is None
    assert shared.ledger == closed.ledger


@pytest.mark.parametrize("transfer", ["layer", "end"])
def test_fast_forward_changes_nothing_beside_moved_caches(transfer: str) -> None:
    fast, slow = (ran(f"serving.transfer={transfer}", leap=leap) for leap in (True, False))
    assert fast.ledger == slow.ledger
    assert fast.kv_transfer is not None and slow.kv_transfer is not None
    assert fast.kv_transfer.rows == slow.kv_transfer.rows
    assert [one.record.stalled for one in fast.replicas] == [one.record.stalled for one in slow.replicas]


def test_sharing_stalls_and_nothing_is_lost() -> None:
    shared = gather(ran("requests.arrivals={poisson: 12 /s}"))
    alone = gather(ran("requests.arrivals={poisson: 12 /s}", share_links=False))
    assert shared.service is not None and alone.service is not None
    assert sum(one.parts.get("stall", 0.0) for one in shared.service.replicas) > 0
    assert not any("stall" in one.parts for one in alone.service.replicas)
    (load,), (before,) = shared.links, alone.links
    assert load.by_operation["kv transfer"] == pytest.approx(before.by_operation["kv transfer"])
    for one in shared.service.replicas:
        assert sum(one.parts.values()) == pytest.approx(one.busy)


@pytest.mark.parametrize("transfer", ["layer", "end"])
def test_exchanges_of_experts_meet_moved_caches(transfer: str) -> None:
    """Prefill and decode replicas in step, four and four, in one node: exchanges wait while a cache passes."""
    where = pools("replicas: 4, parallel: {ep: 4}", "replicas: 4, parallel: {ep: 4}")
    run = ran(where, "model=models/qwen3-30b-a3b", "requests.arrivals={poisson: 60 /s}", f"serving.transfer={transfer}")
    assert run.kv_transfer is not None and len(run.kv_transfer.wires) == 16
    groups = {id(replica.group): replica.group for replica in run.replicas}
    assert [group is not None and group.wires is not None for group in groups.values()] == [True, True]
    assert [replica.wires for replica in run.replicas] == [None] * 8
    assert all(replica.record.stalled > 0 for replica in run.replicas if replica.role == "decode")
    assert run.ledger.status == [FINISHED] * len(run.ledger)


STAGED = ("cluster.nodes=4", pools("parallel: {tp: 8, pp: 2}", "parallel: {tp: 8}"))


@pytest.mark.parametrize("transfer", ["layer", "end"])
@pytest.mark.parametrize("apart", [True, False], ids=["by the cards of nodes", "in one node"])
def test_batches_of_several_stages_meet_moved_caches(apart: bool, transfer: str) -> None:
    """Between nodes the way from stage to stage leaves by the cards that caches leave by; in a node collectives meet
    them too."""
    where = STAGED if apart else ("cluster.nodes=1", pools("parallel: {tp: 2, pp: 2}", "parallel: {tp: 4}"))
    given = (*where, "requests.arrivals={poisson: 12 /s}", f"serving.transfer={transfer}")
    run, alone = ran(*given), ran(*given, share_links=False)
    prompts, before = run.replicas[0], alone.replicas[0]
    assert prompts.wires is None and run.kv_transfer is not None
    assert prompts.stages.wires in run.kv_transfer.wires[0, 1].neighbours
    assert run.ledger.status == [FINISHED] * len(run.ledger)
    assert sum(run.ledger.first_token) > sum(alone.ledger.first_token)
    assert prompts.record.busy == pytest.approx(before.record.busy + prompts.record.stalled, rel=0.05)
    assert (prompts.record.stalled > 0) != apart


@pytest.mark.parametrize("role", ["prefill", "both"])
@pytest.mark.parametrize("instances", [1, 3])
def test_passing_the_stages_as_events_takes_what_it_takes_alone(role: str, instances: int) -> None:
    """Everybody on the fabric and nobody else there: the same ticks as in closed form."""
    where = STAGED if role == "prefill" else ("cluster.nodes=4", "serving.pools=[{name: a, parallel: {tp: 8, pp: 2}}]")
    batching = f"+serving.batching={{instances: {instances}}}"
    given = (*where, batching, "requests.count=4", "requests.arrivals={poisson: 0.01 /s}", "serving.transfer=end")
    shared, closed = forced(*given), ran(*given, share_links=False)
    assert shared.replicas[0].stages.wires is not None and closed.replicas[0].stages.wires is None
    assert np.abs(np.array(shared.ledger.finish) - np.array(closed.ledger.finish)).max() <= 4
    busy = (*given[:-2], "requests.arrivals={poisson: 30 /s}") if role == "both" else given
    shared, closed = forced(*busy), ran(*busy, share_links=False)
    assert np.abs(np.array(shared.ledger.finish) - np.array(closed.ledger.finish)).max() <= 4
    assert shared.replicas[0].record.busy == pytest.approx(closed.replicas[0].record.busy, abs=10)


def forced(*changes: str) -> ServingRun:
    """Everybody runs on the fabric, whoever can be met."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serve, "meet", lambda users, capacity: [user.met.update({0: None}) for user in users])
        patch.setattr(serve, "_alone", lambda _: False)
        return ran(*changes)


def test_an_idle_way_is_nobody() -> None:
    assert not Wires().contended()


@pytest.mark.parametrize(
    "where",
    [
        (pools("replicas: 4, parallel: {ep: 4}", "replicas: 4, parallel: {ep: 4}"), "model=models/qwen3-30b-a3b"),
        (pools("replicas: 2, parallel: {tp: 2}", "replicas: 1, parallel: {tp: 4}"),),
    ],
    ids=["in step", "each by itself"],
)
def test_links_on_which_nobody_is_met_change_nothing(where: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is recorded, replicas are on fewer links, and every time stays what it is."""
    given, kept = [], []

    def counted(uses: tuple[Use, ...], met: Collection[int], on: Any = contention._on) -> tuple[Use, ...]:
        found: tuple[Use, ...] = on(uses, met)
        given.append(len(uses))
        kept.append(len(found))
        return found

    monkeypatch.setattr(contention, "_on", counted)
    rate = "requests.arrivals={poisson: 40 /s}"
    fewer = ran(*where, rate, "requests.count=40")
    assert 0 < sum(kept) < sum(given)
    monkeypatch.setattr(contention, "_on", lambda uses, met: uses)
    all_of_them = ran(*where, rate, "requests.count=40")
    assert fewer.ledger == all_of_them.ledger
    for one, other in zip(fewer.replicas, all_of_them.replicas, strict=True):
        assert one.record.log == other.record.log and one.record.stalled == other.record.stalled
    assert fewer.events == all_of_them.events
