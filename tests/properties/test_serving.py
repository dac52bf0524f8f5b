"""Serving, whatever comes: fast-forward changes nothing, all is served in order, and faster is never slower."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simulator.results.serving import iterations as of
from simulator.results.serving.service import FINISHED
from simulator.run.served.rows import iterations_of
from simulator.serving.fleet.router import ROUTERS
from simulator.serving.policies import POLICIES, Policy
from simulator.serving.replica import batch
from simulator.serving.replica.replica import Replica
from simulator.serving.workload.generate import ANY, NEVER, Workload
from tests.effort import simulations
from tests.replicas import ENDLESS, TOKENS, Price, Setting, System, asked, check, gaps, run

COLUMNS = (
    "arrival",
    "scheduled",
    "first_token",
    "finish",
    "cached",
    "done",
    "preemptions",
    "replica",
    "status",
    "pauses",
)
FEW = simulations(80)
IN_ORDER = [name for name in POLICIES.names() if POLICIES.get(name).order is Policy.order]
FLAT = Price(row=10, sample=0, read=0, edge=ENDLESS, base=0, overhead=90, each=0)
"""Decodes of a batch of one last 100 ticks, so that arrivals at multiples of 100 come on boundaries."""


@st.composite
def workloads(draw: st.DrawFn, prefixes: bool = False) -> Workload:
    """Up to a dozen requests: all at once, on a grid, anywhere, or from users who wait for their answers."""
    count = draw(st.integers(1, 12))
    kind = draw(st.sampled_from(("at once", "grid", "anywhere", "users")))
    gap = {"at once": st.just(0), "grid": st.integers(0, 6).map(lambda n: 100 * n)}.get(kind, st.integers(0, 900))
    arrival = np.cumsum([0, *(draw(gap) for _ in range(count - 1))]).tolist()
    prompt = [draw(st.sampled_from((1, 4, 15, 16, 17, 40, 90))) for _ in range(count)]
    output = [draw(st.sampled_from((1, 2, 8, 13, 30))) for _ in range(count)]
    columns: dict[str, Any] = {"priority": [draw(st.integers(0, 2)) for _ in range(count)]}
    if kind == "users":
        users = draw(st.integers(1, count))
        arrival = [0] * users + [NEVER] * (count - users)
        columns["follows"] = [NEVER] * users + [ANY] * (count - users)
        columns["delay"] = [draw(st.sampled_from((0, 100, 333))) for _ in range(count)]
    prefix = None
    if prefixes and draw(st.booleans()):
        block = columns["prefix_block"] = draw(st.sampled_from((4, 8, 16)))
        groups = [100 * draw(st.integers(0, 2)) for _ in range(count)]
        prefix = [range(group, group + tokens // block) for group, tokens in zip(groups, prompt, strict=True)]
    return asked(zip(arrival, prompt, output, strict=True), prefix, **columns)


@st.composite
def systems(draw: st.DrawFn, policies: Sequence[str] = (), **fixed: Any) -> Setting:
    """Systems of small memory, so that all that can go wrong does."""
    drawn: dict[str, Any] = {
        "policy": st.sampled_from(policies or POLICIES.names()),
        "budget": st.sampled_from((8, 32, 64)),
        "most": st.sampled_from((1, 2, 4, 8)),
        "blocks": st.sampled_from((12, 30, 40, 80, 400)),
        "watermark": st.integers(0, 1),
        "swap": st.sampled_from((0, 60, 1000)),
        "replicas": st.integers(1, 3),
        "stages": st.sampled_from((1, 1, 1, 2, 3)),
        "serial": st.booleans(),
        "decoders": st.sampled_from((0, 0, 1, 2)),
        "instances": st.sampled_from((1, 1, 1, 2)),
        "reads_once": st.booleans(),
        "decode_blocks": st.sampled_from((None, 20)),
        "by_layer": st.booleans(),
        "router": st.sampled_from(ROUTERS.names()),
        "ageing": st.sampled_from((None, 500)),
        "ttft_slo": st.sampled_from((0, 2000)),
        "price": st.sampled_from((Price(), FLAT, Price(pair=1, hop=2, expert=3))),
    }
    drawn |= {
        "poll": st.sampled_from((1, 1, 3)),
        "ahead": st.booleans(),
        "handling": st.sampled_from((0, 0, 70)),
        "wait": st.sampled_from((0, 2)),
    }
    made = Setting(**{name: fixed.get(name, draw(strategy)) for name, strategy in drawn.items()})
    shares = made.stages == made.instances == 1 and made.replicas > 1 and draw(st.booleans())
    return replace(made, sharers=made.replicas) if shares else made


def same(one: System, other: System, names: tuple[str, ...] = COLUMNS) -> None:
    for name in names:
        assert getattr(one.ledger, name) == getattr(other.ledger, name), name


@pytest.mark.parametrize("policy", POLICIES.names())
@simulations(25)
@given(data=st.data())
def test_fast_forward_changes_nothing(policy: str, data: st.DataObject) -> None:
    workload, setting = data.draw(workloads(prefixes=True)), data.draw(systems([policy]))
    setting = replace(setting, cached=workload.prefix is not None)
    forwarded, stepping = run(workload, setting), run(workload, setting, fast_forward=False)
    same(forwarded, stepping)
    assert gaps(forwarded) == gaps(stepping)
    check(forwarded)
    check(stepping)
    for one, other in zip(forwarded.replicas, stepping.replicas, strict=True):
        assert usage(one) == pytest.approx(usage(other), rel=1e-12)


@simulations(60)
@given(data=st.data())
def test_iterations_in_one_go_change_nothing(data: st.DataObject) -> None:
    """A replica on which nothing but prompts and decodes takes time, and the same by the steps of any replica."""
    usual = {"stages": st.just(1), "decoders": st.just(0), "poll": st.just(1), "ahead": st.just(False)}
    usual |= {"handling": st.just(0), "reads_once": st.just(False), "price": st.sampled_from((Price(), FLAT))}
    workload = data.draw(workloads())
    setting = data.draw(systems(POLICIES.names(), **{name: data.draw(drawn) for name, drawn in usual.items()}))
    fast_forward = data.draw(st.booleans())
    short = run(workload, setting, fast_forward)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batch, "is_plain", lambda _: False)
        long = run(workload, setting, fast_forward)
    same(short, long)
    assert gaps(short) == gaps(long)
    assert short.agenda.events == long.agenda.events
    for one, other in zip(short.replicas, long.replicas, strict=True):
        assert one.record.log == other.record.log and one.record.busy == other.record.busy
        assert usage(one) == usage(other)
    check(short)


def test_room_that_is_taken_while_a_stretch_passes_a_boundary_counts_from_its_next_iteration() -> None:
    """A prompt begins, and takes a block where it will decode, at the tick at which an iteration there begins too."""
    outputs = np.array([1, 1, 1, 1, 2, 8, 2, 2])
    none, each = np.zeros(8, np.int64), np.ones(8, np.int64)
    workload = Workload(
        arrival=np.array([0, 0, 0, -1, -1, -1, -1, -1]),
        prompt=each,
        output=outputs,
        priority=none,
        follows=np.array([-1, -1, -1, -2, -2, -2, -2, -2]),
        delay=none,
        prefix=None,
        prefix_block=16,
        assumptions=(),
        warnings=(),
    )
    price = Price(row=10, sample=3, read=1, edge=500, base=7, pair=0, overhead=100, each=2, hop=0)
    setting = Setting(
        policy="deadline", budget=8, most=2, tile=16, blocks=12, block_size=4, decoders=2, by_layer=True, price=price
    )
    forwarded, stepping = run(workload, setting), run(workload, setting, fast_forward=False)
    same(forwarded, stepping)
    for one, other in zip(forwarded.replicas, stepping.replicas, strict=True):
        assert usage(one) == pytest.approx(usage(other), rel=1e-12)


def usage(replica: Replica) -> tuple[float, int, int]:
    """(blocks x ticks, ticks, most blocks) of all iterations."""
    rows = iterations_of(replica)
    length = of.lengths(rows)
    return float(rows.mean_blocks @ length), int(length.sum()), int(rows.last_blocks.max(initial=0))


@FEW
@given(st.data())
def test_peers_work_on_the_rows_of_all_and_wait_for_the_longest(data: st.DataObject) -> None:
    """Each iteration lasts as long as the longest own work of those that begin with it, and the rows of all."""
    setting = data.draw(systems(replicas=3, stages=1, instances=1, decoders=0))
    setting = replace(setting, sharers=3, price=replace(setting.price, expert=data.draw(st.sampled_from((0, 3, 50)))))
    ran = run(data.draw(workloads()), setting)
    entered: dict[int, list[tuple[int, int, int]]] = {}
    for replica in ran.replicas:
        rows = iterations_of(replica)
        own = rows.first - rows.waited
        for start, ticks, tokens, whole in zip(
            rows.start, own, rows.decodes + rows.prompt_tokens, rows.first, strict=True
        ):
            entered.setdefault(int(start), []).append((int(ticks), int(tokens), int(whole)))
        assert len(replica.record.shared_rows) == 2 * len(rows.start)
        assert replica.record.busy == rows.first.sum()
    for begun in entered.values():
        ((lasts,), most) = {whole for *_, whole in begun}, max(ticks for ticks, *_ in begun)
        assert lasts == most
        assert lasts >= setting.price.expert * sum(tokens for _, tokens, _ in begun)


@FEW
@given(workloads(prefixes=True), systems())
def test_batches_keep_to_their_limits(workload: Workload, setting: Setting) -> None:
    """Memory and places are watched over by the replicas of `tests.replicas` themselves."""
    ran = run(workload, replace(setting, cached=workload.prefix is not None))
    check(ran)
    policy = POLICIES.get(setting.policy)
    for number, replica in enumerate(ran.replicas):
        rows = ran.log(number)
        decodes, tokens, prompts, blocks = rows[:, 4], rows[:, 5], rows[:, 6], rows[:, 8]
        assert (decodes + prompts <= setting.most).all()
        assert ((blocks >= 0) & (blocks <= replica.blocks.memory.blocks)).all()
        if policy.chunked:
            assert (decodes + tokens <= max(setting.budget, setting.most)).all()


@FEW
@given(workloads(prefixes=True), systems())
def test_tokens_out_are_tokens_asked(workload: Workload, setting: Setting) -> None:
    ran = run(workload, replace(setting, cached=workload.prefix is not None))
    finished = ran.times("status") == FINISHED
    output, done = ran.workload.output, ran.times("done")
    assert (done[finished] == output[finished]).all() and not done[~finished].any()
    of_decodes = sum(int((ran.log(i)[:, 1] * ran.log(i)[:, 4]).sum()) for i in range(len(ran.replicas)))
    of_prompts = sum(int(ran.log(i)[:, 10].sum()) for i in range(len(ran.replicas)))
    assert of_decodes + of_prompts == done.sum()


@FEW
@given(workloads(prefixes=True), systems())
def test_gaps_between_tokens_add_up(workload: Workload, setting: Setting) -> None:
    """A request's gaps, pauses and moves between pools included, fill the time from its first token to its last."""
    ran = run(workload, replace(setting, cached=workload.prefix is not None))
    found = gaps(ran)
    finished = ran.times("status") == FINISHED
    assert len(found) == ran.times("done").sum() - finished.sum()
    assert all(gap > 0 for gap in found)
    whole = (ran.times("finish") - ran.times("first_token"))[finished].sum()
    if POLICIES.get(setting.policy).static_batch:  # who is done waits for the longest answer
        assert sum(found) <= whole
    else:
        assert sum(found) == whole
    for request, begin, end in ran.ledger.pauses:
        assert ran.ledger.first_token[request] <= begin < end <= ran.ledger.finish[request]
    counted = Counter(request for request, *_ in ran.ledger.pauses)
    assert all(count <= ran.ledger.preemptions[request] for request, count in counted.items())


