"""Replicas that share experts run in step."""

import numpy as np
import pytest

import simulator.run  # noqa: F401
from simulator.results.result import Result
from simulator.results.serving.request_time import request_time
from simulator.run.dispatch import simulate
from simulator.run.serve import run_serving
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario

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


def test_groups_in_step_are_not_fast_forwarded() -> None:
    """Every row of their iterations is one iteration, asked for or not."""
    forwarded, single = run("+serving.parallel={ep: 2}"), run("+serving.parallel={ep: 2}", "leap=false")
    assert forwarded.service is not None and single.service is not None
    assert all((replica.iterations.count == 1).all() for replica in forwarded.service.replicas)
    assert (forwarded.service.requests.finish == single.service.requests.finish).all()


DRAFTS = "+serving.speculation={kind: n-gram, draft_length: 2, acceptance: 0.6}"
CLOSED = "requests.arrivals={closed_loop: {clients: 12}}"


@pytest.mark.parametrize("layout", ["{ep: 2}", "{tp: 1}"])
@pytest.mark.parametrize("more", [(), (DRAFTS,), (DRAFTS, CLOSED), (DRAFTS, "+serving.kv_cache={blocks: 150}")])
def test_a_silent_run_tells_requests_the_same_times(layout: str, more: tuple[str, ...]) -> None:
    """Where tokens are drafted too."""
    scenario = load_scenario("serving/quickstart", [*SHARED, f"+serving.parallel={layout}", *more]).scenario
    assert isinstance(scenario, ServingScenario)
    loud, silent = run_serving(scenario), run_serving(scenario, silent=True)
    assert silent.ledger == loud.ledger
    assert not any(replica.record.log for replica in silent.replicas)
    assert all(batch.decodes.short_looks for replica in silent.replicas for batch in replica.batches)
    assert all(replica.record.log for replica in loud.replicas)


def test_stages_beside_shared_experts_are_not_held_in_step_and_this_is_told() -> None:
    assert any("not in step" in text for text in run("+serving.parallel={ep: 2, pp: 2}").warnings)
    assert not any("in step" in text for text in run("+serving.parallel={ep: 2}").warnings)


QWEN = (
    "cluster={extends: clusters/dgx-h200, nodes: 2}",
    "model=models/qwen3-235b-a22b",
    "+serving.precision={weights: fp8, activations: fp8}",
    "serving.batching={policy: vllm-v1, token_budget: 8192, max_sequences: 64}",
)


def first_token(ep: int, prompts: int, stack: str = "tensorrt-llm") -> float:
    """Milliseconds to the first token of prompts of 8,000 tokens on replicas that share experts."""
    lengths = "{prompt: {fixed: 8000}, output: {fixed: 2}}"
    asked = f"requests={{count: {prompts}, arrivals: {{at_once: true}}, lengths: {lengths}}}"
    changes = (*QWEN, f"+serving.replicas={ep}", f"+serving.parallel={{ep: {ep}}}", f"stack={stack}", asked)
    return simulate(load_scenario("serving/quickstart", list(changes)).scenario).metrics["mean_ttft_ms"]


def test_one_prompt_alone_is_not_priced_as_one_on_each_replica() -> None:
    alone, all_busy = first_token(8, 1), first_token(8, 8)
    assert alone < 0.5 * all_busy
    assert first_token(16, 1) < alone  # more devices hold the experts of the same rows


def test_engines_that_pad_price_one_prompt_as_one_on_each_replica() -> None:
    """vLLM pads every batch of an iteration, dummy ones too; SGLang only those that replay a captured graph."""
    assert first_token(8, 1, "vllm") == pytest.approx(first_token(8, 8, "vllm"), rel=0.01)
    assert first_token(8, 1, "sglang") < 0.5 * first_token(8, 8, "sglang")


def test_requests_of_a_replica_without_prompts_wait_for_its_peers() -> None:
    """What a long prompt elsewhere takes beside its experts is waiting, in the parts of a replica and of a request."""
    changes = (
        "requests.count=2",
        "requests.arrivals={at_once: true}",
        "requests.lengths={prompt: {uniform: [16, 8000]}, output: {fixed: 16}}",
        "+serving.parallel={ep: 2}",
    )
    result = run(*changes)
    assert result.service is not None
    parts = request_time(result.service)
    waited = sum(replica.parts.get("idle for peers", 0.0) for replica in result.service.replicas)
    rows = [replica.iterations for replica in result.service.replicas]
    assert sum(int(one.waited.sum()) for one in rows) == pytest.approx(waited * 1e12)
    assert 0 < parts["peers"].sum() <= waited * 1e12 * (1 + 1e-9)
    whole = sum(values.sum() for values in parts.values())
    requests = result.service.requests
    assert whole == pytest.approx((requests.finish - requests.arrival).sum())


