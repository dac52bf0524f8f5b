"""Rules of a fleet: bad input is refused with a clear message, and each does what it says."""

from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.results.infeasibility import infeasibility, reason
from simulator.results.result import Result
from simulator.run.serve import serve
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario

BASE = """
version: 1
name: a fleet
cluster: {extends: clusters/dgx-a100, nodes: 1}
model: models/llama-3.1-8b
stack: vllm
serving: {replicas: 2, router: least-outstanding}
requests:
  arrivals: {poisson: 4 /s}
  lengths: {prompt: {fixed: 500}, output: {fixed: 100}}
  count: 200
"""


def ran(folder: Path, *changes: str) -> Result:
    file = folder / "fleet.yaml"
    file.write_text(BASE)
    found = load_scenario(str(file), list(changes)).scenario
    assert isinstance(found, ServingScenario)
    return serve(found)


BAD = {
    "+serving.fleet={failures: {}}": "write `mtbf`, the mean time between failures, or `trace`",
    "+serving.fleet={failures: {mtbf: 0 s}}": "mtbf",
    "+serving.fleet={failures: {links: {names: [NIC 99], mtbf: 1 h}}}": "the cluster has no link `NIC 99`",
    "+serving.fleet={failures: {links: {names: [NIC 1, NIC 1], mtbf: 1 h}}}": "`NIC 1` is listed twice",
    "+serving.fleet={failures: {links: {names: [], mtbf: 1 h}}}": "names",
    "+serving.fleet={failures: {links: {names: [NIC 1]}}}": "mtbf",
    "+serving.kv_cache={tiers: [{name: store, capacity: 1 TB, shared: true, survives: false}]}": "leave `survives` out",
    "+serving.fleet={failures: {mtbf: 1 h, requests: forget}}": "requests",
    "+serving.fleet={failures: {mtbf: 1 h, requests: resume, detection: 1 s}}": "leave `detection` out",
    "+serving.fleet={autoscaling: {max: 4}}": "needs a `target`",
    "+serving.fleet={autoscaling: {max: 4, min: 5, target: 1}}": "`min` 5 is above `max` 4",
    "+serving.fleet={autoscaling: {max: 1, target: 1}}": "2 `replicas` at the start exceed",
    "+serving.fleet={autoscaling: {max: 4, start: 5, target: 1}}": "`start` 5 is above `max` 4",
    "+serving.fleet={autoscaling: {max: 4, rule: schedule}}": "write `rule: schedule` with `schedule: [",
    "+serving.fleet={autoscaling: {max: 4, rule: guess, target: 1}}": "unknown scaling rule `guess`",
    "+serving.fleet={autoscaling: {max: 4, rule: utilisation, target: 70}}": "write 0.7 for 70 %",
    "+serving.fleet={autoscaling: {max: 100, target: 1}}": "devices",
    "+serving.fleet={admission: {}}": "write `queue`, `outstanding` or `gateway`",
    "+serving.fleet={before: [{name: a}, {name: a}]}": "stations have different names",
    "+serving.fleet={rolling_update: {}}": "at",
    "+requests.tenants=[{name: a, share: 0.5}]": "sums to 1, not to 0.5",
    "+requests.tenants=[{name: a, share: 0.5}, {name: a, share: 0.5}]": "different names",
    "+requests.tenants=[{name: a, share: 1, limit: {rate: 1 /s, burst: 0}}]": "burst",
    "serving.router=sticky": "unknown router `sticky`",
}


@pytest.mark.parametrize("change", BAD)
def test_bad_input_is_refused(change: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        ran(tmp_path, change)
    assert BAD[change] in str(refused.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("10,replica 9,20", "there is no `replica 9` that could fail"),
        ("10,node 3,20", "there is no `node 3` that could fail"),
        ("10,link NIC 99,20", "the cluster has no link `NIC 99`"),
        ("10,replica 1,5", "`until` 5 is not after `time` 10"),
        ("soon,replica 1,5", "`soon` is no time"),
        ("-1,replica 1,5", "is no time of a run"),
        ("10,replica 1", "has 2 cells where the header has 3"),
    ],
)
def test_failures_of_what_does_not_exist_are_refused_with_their_line(row: str, message: str, tmp_path: Path) -> None:
    trace = tmp_path / "faults.csv"
    trace.write_text(f"time,what,until\n1,replica 1,2\n{row}\n")
    with pytest.raises(InputError) as refused:
        ran(tmp_path, f"+serving.fleet={{failures: {{trace: {trace}}}}}")
    assert message in str(refused.value)
    assert f"{trace}:3" in str(refused.value)