@FEW
@given(workloads(), systems(IN_ORDER, replicas=1, decoders=0, stages=1))
def test_in_order_nobody_overtakes(workload: Workload, setting: Setting) -> None:
    """Policies that look at requests in the order of arrival start them in it."""
    ran = run(workload, setting)
    started = [
        (arrival, scheduled)
        for arrival, scheduled in zip(ran.ledger.arrival, ran.ledger.scheduled, strict=True)
        if scheduled != NEVER
    ]
    scheduled = [scheduled for _, scheduled in sorted(started)]
    assert scheduled == sorted(scheduled)


@FEW
@given(workloads(prefixes=True), systems(), st.integers(0, 3))
def test_the_same_seed_gives_the_same_bytes(workload: Workload, setting: Setting, seed: int) -> None:
    setting = replace(setting, cached=workload.prefix is not None)
    one, other = run(workload, setting, seed=seed), run(workload, setting, seed=seed)
    same(one, other)
    records = [[replica.record for replica in ran.replicas] for ran in (one, other)]
    for mine, yours in zip(*records, strict=True):
        assert mine.log.tobytes() == yours.log.tobytes()
        assert (mine.gap_ticks, mine.gap_counts, mine.busy) == (yours.gap_ticks, yours.gap_counts, yours.busy)


