"""Stays of nothing but decodes in step are the same whether they are begun and ended in one go or not."""

from typing import Any

import numpy as np
import pytest

import simulator.run  # noqa: F401
from simulator.run.serve import ServingRun, run_serving
from simulator.serving.replica import in_step
from simulator.serving.replica.in_step import decodes_in_step
from simulator.specs import load_scenario

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


def all_of(run: ServingRun) -> dict[str, Any]:
    """Everything that is written down."""
    found = {name: getattr(run.ledger, name) for name in ("first_token", "finish", "preemptions", "replica")}
    for number, replica in enumerate(run.replicas):
        record = replica.record
        columns = (record.log, record.gap_ticks, record.gap_counts, record.waits, record.shared_rows, record.apart)
        sums = record.busy, record.saved, record.drafted, record.exchanged, replica.blocks.free
        found[f"replica {number}"] = [*map(np.array, columns), sums]
    return found


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
    taken = []

    def counted(batch: Any, now: int, begin: Any = in_step.begin) -> bool:
        taken.append(begin(batch, now))
        return bool(taken[-1])

    monkeypatch.setattr(in_step, "begin", counted)
    short = served(changes)
    assert sum(taken) > 9
    monkeypatch.setattr(in_step, "decodes_in_step", lambda batch: False)
    taken.clear()
    long = served(changes)
    assert not taken
    mine, theirs = all_of(short), all_of(long)
    for name, value in mine.items():
        np.testing.assert_equal(value, theirs[name], name)


def test_whatever_else_a_replica_has_is_asked_for() -> None:
    """A new attribute of a replica that is None where it is not used must be asked for, or be named here."""
    replica = served((TOGETHER, "requests.arrivals.poisson=40 /s", "requests.count=4")).replicas[0]
    (batch,) = replica.batches
    assert decodes_in_step(batch)
    holders: list[tuple[Any, str]] = [*((replica, name) for name in vars(replica))]
    holders += [(replica.stages, name) for name in type(replica.stages).__slots__]
    empty = [(holder, name) for holder, name in holders if getattr(holder, name) is None and name not in BESIDE]
    assert len(empty) > 4
    for holder, name in empty:
        setattr(holder, name, object())
        assert not decodes_in_step(batch), name
        setattr(holder, name, None)
