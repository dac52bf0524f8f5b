"""Failures of prefill and decode replicas, of those with tiers, of those in step: nothing is lost, memory is whole."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.random import stream
from simulator.results.serving.service import FAILED, FINISHED, REJECTED
from simulator.serving.fleet.breakdowns import Planned
from simulator.serving.replica.record import COLUMNS
from simulator.serving.tiers.path import Lane, path
from simulator.specs.fleet import Fleet
from simulator.specs.serving import LocalPrompts
from tests.effort import simulations
from tests.fleets import fleet, ran
from tests.properties.test_fleets import rows
from tests.replicas import TOKENS, Setting, System, asked
from tests.theory.test_adapters import attached

APART = Setting(most=6, blocks=120, decode_blocks=90, replicas=2, decoders=3, router="least-outstanding", budget=64)
TIERED = Setting(most=6, blocks=60, block_size=4, replicas=3, router="least-outstanding", cached=True, budget=64)
ALONE = Setting(most=6, blocks=90, replicas=2, router="least-outstanding", budget=64)
STEP = Setting(most=6, blocks=90, replicas=4, sharers=2, router="least-outstanding", budget=64)


def planned(times: list[tuple[int, int, int]]) -> list[Planned]:
    return [Planned(at, f"replica {who + 1}", at + lasts) for at, lasts, who in times]


def chains(count: int, seed: int) -> list[list[int]]:
    """Prompts that begin as others do, for caches with identities of 16 tokens."""
    random = stream(seed, "chains")
    found = []
    for number in range(count):
        family, common = int(random.integers(6)), int(random.integers(0, 4))
        found.append([100 * family + i for i in range(common)] + [10_000 + 10 * number + i for i in range(4 - common)])
    return found


def outcome(done: System) -> tuple[Any, ...]:
    ledger, operations = done.ledger, done.fleet.operations
    assert operations is not None
    columns = ledger.scheduled, ledger.first_token, ledger.finish, ledger.status, ledger.replica, ledger.done
    return *columns, operations.tried, operations.reasons


def whole(done: System, count: int) -> None:
    """Requests add up, answers are complete, and all memory has come back."""
    ledger = done.ledger
    ended = [ledger.status.count(status) for status in (FINISHED, REJECTED, FAILED)]
    assert sum(ended) == count
    for request in range(count):
        if ledger.status[request] == FINISHED:
            assert ledger.done[request] == ledger.output[request]
            assert ledger.arrival[request] <= ledger.scheduled[request] < ledger.first_token[request]
            assert ledger.first_token[request] <= ledger.finish[request]
    for replica in done.replicas:
        blocks, cache = replica.blocks, replica.blocks.cache
        resident = 0 if cache is None else len(cache._pins) * cache.blocks
        assert blocks.free + resident == blocks.memory.blocks and not blocks.held and not blocks.shared
        assert cache is None or cache.idle_blocks == resident
        queue = replica.queue
        assert queue.outstanding == queue.pending == queue.coming == queue.swapped_tokens == 0 and not queue.paused
        assert not any(batch.decodes.n or batch.partial or batch.decodes.context for batch in replica.batches)
        assert sorted(map(id, replica.idle)) == sorted(map(id, replica.batches))
        if replica.loads is not None:
            assert not (replica.loads._loading or replica.loads._promised or replica.loads._writing)
            assert not any(tier.store.coming for tier in replica.loads.tiers)
    transfer = done.fleet.kv_transfer
    if transfer is not None:
        assert not (transfer.moving or transfer.queue or transfer.fresh or transfer.resumed)
    counts = done.fleet.choice.outstanding
    assert counts is not None and not any(counts.counts)


def rules(kind: str, **more: Any) -> Fleet:
    return Fleet.model_validate({"failures": {"trace": "given", "requests": kind, "retries": 2, **more}})


TIMES = st.lists(st.tuples(st.integers(0, 900_000), st.integers(1, 300_000), st.integers(0, 4)), max_size=12)


@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["retry", "migrate", "fail"]),
    policy=st.sampled_from(["vllm-v1", "orca", "guaranteed"]),
    by_layer=st.booleans(),
    by_decode=st.booleans(),
    detection=st.sampled_from([0, 30_000, 400_000]),
    times=TIMES,
)
@simulations(12)
@example(
    seed=0,
    kind="retry",
    policy="vllm-v1",
    by_layer=False,
    by_decode=False,
    detection=30_000,
    times=[(12_448, 1, 0), (12_450, 1, 0)],
)
def test_pools_after_any_failures(
    seed: int, kind: str, policy: str, by_layer: bool, by_decode: bool, detection: int, times: list[Any]
) -> None:
    setting = replace(APART, policy=policy, by_layer=by_layer)
    more = {"detection": f"{detection} ps"} if detection else {}
    asks = asked(rows(60, 12_000.0, seed))
    given: dict[str, Any] = {"planned": planned(times), "by_decode": by_decode}
    done = ran(asks, setting, rules(kind, **more), **given)
    whole(done, 60)
    assert outcome(ran(asks, setting, rules(kind, **more), fast_forward=False, **given)) == outcome(done)


@given(seed=st.integers(0, 10_000), kind=st.sampled_from(["retry", "migrate", "fail"]), times=TIMES)
@simulations(9)
@example(seed=1088, kind="migrate", times=[(401, 1, 0), (53_831, 1, 2)])
def test_replicas_with_tiers_after_any_failures(seed: int, kind: str, times: list[Any]) -> None:
    random = stream(seed, "tiered")
    arrival = np.cumsum(random.exponential(9_000.0, 60)).astype(np.int64)
    table = np.stack([arrival, random.integers(65, 100, 60), random.integers(1, 20, 60)], axis=1).tolist()
    asks = asked(table, prefix=chains(60, seed))
    known = [(at, lasts, who % 3) for at, lasts, who in times]
    done = ran(asks, TIERED, rules(kind), planned=planned(known), tiered=True)
    whole(done, 60)
    assert outcome(ran(asks, TIERED, rules(kind), fast_forward=False, planned=planned(known), tiered=True)) == outcome(
        done
    )


@given(seed=st.integers(0, 10_000), kind=st.sampled_from(["retry", "migrate", "fail"]), times=TIMES)
@simulations(9)
def test_replicas_in_step_after_any_failures(seed: int, kind: str, times: list[Any]) -> None:
    known = [(at, lasts, who % 2) for at, lasts, who in times]
    asks = asked(rows(60, 6_000.0, seed))
    done = ran(asks, STEP, rules(kind), planned=planned(known))
    whole(done, 60)
    assert outcome(ran(asks, STEP, rules(kind), fast_forward=False, planned=planned(known))) == outcome(done)
    quiet = fleet(asks, STEP, rules(kind), planned=planned(known))
    for one in quiet.replicas:
        one.be_silent()
    quiet.agenda.run()
    assert outcome(quiet) == outcome(done)


@pytest.mark.parametrize("setting", [APART, ALONE, STEP], ids=["pools", "alone", "in step"])
@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["retry", "migrate", "fail", "resume"]),
    number=st.integers(0, 1_000),
    who=st.integers(0, 4),
)
@simulations(9)
@example(seed=6245, kind="migrate", number=992, who=3)
@example(seed=9058, kind="migrate", number=353, who=1)
@example(seed=475, kind="migrate", number=782, who=3)
def test_failures_in_the_instant_in_which_an_iteration_ends(
    setting: Setting, seed: int, kind: str, number: int, who: int
) -> None:
    """It is lost, or goes on, whether it was leapt over or not; replicas in step never go on (scenarios refuse it)."""
    kind = "retry" if setting.sharers > 1 and kind == "resume" else kind
    asks = asked(rows(60, 12_000.0, seed))
    calm = ran(asks, setting, rules("retry"), fast_forward=False)
    member = who % len(calm.replicas)
    log = np.array(calm.replicas[member].record.log).reshape(-1, COLUMNS)
    start, _, lasts = log[number % len(log), :3].tolist()
    given: dict[str, Any] = {"planned": planned([(start + lasts, 5_000, member // setting.sharers)])}
    done = ran(asks, setting, rules(kind), **given)
    assert outcome(ran(asks, setting, rules(kind), fast_forward=False, **given)) == outcome(done)


def test_a_failed_decode_replica_does_what_was_asked() -> None:
    """One of two decode replicas is lost while requests decode: `retry` begins again, `migrate` keeps their first
    tokens and computes prompt and tokens once more, `fail` ends them."""
    asks = asked([[i * 1000, 40, 60] for i in range(6)])
    setting = replace(APART, decoders=2, most=8, decode_blocks=300, blocks=300)
    calm = ran(asks, setting, rules("retry"))
    assert calm.fleet.kv_transfer is not None
    here = max(end for _, _, end, _ in calm.fleet.kv_transfer.rows)
    fault = (here + min(calm.ledger.finish)) // 2
    assert here < fault < min(calm.ledger.finish)
    fails = [Planned(fault, "replica 4", 10_000_000)]
    ran_by = {kind: ran(asks, setting, rules(kind), planned=fails) for kind in ("retry", "migrate", "fail")}
    operations = {kind: done.fleet.operations for kind, done in ran_by.items()}
    hit = [request for request in range(6) if calm.ledger.replica[request] == 3]
    assert hit and all(one is not None for one in operations.values())
    for kind, done in ran_by.items():
        whole(done, 6)
        lost = operations[kind].breakdowns.log[0][3]  # type: ignore[union-attr]
        assert lost == len(hit)
        assert done.ledger.status.count(FAILED) == (lost if kind == "fail" else 0)
    for request in hit:
        assert ran_by["migrate"].ledger.first_token[request] == calm.ledger.first_token[request]
        assert ran_by["retry"].ledger.first_token[request] > fault
        assert ran_by["migrate"].ledger.finish[request] > calm.ledger.finish[request]
    moved = {kind: len(done.fleet.kv_transfer.rows) for kind, done in ran_by.items() if done.fleet.kv_transfer}
    assert moved["retry"] == moved["migrate"] == 6 + len(hit)
    again = [size for _, start, _, size in ran_by["migrate"].fleet.kv_transfer.rows if start > fault]  # type: ignore
    assert all(size > 40_000 for size in again)  # tokens that came out move too


@pytest.mark.parametrize("kind", ["retry", "migrate"])
def test_a_cache_whose_target_fails_on_its_way_goes_elsewhere(kind: str) -> None:
    """The flow stops; `migrate` sends it again from where it lies, `retry` computes the prompt once more."""
    setting = replace(APART, replicas=1, decoders=2, blocks=4000, decode_blocks=4000, budget=1 << 20)
    asks = asked([[0, 4000, 5]])
    calm = ran(asks, setting, rules(kind))
    assert calm.fleet.kv_transfer is not None
    ((_, start, end, _),) = calm.fleet.kv_transfer.rows
    middle = (start + end) // 2
    done = ran(asks, setting, rules(kind), planned=[Planned(middle, "replica 2", 10 * end)])
    whole(done, 1)
    assert done.fleet.kv_transfer is not None and done.fleet.operations is not None
    ((_, again, here, _),) = done.fleet.kv_transfer.rows
    assert done.ledger.replica == [2] and done.fleet.operations.tried == {0: 1}
    assert here - again == end - start
    assert again == (middle if kind == "migrate" else middle + start)


def test_prompts_wait_for_the_only_decode_replica_and_it_comes_back() -> None:
    setting = replace(APART, replicas=1, decoders=1, blocks=4000, decode_blocks=4000)
    asks = asked([[i * 100, 40, 5] for i in range(20)])
    done = ran(asks, setting, rules("retry"), planned=[Planned(10, "replica 2", 900_000)])
    whole(done, 20)
    assert done.fleet.kv_transfer is not None
    assert min(start for _, start, *_ in done.fleet.kv_transfer.rows) == 900_000
    assert done.ledger.status.count(FINISHED) == 20 and max(done.ledger.first_token) < 900_000


def test_a_tier_that_does_not_survive_is_empty_and_the_drive_is_not() -> None:
    table = [[i * 200_000, 80, 2] for i in range(8)]
    asks = asked(table, prefix=[[1, 2, 3, 4]] * 8)
    setting = replace(TIERED, replicas=1)
    made = fleet(asks, setting, rules("retry"), planned=[Planned(700_000, "replica 1", 710_000)], tiered=True)
    seen = []
    loads = made.replicas[0].loads
    assert loads is not None
    made.agenda.at(705_000, lambda _: seen.append([sorted(map(int, _held(tier.store))) for tier in loads.tiers]))
    made.agenda.run()
    whole(made, 8)
    assert seen == [[[], []]] or seen[0][0] == []


def _held(store: Any) -> list[int]:
    return [identity for identity in range(100) if identity in store.held]


def test_local_prompts_go_to_prefill_while_no_decode_replica_is_up() -> None:
    setting = replace(APART, replicas=1, decoders=1, blocks=4000, decode_blocks=4000)
    asks = asked([[1000, 4, 5], [950_000, 4, 5]])
    made = fleet(asks, setting, rules("retry"), planned=[Planned(10, "replica 2", 900_000)])
    made.fleet.local = LocalPrompts(tokens=10)
    made.agenda.run()
    whole(made, 2)
    assert made.fleet.kv_transfer is not None and [row[0] for row in made.fleet.kv_transfer.rows] == [0]


@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["retry", "migrate", "fail"]),
    decoders=st.sampled_from([0, 2]),
    slots=st.sampled_from([None, 2]),
    by_layer=st.booleans(),
    times=TIMES,
)
@simulations(15)
@example(seed=1972, kind="retry", decoders=2, slots=None, by_layer=True, times=[])
def test_adapters_after_any_failures(
    seed: int, kind: str, decoders: int, slots: int | None, by_layer: bool, times: list[Any]
) -> None:
    """Adapters are loaded again, requests that wait for one are not lost; beside pools, where none fails."""
    times = times if not decoders else []
    setting = replace(APART, replicas=2, decoders=decoders, by_layer=by_layer)
    known = [(at, lasts, who % (2 + decoders)) for at, lasts, who in times]
    of = stream(seed, "adapters").integers(-1, 5, 60).tolist()
    found = []
    for fast_forward in (True, False):
        given = asked(rows(60, 12_000.0, seed)), setting, rules(kind), fast_forward
        made = fleet(*given, planned=planned(known))
        attached(made, of, slots)
        made.agenda.run()
        operations = made.fleet.operations
        assert operations is not None
        operations.check()
        for replica in made.replicas:
            adapters = replica.adapters
            assert adapters is not None
            assert not (adapters._users or adapters._coming or adapters._aside or adapters._since or adapters._moved)
            assert adapters.idle_blocks == sum(map(adapters._blocks, adapters._idle))
            replica.blocks.give_back(adapters.idle_blocks)
        whole(made, 60)
        found.append(outcome(made))
    assert found[0] == found[1]


@pytest.mark.parametrize("slots", [None, 1])
def test_a_cache_and_its_adapter_come_beside_each_other(slots: int | None) -> None:
    """The decode side loads the adapter while the cache is on its way; decoding begins when both are there."""
    setting = replace(APART, replicas=1, decoders=1, blocks=4000, decode_blocks=4000, most=8, price=TOKENS)
    first = []
    for bandwidth in (100.0, 0.01):
        made = fleet(asked([[0, 40, 3]]), setting, rules("retry"))
        both = attached(made, [3], slots, load=path(0.0, [Lane(made.agenda.add(bandwidth), bandwidth)]))
        made.agenda.run()
        assert made.fleet.kv_transfer is not None
        ((_, start, end, _),) = made.fleet.kv_transfer.rows
        ticks = round(50_000.0 / bandwidth)
        kernels = 100 + 3 * 40
        assert start == ticks + 10 * 40 + kernels
        assert made.ledger.finish[0] == max(end, start + ticks) + 2 * (10 + 100 + 3)
        assert [one.counts.loads for one in both] == [1, 1]
        first.append(end - start)
    assert first[0] == first[1] < 50_000.0 / 0.01
