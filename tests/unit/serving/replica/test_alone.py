"""Iterations of a replica by itself are the same whether they are begun in one go or not."""

from typing import Any

import numpy as np
import pytest

import simulator.run  # noqa: F401
from simulator.run.serve import ServingRun, run_serving
from simulator.serving.replica import alone
from simulator.specs import load_scenario

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


def all_of(run: ServingRun) -> dict[str, Any]:
    """Everything that is written down."""
    found = {name: getattr(run.ledger, name) for name in ("first_token", "finish", "preemptions", "replica")}
    for number, replica in enumerate(run.replicas):
        record = replica.record
        columns = record.log, record.gap_ticks, record.gap_counts, record.apart
        sums = record.busy, record.hosted, record.drafted, replica.blocks.free, run.events
        found[f"replica {number}"] = [*map(np.array, columns), sums]
    return found


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_the_short_way_is_the_long_way(changes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []

    def counted(batch: Any, now: int, begin: Any = alone.begin) -> bool:
        taken.append(begin(batch, now))
        return taken[-1]

    monkeypatch.setattr(alone, "begin", counted)
    short = served(changes)
    assert sum(taken) > 50
    monkeypatch.setattr(alone, "runs_alone", lambda batch: False)
    taken.clear()
    long = served(changes)
    assert not taken
    mine, theirs = all_of(short), all_of(long)
    for name, value in mine.items():
        np.testing.assert_equal(value, theirs[name], name)


def test_whatever_else_a_replica_has_is_asked_for() -> None:
    """A new attribute of a replica that is None where it is not used must be asked for, or be named here."""
    replica = served((*AHEAD, "requests.count=4")).replicas[0]
    (batch,) = replica.batches
    assert alone.runs_alone(batch)
    holders: list[tuple[Any, str]] = [*((replica, name) for name in vars(replica))]
    holders += [(replica.stages, name) for name in type(replica.stages).__slots__]
    there = {"counts", "host", "intake"}  # of routers; of stages that take turns; requests at the door are looked for
    empty = [(holder, name) for holder, name in holders if getattr(holder, name) is None and name not in there]
    assert len(empty) > 4
    for holder, name in empty:
        setattr(holder, name, object())
        assert not alone.runs_alone(batch), name
        setattr(holder, name, None)