def test_a_fleet_that_never_starts_is_infeasible(tmp_path: Path) -> None:
    rule = "{rule: schedule, max: 2, min: 0, start: 0, schedule: [{at: 1 s, replicas: 0}]}"
    result = ran(tmp_path, f"+serving.fleet={{autoscaling: {rule}}}")
    assert not result.feasible
    assert infeasibility(result) == "no replica starts"
    assert reason(result).startswith("no replica ever starts: 200 requests came")


def test_a_trace_takes_down_a_replica_and_a_node(tmp_path: Path) -> None:
    trace = tmp_path / "faults.csv"
    trace.write_text("time,what,until\n10 s,replica 2,20 s\n30,node 0,35\n")
    result = ran(tmp_path, f"+serving.fleet={{failures: {{trace: {trace}, requests: migrate}}}}")
    assert result.service is not None and result.service.fleet is not None
    record = result.service.fleet
    assert record.failed.tolist() == [1, 0, 1]
    assert record.failed_at.tolist() == [10 * 10**12, 30 * 10**12, 30 * 10**12]
    assert result.metrics["completed"] == 200 and result.metrics["failed"] == 0
    assert result.metrics["retries"] == record.lost.sum() > 0


POOLS = "+serving.pools=[{name: p, role: prefill, replicas: 2}, {name: d, role: decode, replicas: 2}]"


@pytest.mark.parametrize("kind", [pytest.param("retry", marks=pytest.mark.slow), "migrate"])
def test_replicas_of_pools_fail(kind: str, tmp_path: Path) -> None:
    trace = tmp_path / "faults.csv"
    trace.write_text("time,what,until\n5 s,d 2,10 s\n7,p 1,8\n12,node 0,14\n")
    failing = f"+serving.fleet={{failures: {{trace: {trace}, requests: {kind}}}}}"
    few = "serving.replicas=1", "requests.count=60"
    result = ran(tmp_path, *few, POOLS, failing)
    assert result.service is not None and result.service.fleet is not None
    record = result.service.fleet
    assert sorted(record.failed.tolist()) == [0, 0, 1, 2, 3, 3]
    assert result.metrics["completed"] == 60 and result.metrics["retries"] > 0


@pytest.mark.slow
def test_replicas_with_tiers_and_those_that_share_experts_fail(tmp_path: Path) -> None:
    tiers = "+serving.kv_cache={prefix_caching: block, tiers: [{name: host, capacity: 50 GB}]}"
    failing = "+serving.fleet={failures: {mtbf: 4 s, repair: {fixed: 1}}}"
    turns = "+requests.sessions={turns: {fixed: 4}, think: {fixed: 1}}"
    found = ran(tmp_path, tiers, turns, failing, "requests.count=60")
    assert found.metrics["replica_failures"] > 0 and found.metrics["completed"] == 60
    shared = ("model=models/qwen3-30b-a3b", "serving.replicas=4", "+serving.parallel={ep: 4}")
    found = ran(tmp_path, *shared, failing.replace("4 s", "3 s"), "requests.count=60")
    assert found.metrics["replica_failures"] > 0 and found.metrics["completed"] + found.metrics["failed"] == 60


def test_links_fail_and_caches_go_round(tmp_path: Path) -> None:
    """Two nodes with a replica on each; the card of the sending device is down: caches wait, or take another card."""
    pools = "+serving.pools=[{name: p, role: prefill, parallel: {tp: 8}}, {name: d, role: decode, parallel: {tp: 8}}]"
    trace = tmp_path / "faults.csv"
    trace.write_text("time,what,until\n5 s,link NIC 3,15 s\n")
    given = ("serving.replicas=1", "cluster.nodes=2", "requests.count=60", pools)
    found = {
        traffic: ran(tmp_path, *given, f"+serving.fleet={{failures: {{trace: {trace}, traffic: {traffic}}}}}")
        for traffic in ("wait", "reroute")
    }
    longest = {}
    for traffic, result in found.items():
        assert result.service is not None and result.service.transfers is not None
        moved = result.service.transfers
        longest[traffic] = float((moved.end - moved.start).max()) / 1e12
        assert result.metrics["link_failures"] == 1 and result.metrics["completed"] == 60
        assert result.service.fleet is not None and result.service.fleet.outages[0].link == "NIC 3"
    assert longest["wait"] > 8 and longest["reroute"] < 0.1


