"""Replicas that share experts run in step."""

import numpy as np
import pytest

import simulator.run  # noqa: F401
from simulator.results.result import Result
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario

SHARED = (
    "cluster={extends: clusters/dgx-h100, nodes: 1}",
    "model=models/qwen3-30b-a3b",
    "+serving.replicas=2",
    "serving.batching.policy=vllm-v1",
    "requests.count=40",
    "requests.arrivals.poisson=20 /s",
    "requests.lengths={prompt: {uniform: [10, 900]}, output: {uniform: [1, 60]}}",
)


def run(*changes: str) -> Result:
    return simulate(load_scenario("serving/quickstart", [*SHARED, *changes]).scenario)


def test_iterations_of_the_group_begin_and_end_together() -> None:
    service = run("+serving.parallel={ep: 2}").service
    assert service is not None
    first, second = (replica.iterations for replica in service.replicas)
    assert (first.count == 1).all() and (second.count == 1).all()
    begins = np.concatenate([first.start, second.start])
    ends = np.concatenate([first.start + first.first, second.start + second.first])
    for begin, end in zip(begins, ends, strict=True):
        inside = (begins > begin) & (begins < end)
        assert not inside.any()
    together = np.intersect1d(first.start, second.start)
    assert len(together) > 10
    for moment in together:
        assert first.first[first.start == moment] == second.first[second.start == moment]


def test_all_requests_are_answered_and_waiting_for_peers_is_told() -> None:
    result = run("+serving.parallel={ep: 2}")
    assert result.service is not None
    assert (result.service.requests.status == 0).all()
    assert any(replica.parts.get("idle for peers", 0.0) > 0 for replica in result.service.replicas)
    for replica in result.service.replicas:
        assert sum(replica.parts.values()) == pytest.approx(replica.busy)


def test_leaping_changes_nothing() -> None:
    leaping, single = run("+serving.parallel={ep: 2}"), run("+serving.parallel={ep: 2}", "leap=false")
    assert leaping.service is not None and single.service is not None
    assert (leaping.service.requests.finish == single.service.requests.finish).all()


def test_stages_beside_shared_experts_are_not_held_in_step_and_this_is_told() -> None:
    assert any("not in step" in text for text in run("+serving.parallel={ep: 2, pp: 2}").warnings)
    assert not any("in step" in text for text in run("+serving.parallel={ep: 2}").warnings)
