"""Iterations of a replica by itself are the same whether they are begun in one go or not."""

import pytest

import simulator.run  # noqa: F401
from simulator.run.serve import ServingRun, run_serving
from simulator.serving.replica import alone
from simulator.specs import load_scenario
from tests.short_ways import check_asked_for, check_both_ways

SERVICE = (
    "requests.count=60",
    "requests.arrivals.poisson=30 /s",
    "requests.lengths={prompt: {uniform: [10, 900]}, output: {uniform: [1, 300]}}",
)
AHEAD = ("stack.schedules_ahead=true", "+stack.ahead_overhead=1 ms")
DRAFTS = "+serving.speculation={kind: eagle, draft_length: 3, acceptance: 0.7}"
APART = "+serving.pools=[{name: prefill, role: prefill}, {name: decode, role: decode, replicas: 2}]"
HELD = ("serving.batching.policy=guaranteed", "+serving.batching.wait_iterations=7", "+serving.batching.wait_share=0.9")
CASES = {
    "an intake": AHEAD,
    "drafts": (DRAFTS, *AHEAD),
    "blocks run out": ("+serving.kv_cache={blocks: 150}", *AHEAD),
    "blocks run out with drafts": ("+serving.kv_cache={blocks: 150}", DRAFTS),
    "prompts wait": HELD,
    "pools": (APART,),
    "pools with drafts": (APART, DRAFTS),
    "prompts alone": ("serving.batching.policy=prefill-first", *AHEAD),
}


def served(changes: tuple[str, ...]) -> ServingRun:
    """A run of a small service."""
    return run_serving(load_scenario("serving/quickstart", [*SERVICE, *changes]).scenario)


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_the_short_way_is_the_long_way(changes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    check_both_ways(alone, "runs_alone", lambda: served(changes), 50, monkeypatch)


def test_whatever_else_a_replica_has_is_asked_for() -> None:
    """A new attribute of a replica that is None where it is not used must be asked for, or be named here."""
    there = {"counts", "host", "intake"}  # of routers; of stages that take turns; requests at the door are looked for
    check_asked_for(served((*AHEAD, "requests.count=4")).replicas[0], alone.runs_alone, there)