def test_start_up_takes_its_phases(tmp_path: Path) -> None:
    """60 s for a machine, 16 GB at 2 GB/s, 10 s to warm up."""
    start = "{provisioning: 60 s, storage: 2 GB/s, warm_up: 10 s, at_start: cold}"
    result = ran(tmp_path, f"+serving.fleet={{start_up: {start}}}")
    assert result.service is not None and result.service.fleet is not None
    record = result.service.fleet
    mine = record.replica == 0
    lasts = ((record.end - record.start)[mine] / 1e12).tolist()
    assert record.phase[mine].tolist() == [1, 2, 3, 4]
    weights = result.service.replicas[0].weights
    assert lasts[:3] == pytest.approx([60, weights / 2e9, 10])
    assert int(result.service.requests.scheduled.min()) / 1e12 == pytest.approx(70 + weights / 2e9)


def test_storage_is_shared_by_those_that_read_at_one_time(tmp_path: Path) -> None:
    ends = []
    for rate in ("storage: 2 GB/s", "storage: 2 GB/s, storage_together: 2 GB/s"):
        result = ran(tmp_path, f"+serving.fleet={{start_up: {{{rate}, at_start: cold}}}}")
        assert result.service is not None and result.service.fleet is not None
        record = result.service.fleet
        ends.append(record.end[record.phase == 2].max() / 1e12)
    assert ends[1] == pytest.approx(2 * ends[0])


def test_tenants_are_told_apart(tmp_path: Path) -> None:
    from simulator.results.serving.service import by_tenant

    tenants = "[{name: gold, share: 0.25, slo: {ttft: 1 s}}, {name: free, share: 0.75, limit: {rate: 1 /s, burst: 2}}]"
    result = ran(tmp_path, f"+requests.tenants={tenants}")
    assert result.service is not None
    found = by_tenant(result.service)
    assert found["gold"]["requests"] + found["free"]["requests"] == 200
    assert found["gold"]["rejected"] == 0 < found["free"]["rejected"]
    assert found["gold"]["slo_attainment"] == 1 and "slo_attainment" not in found["free"]
    assert found["free"]["completed"] == pytest.approx(1.0 * 50 + 2, rel=0.2)  # 200 requests at 4/s: 50 s


def test_an_update_replaces_all_and_loses_nobody(tmp_path: Path) -> None:
    start = "start_up: {storage: 4 GB/s, warm_up: 1 s}"
    result = ran(tmp_path, f"+serving.fleet={{rolling_update: {{at: 10 s}}, {start}}}")
    assert result.metrics["completed"] == 200
    assert result.metrics["min_replicas"] == 1
    assert result.service is not None and result.service.fleet is not None
    record = result.service.fleet
    assert sorted(record.replica[record.phase == 5].tolist()) == [0, 1]


def test_a_replica_that_goes_with_its_last_token_worked_once(tmp_path: Path) -> None:
    """Its memory is emptied while its last iteration ends, which had been counted as lost besides."""
    scaled = (
        "+serving.fleet={autoscaling: {rule: queue, target: 1, min: 0, max: 2, start: 0, check: 100 ms, cooldown: 0 s}}"
    )
    found = ran(tmp_path, scaled, "serving.replicas=1", "requests.count=3", "requests.arrivals={constant: 0.5 /s}")
    assert found.service is not None
    assert found.metrics["completed"] == 3
    assert found.metrics["utilisation"] <= 1.0
    assert not any("lost" in part for replica in found.service.replicas for part in replica.parts)


def test_work_for_requests_that_fail_lies_within_the_run(tmp_path: Path) -> None:
    """The run had ended with the last token of a request that finished."""
    failing = "+serving.fleet={failures: {mtbf: 2 s, repair: {fixed: 1}, requests: fail}}"
    found = ran(tmp_path, failing, "serving.replicas=1", "requests.count=40", "requests.arrivals={at_once: true}")
    assert found.metrics["failed"] > 0
    assert found.metrics["utilisation"] <= 1.0
