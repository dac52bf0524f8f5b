"""Fleets whatever happens to them: no request is lost, and leaping, the seed and others' failures change nothing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.random import stream
from simulator.results.serving.service import FAILED, FINISHED, REJECTED
from simulator.serving.fleet.breakdowns import Planned
from simulator.specs.fleet import Fleet
from tests.effort import simulations
from tests.fleets import ran
from tests.replicas import Setting, System, asked, check

MS = 10**9


def rows(count: int, gap: float, seed: int) -> list[list[int]]:
    random = stream(seed, "fleet rows")
    arrival = np.cumsum(random.exponential(gap, count)).astype(np.int64)
    return np.stack([arrival, random.integers(1, 60, count), random.integers(1, 40, count)], axis=1).tolist()


def outcome(done: System) -> tuple[Any, ...]:
    operations = done.fleet.operations
    assert operations is not None
    ledger = done.ledger
    columns = ledger.scheduled, ledger.first_token, ledger.finish, ledger.status, ledger.replica, ledger.done
    log = operations.roster.phases(operations.end)
    return *columns, operations.tried, operations.reasons, [row for row in log if row[2] <= operations.end]


RULES: dict[str, dict[str, Any]] = {
    "retry": {"failures": {"mtbf": "500 ns", "repair": {"exponential": 1e-7}}},
    "migrate": {"failures": {"mtbf": "500 ns", "repair": {"exponential": 1e-7}, "requests": "migrate"}},
    "fail": {"failures": {"mtbf": "500 ns", "repair": {"fixed": 1e-7}, "requests": "fail"}},
    "resume": {"failures": {"mtbf": "500 ns", "repair": {"fixed": 1e-7}, "requests": "resume"}},
    "unseen": {"failures": {"mtbf": "500 ns", "repair": {"fixed": 1e-7}, "detection": "300 ns"}},
    "scaled": {
        "autoscaling": {"target": 3, "min": 0, "max": 4, "check": "200 ns", "cooldown": "500 ns"},
        "start_up": {"provisioning": "100 ns", "storage": "1 PB/s", "warm_up": "50 ns"},
    },
    "all": {
        "autoscaling": {"target": 2, "min": 0, "max": 4, "check": "200 ns", "cooldown": "300 ns"},
        "start_up": {"storage_together": "40 PB/s", "warm_up": "50 ns", "at_start": "cold"},
        "failures": {"mtbf": "150 ns", "repair": {"exponential": 1e-7}, "requests": "migrate", "detection": "40 ns"},
        "rolling_update": {"at": "1 us", "at_once": 2},
        "admission": {"queue": 20, "outstanding": 60, "gateway": 30},
        "before": [{"name": "tokeniser", "servers": 2, "time": {"exponential": 2e-9}}],
        "after": [{"name": "detokeniser", "servers": 1, "per_token": "20 ps"}],
    },
}


@pytest.mark.parametrize("policy", ["vllm-v1", "orca", "guaranteed"])
@pytest.mark.parametrize("name", RULES)
def test_no_request_is_lost_and_leaping_changes_nothing(name: str, policy: str) -> None:
    rules = Fleet.model_validate(RULES[name])
    setting = Setting(policy, most=8, blocks=200, replicas=4, router="least-outstanding", budget=64)
    asks = asked(rows(600, 4000.0, 7))
    leaping, single = (ran(asks, setting, rules, leap) for leap in (True, False))
    assert outcome(leaping) == outcome(single)
    assert outcome(ran(asks, setting, rules, True)) == outcome(leaping)
    done = leaping.ledger
    ended = [done.status.count(status) for status in (FINISHED, REJECTED, FAILED)]
    assert sum(ended) == 600 and ended[0] > 50
    assert all(done.done[i] == done.output[i] for i in range(600) if done.status[i] == FINISHED)
    if name in ("resume", "scaled"):
        check(leaping)
    operations = leaping.fleet.operations
    assert operations is not None
    if operations.breakdowns is not None:
        assert len(operations.breakdowns.log) > 5


@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["retry", "migrate", "fail"]),
    policy=st.sampled_from(["vllm-v1", "orca", "guaranteed", "static"]),
    blocks=st.integers(30, 300),
    swap=st.booleans(),
    stages=st.integers(1, 2),
    times=st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(1, 400_000), st.integers(0, 2)), max_size=12),
)
@simulations(60)
def test_memory_is_whole_after_any_failures(
    seed: int, kind: str, policy: str, blocks: int, swap: bool, stages: int, times: list[tuple[int, int, int]]
) -> None:
    planned = [Planned(at, f"replica {who + 1}", at + lasts) for at, lasts, who in times]
    rules = Fleet.model_validate({"failures": {"trace": "given", "requests": kind, "retries": 2}})
    most = Setting(policy, most=6, blocks=blocks, replicas=3, swap=1000 if swap else 0, stages=stages)
    asks = asked(rows(150, 8000.0, seed))
    done = ran(asks, most, rules, planned=planned)
    for replica in done.replicas:
        assert replica.blocks.free == blocks and not replica.blocks.held
        assert replica.queue.outstanding == replica.queue.pending == replica.queue.swapped_tokens == 0
        assert not any(batch.decodes.n or batch.partial or batch.decodes.context for batch in replica.batches)
    status = done.ledger.status
    assert all(one in (FINISHED, REJECTED, FAILED) for one in status)
    assert kind == "fail" or status.count(FAILED) < 100


def test_failures_of_a_replica_do_not_depend_on_the_others() -> None:
    rules = Fleet.model_validate(RULES["retry"])
    logs = []
    for replicas in (2, 4):
        done = ran(asked(rows(800, 6000.0, 3)), Setting(replicas=replicas, most=8), rules)
        operations = done.fleet.operations
        assert operations is not None and operations.breakdowns is not None
        logs.append([start for member, start, *_ in operations.breakdowns.log if member == 0][:5])
    assert logs[0] and logs[0] == logs[1]


def test_a_fleet_goes_to_nothing_and_comes_back() -> None:
    """Two bursts far apart: no replica in between, and the first request of the second waits for a start."""
    burst = [[i * 1000, 10, 5] for i in range(50)]
    later = [[50 * MS + i * 1000, 10, 5] for i in range(50)]
    given = {
        "autoscaling": {"target": 4, "min": 0, "max": 3, "check": "1 ms", "cooldown": "2 ms"},
        "start_up": {"provisioning": "3 ms", "warm_up": "1 ms", "storage": "1 TB/s"},
    }
    done = ran(
        asked(burst + later), Setting(replicas=3, most=4, router="least-outstanding"), Fleet.model_validate(given)
    )
    operations = done.fleet.operations
    assert operations is not None
    assert done.ledger.status.count(FINISHED) == 100
    away = [(start, end) for _, phase, start, end in operations.roster.phases(operations.end) if phase == 0]
    assert sum(start < 20 * MS and end >= 50 * MS for start, end in away) == 3
    # 3 ms for a machine, 1 GB at 1 TB/s, 1 ms to warm up
    assert min(done.ledger.scheduled[50:]) == 50 * MS + 5 * MS
