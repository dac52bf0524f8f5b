"""Stays of nothing but decodes in step are the same whether they are begun and ended in one go or not."""

import pytest

import simulator.run  # noqa: F401
from simulator.run.serve import ServingRun, run_serving
from simulator.serving.replica import in_step
from simulator.serving.replica.in_step import decodes_in_step
from simulator.specs import load_scenario
from tests.short_ways import check_asked_for, check_both_ways

STAYS = (
    "cluster={extends: clusters/dgx-h100, nodes: 1}",
    "model=models/qwen3-30b-a3b",
    "serving.batching.policy=vllm-v1",
    "requests.count=40",
    "requests.lengths={prompt: {uniform: [10, 900]}, output: {uniform: [1, 300]}}",
)
TOGETHER = "serving.parallel={dp: 4, ep: 4}"
APART = (
    "serving.parallel={}",
    "+serving.pools=[{name: prefill, role: prefill, parallel: {dp: 4, ep: 4}}, "
    "{name: decode, role: decode, parallel: {dp: 4, ep: 4}}]",
)
DRAFTS = "+serving.speculation={kind: eagle, draft_length: 3, acceptance: 0.7}"
DISPATCHED = "+serving.experts={dispatcher: deepep-low-latency}"
BESIDE = {"counts", "encoder", "host", "intake"}
"""What may be there: counters of routers, who launches on several stages, images of prompts, and requests at the door,
which are looked for."""


def served(changes: tuple[str, ...]) -> ServingRun:
    """A run of a small service."""
    return run_serving(load_scenario("serving/quickstart", [*STAYS, *changes]).scenario)


@pytest.mark.parametrize(
    "changes",
    [
        (TOGETHER, "requests.arrivals.poisson=40 /s"),
        (TOGETHER, "requests.arrivals.poisson=40 /s", DRAFTS, "stack.schedules_ahead=true"),
        ("serving.parallel={dp: 2, ep: 2}", "requests.arrivals.poisson=40 /s", "+serving.kv_cache={blocks: 300}"),
        (*APART, "requests.arrivals.poisson=200 /s", DRAFTS),
        (*APART, "requests.arrivals={closed_loop: {clients: 12}}", DISPATCHED),
    ],
)
def test_the_short_way_is_the_long_way(changes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    check_both_ways(in_step, "decodes_in_step", lambda: served(changes), 9, monkeypatch)


def test_whatever_else_a_replica_has_is_asked_for() -> None:
    """A new attribute of a replica that is None where it is not used must be asked for, or be named here."""
    check_asked_for(
        served((TOGETHER, "requests.arrivals.poisson=40 /s", "requests.count=4")).replicas[0], decodes_in_step, BESIDE
    )
