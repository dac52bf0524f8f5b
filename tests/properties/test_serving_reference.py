"""Replicas against an engine that looks at every sequence one by one: the same times, to the tick."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.serving.workload.generate import Workload
from tests.effort import simulations
from tests.reference import Reference
from tests.replicas import ENDLESS, Price, Setting, asked, check, gaps, run

POLICIES = (
    "vllm-v1",
    "sarathi",
    "splitfuse",
    "shortest-first",
    "priority",
    "vllm-v0",
    "prefill-first",
    "orca",
    "guaranteed",
    "static",
)
PRICES = (Price(pair=1), Price(row=10, sample=0, read=0, edge=ENDLESS, base=0, overhead=90, each=0))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    count = draw(st.integers(1, 14))
    gap = draw(st.sampled_from((st.just(0), st.integers(0, 6).map(lambda n: 100 * n), st.integers(0, 1500))))
    arrival, rows, priority = 0, [], []
    for _ in range(count):
        arrival += draw(gap)
        prompt, output = draw(st.sampled_from((1, 3, 4, 16, 17, 40, 90))), draw(st.sampled_from((1, 2, 5, 13, 30)))
        rows.append((arrival, prompt, output))
        priority.append(draw(st.integers(0, 2)))
    return asked(rows, priority=priority)


@st.composite
def systems(draw: st.DrawFn, policy: str) -> Setting:
    return Setting(
        policy,
        budget=draw(st.sampled_from((8, 24, 64))),
        most=draw(st.sampled_from((1, 2, 4, 8))),
        blocks=draw(st.sampled_from((12, 24, 33, 60, 400))),
        watermark=draw(st.integers(0, 2)),
        swap=draw(st.sampled_from((0, 60, 1000))),
        ageing=draw(st.sampled_from((None, 700))),
        price=draw(st.sampled_from(PRICES)),
    )


@pytest.mark.parametrize("policy", POLICIES)
@simulations(60)
@given(data=st.data())
def test_the_same_as_one_by_one(policy: str, data: st.DataObject) -> None:
    workload, setting = data.draw(workloads()), data.draw(systems(policy))
    ran, plain = run(workload, setting), Reference(workload, setting)
    check(ran)
    ledger = ran.ledger
    for one in plain.requests:
        i = one.number
        mine = (ledger.scheduled[i], ledger.first_token[i], ledger.finish[i], ledger.preemptions[i])
        assert mine == (one.scheduled, one.tokens[0] if one.tokens else -1, one.finish, one.preemptions), i
    assert sorted(ledger.pauses) == sorted(plain.pauses)
    apart = [b - a for one in plain.requests for a, b in zip(one.tokens, one.tokens[1:], strict=False)]
    assert gaps(ran) == sorted(apart)