@FEW
@given(workloads(), systems(IN_ORDER, replicas=1, decoders=0, stages=1, blocks=4000))
def test_twice_the_speed_never_costs_time(workload: Workload, setting: Setting) -> None:
    """One replica, in order of arrival, memory for all: half of every price never raises the mean latency."""
    assume((workload.follows == NEVER).all())
    slow = Price(row=20, sample=6, read=2, base=14, overhead=200, each=4, edge=ENDLESS)
    fast = Price(row=10, sample=3, read=1, base=7, overhead=100, each=2, edge=ENDLESS)

    def latency(price: Price) -> int:
        ran = run(workload, replace(setting, price=price))
        assert not any(ran.ledger.preemptions)
        return int((ran.times("finish") - ran.times("arrival")).sum())

    assert latency(fast) <= latency(slow)


URGENT, LATE = 0, 1


def stream_of_urgent_ones(load: float, ageing: int | None) -> System:
    """One request of a low class behind urgent ones of 1,000 ticks each that keep coming."""
    gap = int(1000 / load)
    rows = sorted([(gap * i, 100, 1) for i in range(200)] + [(1, 100, 1)])
    priority = [LATE if arrival == 1 else URGENT for arrival, *_ in rows]
    setting = Setting("priority", budget=1000, most=1, ageing=ageing, price=TOKENS)
    return run(asked(rows, priority=priority), setting)


@pytest.mark.parametrize("load", [1.0, 1.25, 2.0])
@pytest.mark.parametrize("ageing", [2_000, 7_777, 30_000])
def test_ageing_bounds_waiting(load: float, ageing: int) -> None:
    """Urgent requests overtake only if they come before it has aged by a class: it waits for these and no others."""
    ran = stream_of_urgent_ones(load, ageing)
    late = ran.ledger.priority.index(LATE)
    before = sum(arrival < 1 + ageing for arrival in ran.ledger.arrival) - 1
    assert ran.ledger.scheduled[late] <= max(before * 1000, 1 + ageing + 1000)


@pytest.mark.parametrize("load", [1.0, 1.25, 2.0])
def test_without_ageing_the_low_class_starves(load: float) -> None:
    ran = stream_of_urgent_ones(load, None)
    late = ran.ledger.priority.index(LATE)
    assert ran.ledger.scheduled[late] == max(ran.ledger.scheduled)