STAYS = (
    "cluster={extends: clusters/dgx-h100, nodes: 1}",
    "model=models/qwen3-30b-a3b",
    "serving.batching.policy=vllm-v1",
    "requests.count=60",
)
DRAFTS = "+serving.speculation={kind: n-gram, draft_length: 3, acceptance: 0.7}"
APART = (
    "serving.parallel={}",
    "+serving.pools=[{name: prefill, role: prefill, parallel: {dp: 4, ep: 4}}, "
    "{name: decode, role: decode, parallel: {dp: 4, ep: 4}}]",
)


@pytest.mark.parametrize(
    "changes",
    [
        ("serving.parallel={dp: 4, ep: 4}", "requests.arrivals.poisson=3 /s"),
        ("serving.parallel={dp: 4, ep: 4}", "requests.arrivals.poisson=60 /s", "serving.router=shortest-queue"),
        ("serving.parallel={dp: 8, ep: 8}", "requests.arrivals={at_once: true}"),
        ("serving.parallel={dp: 2, ep: 2}", "requests.arrivals.poisson=40 /s", "+serving.kv_cache={blocks: 300}"),
        (
            "serving.parallel={dp: 2, ep: 2}",
            "requests.arrivals.poisson=40 /s",
            "+serving.kv_cache={blocks: 300, preemption: swap}",
        ),
        ("serving.parallel={dp: 4, ep: 4}", "requests.arrivals.poisson=30 /s", "stack.pads_peers=always"),
        ("serving.parallel={dp: 4, ep: 4}", "requests.arrivals.poisson=30 /s", DRAFTS),
        (*APART, "requests.arrivals.poisson=20 /s"),
        (*APART, "requests.arrivals.poisson=200 /s", "+serving.experts={dispatcher: deepep-low-latency}"),
    ],
)
@pytest.mark.parametrize(
    "lengths",
    ["{prompt: {uniform: [10, 900]}, output: {uniform: [1, 300]}}", "{prompt: {fixed: 200}, output: {fixed: 64}}"],
)
def test_ranks_that_stay_are_those_that_meet_every_time(changes: tuple[str, ...], lengths: str) -> None:
    scenario = load_scenario("serving/quickstart", [*STAYS, *changes, f"requests.lengths={lengths}"]).scenario
    stays, meets = (simulate(scenario, leap=leap) for leap in (True, False))
    assert stays.service is not None and meets.service is not None
    for name in ("arrival", "scheduled", "first_token", "finish", "preemptions", "replica"):
        mine, theirs = (getattr(service.requests, name) for service in (stays.service, meets.service))
        assert (mine == theirs).all(), name
    for one, other in zip(stays.service.replicas, meets.service.replicas, strict=True):
        assert int(one.iterations.count.sum()) == int(other.iterations.count.sum())
        assert one.busy == pytest.approx(other.busy, abs=1e-12)
        assert one.parts == pytest.approx(other.parts)
    assert stays.metrics == pytest.approx(meets.metrics)


CACHES = (
    "serving.pools=[{name: p, role: prefill, replicas: 2, parallel: {ep: 2}},"
    " {name: d, role: decode, replicas: 4, parallel: {ep: 4}, batching: {max_sequences: 6}}]",
)


@pytest.mark.parametrize(
    "changes",
    [
        ("+serving.parallel={ep: 2}",),
        ("+serving.parallel={ep: 2}", "+serving.kv_cache={blocks: 90}", "requests.arrivals.poisson=200 /s"),
        ("+serving.parallel={ep: 2}", "stack=sglang", "requests.arrivals={closed_loop: {clients: 9}}"),
        ("+serving.parallel={ep: 2}", "requests.arrivals={at_once: true}", "serving.batching.policy=guaranteed"),
        ("+serving.parallel={ep: 2}", "requests.arrivals={at_once: true}", "serving.batching.policy=static"),
        ("+serving.parallel={ep: 2}", "+serving.router=shortest-queue", "requests.arrivals.poisson=60 /s"),
        ("serving.replicas=1", *CACHES, "+serving.transfer=layer"),
        ("serving.replicas=1", *CACHES, "requests.arrivals={at_once: true}"),
    ],
    ids=["plain", "preempted", "padded", "reserved", "static", "routed by tokens", "caches by layer", "slots"],
)
def test_members_that_stay_in_take_the_same_time(changes: tuple[str, ...]) -> None:
    """With and without iterations of which nothing changes for a member: the same rows, each a single iteration."""
    forwarded, single = run(*changes), run(*changes, "leap=false")
    assert forwarded.service is not None and single.service is not None
    for name in ("scheduled", "first_token", "finish", "replica", "preemptions"):
        assert (getattr(forwarded.service.requests, name) == getattr(single.service.requests, name)).all(), name
    for one, other in zip(forwarded.service.replicas, single.service.replicas, strict=True):
        assert (one.iterations.count == 1).all()
        for name in ("start", "first", "decodes", "prompt_tokens", "context", "blocks", "waited"):
            assert (getattr(one.iterations, name) == getattr(other.iterations, name)).all(), name
        assert one.parts == pytest.approx(other.parts)
    known = {name: value for name, value in forwarded.metrics.items() if value == value}
    assert known == pytest.approx({name: single.metrics[name] for name in known})
