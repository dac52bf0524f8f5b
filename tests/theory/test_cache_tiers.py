"""Tiers of the cache: what is loaded arrives when its bytes have, blocks and bytes are conserved, leaps change nothing.

Replicas have prices made by hand; ticks of loads are counted here from bytes and bandwidths.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.interop import traces
from simulator.results.result import Result
from simulator.run.serve import run_serving, serve
from simulator.serving.replica.caches.loads import KvLoads, LoadRules, Tier
from simulator.serving.tiers.path import Lane, path
from simulator.serving.tiers.store import empty
from simulator.specs import load_scenario
from tests.replicas import TOKENS, Setting, System, asked, check, system

ALWAYS = LoadRules()
SETTING = Setting(cached=True, price=TOKENS, budget=64, most=4, blocks=60, block_size=4)
"""10 ticks a row, 1,000 bytes a token, identities of 16 tokens: 4 blocks, 16,000 bytes."""
PIECE = 16_000


def attached(
    ran: System, *tiers: dict[str, Any], rules: LoadRules = ALWAYS, shared: bool = False
) -> list[tuple[Any, ...]]:
    """Give each replica tiers of so many identities behind links of so many bytes per tick; the stores of each."""
    made = []
    for replica in ran.replicas:
        ways = []
        for i, tier in enumerate(tiers):
            known = made[0][i] if shared and made else None
            store = known or empty(f"tier {i}", tier["size"], tier.get("back", False), tier.get("eviction", "lru"))
            lane = Lane(ran.agenda.add(tier["rate"]), tier["rate"])
            way = path(tier.get("latency", 0.0), [lane])
            ways.append(Tier(store, way, way, way, keeps=i == 0 and len(tiers) > 1))
        loads = replica.loads = KvLoads(replica, ways, rules)
        cache = replica.blocks.cache
        assert cache is not None
        replica.blocks.computed, cache.dropped = loads.computed, loads.dropped
        made.append(tuple(tier.store for tier in ways))
    return made


def prompts(*rows: tuple[int, int, int], chains: list[range] | None = None) -> Any:
    """Requests (arrival, prompt, output) whose prompts are told apart by chains of identities."""
    return asked(rows, prefix=chains)


def test_a_dropped_prefix_comes_back_over_its_link() -> None:
    # 6 identities = 96 tokens; the second request (14 identities) drops all of the first one's.
    chains = [range(6), range(100, 114), range(6)]
    work = prompts((0, 100, 1), (20_000, 230, 1), (40_000, 100, 1), chains=chains)
    ran = system(work, SETTING)
    ((store,),) = attached(ran, {"size": 1000, "rate": 100.0, "latency": 50e-12})
    ran.agenda.run()
    check(ran)
    load = 50 + 6 * PIECE / 100.0
    assert ran.ledger.cached == [0, 0, 96]
    assert ran.ledger.scheduled[2] == 40_000 + load
    assert ran.ledger.first_token[2] == 40_000 + load + 4 * 10
    assert (store.hits, store.read_bytes) == (6, 6 * PIECE)
    assert store.written_bytes == (6 + 14) * PIECE
    assert list(ran.replicas[0].loads.waits) == [load]  # type: ignore[union-attr]


def test_only_what_is_missing_travels_and_one_token_is_worked_on() -> None:
    chains = [range(6), range(6)]
    ran = system(prompts((0, 96, 1), (20_000, 96, 1), chains=chains), SETTING)
    ((store,),) = attached(ran, {"size": 1000, "rate": 100.0})
    ran.agenda.run()
    assert (store.hits, store.asked, store.read_bytes) == (0, 1, 0.0)  # once for the first, then the devices hold it
    assert ran.ledger.cached[1] == 80  # 5 of 6: one token is always worked on


def test_loading_is_left_out_where_computing_is_faster() -> None:
    chains = [range(6), range(100, 114), range(6)]
    work = prompts((0, 100, 1), (20_000, 230, 1), (40_000, 100, 1), chains=chains)
    for rate, loaded in ((96 * 1000 / 950.0, True), (96 * 1000 / 970.0, False)):  # computing 96 tokens takes 960
        ran = system(work, SETTING)
        ((store,),) = attached(ran, {"size": 1000, "rate": rate}, rules=LoadRules(faster=True))
        ran.agenda.run()
        assert bool(store.hits) == loaded
        assert ran.replicas[0].loads.declined == (not loaded)  # type: ignore[union-attr]
        assert ran.ledger.first_token[2] - 40_000 == (950 + 40 if loaded else 1000)


def test_few_tokens_are_not_loaded() -> None:
    chains = [range(6), range(100, 114), range(6)]
    work = prompts((0, 100, 1), (20_000, 230, 1), (40_000, 100, 1), chains=chains)
    for least, hits in ((96, 6), (97, 0)):
        ran = system(work, SETTING)
        ((store,),) = attached(ran, {"size": 1000, "rate": 100.0}, rules=LoadRules(least=least))
        ran.agenda.run()
        assert store.hits == hits


@pytest.mark.parametrize("layers", [1, 4, 32])
@pytest.mark.parametrize("rate", [1e9, 1000.0, 100.0, 20.0])
def test_layers_are_loaded_behind_those_before_them(layers: int, rate: float) -> None:
    """Of L equal layers that load in l and compute in c each the prompt waits for l, or for L l - (L - 1) c."""
    chains = [range(3), range(100, 114), range(3)]
    work = prompts((0, 100, 1), (20_000, 230, 1), (40_000, 112, 1), chains=chains)
    ran = system(work, SETTING)
    attached(ran, {"size": 1000, "rate": rate}, rules=LoadRules(layers=layers))
    ran.agenda.run()
    check(ran)
    load, computing = 3 * PIECE / rate, 64 * 10.0
    waits = max(load / layers, load - (layers - 1) / layers * computing)
    assert ran.ledger.scheduled[2] - 40_000 == pytest.approx(waits, abs=2)


def test_loads_run_beside_iterations_and_share_their_link() -> None:
    """Two loads at once take as long as both one after the other, and decodes of a third go on meanwhile."""
    big = replace(SETTING, blocks=110)
    chains = [range(6), range(10, 16), range(100, 126), range(0), range(6), range(10, 16)]
    rows = [(0, 100, 1), (5_000, 100, 1), (20_000, 430, 1), (39_000, 4, 150), (40_000, 100, 1), (40_000, 100, 1)]
    ran = system(prompts(*rows, chains=chains), big)
    attached(ran, {"size": 1000, "rate": 96.0})
    ran.agenda.run()
    check(ran)
    starts = [ran.ledger.scheduled[i] - 40_000 for i in (4, 5)]
    assert all(2000 <= start <= 2010 for start in starts)  # 1,000 each alone; on an iteration's boundary
    assert ran.ledger.first_token[3] == 39_040
    assert ran.ledger.finish[3] == 39_040 + 149 * 10 <= 42_000  # alone meanwhile


def test_a_shared_tier_serves_other_replicas() -> None:
    chains = [range(6), range(6)]
    work = prompts((0, 100, 1), (20_000, 100, 1), chains=chains)
    for shared, cached in ((True, 96), (False, 0)):
        ran = system(work, replace(SETTING, replicas=2))
        attached(ran, {"size": 1000, "rate": 100.0}, shared=shared)
        ran.agenda.run()
        check(ran)
        assert ran.ledger.replica == [0, 1]
        assert ran.ledger.cached[1] == cached


def test_a_block_that_is_still_being_written_is_not_found() -> None:
    chains = [range(6), range(6)]
    ran = system(prompts((0, 100, 1), (1_500, 100, 1), chains=chains), replace(SETTING, replicas=2))
    attached(ran, {"size": 1000, "rate": 96.0}, shared=True)  # computed at 1,000, written at 2,000
    ran.agenda.run()
    assert ran.ledger.cached == [0, 0]


@pytest.mark.parametrize("back", [True, False])
def test_write_back_moves_what_gives_way_and_write_through_what_is_computed(back: bool) -> None:
    chains = [range(6), range(100, 114), range(6)]
    work = prompts((0, 100, 1), (20_000, 230, 1), (40_000, 100, 1), chains=chains)
    ran = system(work, SETTING)
    ((store,),) = attached(ran, {"size": 1000, "rate": 100.0, "back": back})
    ran.agenda.run()
    check(ran)
    # Devices hold 15 identities: 14 of the second request drop 5 or more of the first; its load drops others.
    assert store.written_bytes == (len(store.held) if back else 20) * PIECE
    assert store.hits == (5 if back else 6) or back
    assert ran.ledger.cached[2] == 96


def test_what_a_tier_drops_goes_to_the_next_one() -> None:
    chains = [range(100 * i, 100 * i + 6) for i in range(4)]
    rows = [(20_000 * i, 100, 1) for i in range(4)]
    ran = system(prompts(*rows, chains=chains), SETTING)
    ((upper, lower),) = attached(ran, {"size": 10, "rate": 100.0}, {"size": 100, "rate": 50.0, "back": True})
    ran.agenda.run()
    assert len(upper.held) == 10
    assert upper.dropped == 14 and len(lower.held) == 14
    assert lower.written_bytes == 14 * PIECE
    together = {one for chain in chains for one in chain}
    assert {one for one in together if one in upper.held or one in lower.held} == together  # nothing is lost
    assert not any(one in upper.held and one in lower.held for one in together)


def crowd(seed: int, count: int = 60) -> Any:
    """Requests of 8 documents with turns, at random moments, on little memory."""
    random = np.random.default_rng(seed)
    arrival = np.sort(random.integers(0, 60_000, count))
    document = random.zipf(1.4, count) % 8
    pieces = random.integers(1, 7, count)
    chains = [range(100 * d, 100 * d + p) for d, p in zip(document.tolist(), pieces.tolist(), strict=True)]
    prompt = pieces * 16 + random.integers(1, 12, count)
    return prompts(
        *zip(arrival.tolist(), prompt.tolist(), random.integers(1, 40, count).tolist(), strict=True), chains=chains
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("policy", ["vllm-v1", "sarathi", "shortest-first", "orca"])
def test_blocks_and_bytes_are_conserved_and_leaps_change_nothing(seed: int, policy: str) -> None:
    back, layers = bool(seed % 2), 4 if seed % 3 == 0 else 1
    setting = replace(SETTING, blocks=48, policy=policy, replicas=1 + seed % 2)
    seen = []
    for leap in (True, False):
        ran = system(crowd(seed), setting, leap)
        tiers = {"size": 12, "rate": 150.0, "back": back}, {"size": 25, "rate": 40.0, "latency": 100e-12, "back": True}
        stores = attached(ran, *tiers, rules=LoadRules(layers=layers), shared=bool(seed // 4))
        ran.agenda.run()
        check(ran)
        each = {id(store): store for row in stores for store in row}
        for store in each.values():
            assert not store.coming and len(store.held) <= store.capacity
            assert store.read_bytes == store.hits * PIECE
            assert store.written_bytes % PIECE == 0 and store.hits <= store.asked
        loads = [replica.loads for replica in ran.replicas]
        assert not any(one._loading or one._looked or one._promised for one in loads if one is not None)
        own = ran.ledger
        seen.append((own.scheduled, own.first_token, own.finish, own.cached, [one.hits for one in each.values()]))
    assert seen[0] == seen[1]


FILE = "scenarios/serving/quickstart.yaml"
TURNS = (
    "requests.count=150",
    "+requests.sessions={turns: {uniform: [2, 6]}, think: {exponential: 20}}",
    "serving.batching.max_sequences=32",
)


def served(*overrides: str, leap: bool = True) -> Result:
    return serve(load_scenario(FILE, [*TURNS, *overrides]).spec, leap=leap)  # type: ignore[arg-type]


def cache(tiers: str, blocks: int = 1600) -> str:
    return f"+serving.kv_cache={{prefix_caching: block, blocks: {blocks}, tiers: [{tiers}]}}"


def test_a_scenario_with_tiers_computes_less_and_says_what_it_moved() -> None:
    plain = served("+serving.kv_cache={prefix_caching: block, blocks: 1600}")
    result = served(cache("{name: host, capacity: 100 GB}, {name: ssd, capacity: 1 TB, bandwidth: 6 GB/s}"))
    assert result.service is not None
    host, ssd = result.service.tiers
    assert (host.name, host.path, ssd.path) == ("host", "host", "disk")
    assert result.metrics["prefix_cache_hit_rate"] > plain.metrics["prefix_cache_hit_rate"]
    assert result.metrics["mean_ttft_ms"] < plain.metrics["mean_ttft_ms"]
    token = 2 * 32 * 4096 * 2
    assert host.read == host.hit_tokens * token > 0
    assert result.metrics["tier_bytes_read"] == host.read + ssd.read
    assert ssd.hit_tokens == 0 and ssd.written > 0  # all is in host memory first
    # The host link of an A100 carries 25 GB/s: no load is faster than its bytes.
    waits = result.service.load_waits / 1e12
    assert waits.sum() >= host.read / 32e9
    assert result.metrics["mean_tier_load_ms"] == pytest.approx(1e3 * waits.mean())


@pytest.mark.parametrize("write", ["through", "back"])
def test_a_tier_that_holds_no_block_is_none(write: str) -> None:
    """Neither loads nor what gives way stop at it; it was dropped from though it was empty."""
    ssd = f"{{name: ssd, capacity: 1 TB, bandwidth: 6 GB/s, write: {write}}}"
    plain = served(cache(ssd))
    result = served(cache(f"{{name: host, capacity: 1 B, write: {write}}}, {ssd}"))
    assert result.metrics == plain.metrics
    assert "the tier `host` has no effect" in " ".join(result.warnings)
    assert result.metrics["tier_bytes_read"] > 0


def test_scenarios_with_tiers_leap_and_repeat() -> None:
    tiers = cache(
        "{name: host, capacity: 20 GB, write: back}, {name: ssd, capacity: 1 TB, bandwidth: 6 GB/s, write: back}"
    )
    results = [served(tiers, "+serving.replicas=2", leap=leap) for leap in (True, True, False)]
    first, again, slow = (result.service for result in results)
    assert first is not None and again is not None and slow is not None
    assert first.tiers == again.tiers == slow.tiers
    for name in ("scheduled", "first_token", "finish", "cached"):
        assert (getattr(first.requests, name) == getattr(again.requests, name)).all()
        assert (getattr(first.requests, name) == getattr(slow.requests, name)).all()
    assert first.tiers[1].read > 0


def test_a_store_over_the_network_is_read_through_the_cards_of_the_devices() -> None:
    tiers = "{name: store, capacity: 10 TB, shared: true}"
    run = run_serving(load_scenario(FILE, [*TURNS, "+serving.replicas=2", cache(tiers)]).spec)  # type: ignore[arg-type]
    (tier,) = run.replicas[0].loads.tiers  # type: ignore[union-attr]
    assert run.tiers is not None
    (use,) = run.tiers.used()
    assert use.memories == 1 and use.read > 0
    assert tier.read.rate * 1e12 == pytest.approx(8 * 25e9)  # alone, a node's cards: no fabric joins it to others
    two = run_serving(  # type: ignore[arg-type]
        load_scenario(FILE, [*TURNS, "cluster.nodes=2", "+serving.replicas=2", cache(tiers)]).spec
    )
    (tier,) = two.replicas[0].loads.tiers  # type: ignore[union-attr]
    assert tier.read.rate * 1e12 == pytest.approx(25e9)  # the card of its device
    slow = "{name: store, capacity: 10 TB, shared: true, bandwidth: 2 GB/s}"
    run = run_serving(load_scenario(FILE, [*TURNS, cache(slow)]).spec)  # type: ignore[arg-type]
    (tier,) = run.replicas[0].loads.tiers  # type: ignore[union-attr]
    assert tier.read.rate * 1e12 == pytest.approx(2e9)


TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces" / "mooncake"


@pytest.mark.skipif(not TRACES.is_dir(), reason="Mooncake's traces are not there")
@pytest.mark.parametrize(
    ("file", "rates"),
    [
        ("conversation_trace.jsonl", {1_000: 0.044, 10_000: 0.211, 50_000: 0.355, 200_000: 0.366}),
        ("synthetic_trace.jsonl", {1_000: 0.082, 10_000: 0.423, 50_000: 0.640}),
    ],
)
def test_hits_on_mooncakes_traces_are_those_that_were_counted(file: str, rates: dict[int, float]) -> None:
    """Shares of blocks that hit in a memory of so many, one request after the other, as counted apart from this."""
    hashes = traces.read(str(TRACES / file)).hashes
    assert hashes is not None
    for capacity, rate in rates.items():
        store, hits = empty("store", capacity, False, "lru"), 0
        for chain in hashes:
            found = next((i for i, one in enumerate(chain) if one not in store.held), len(chain))
            hits += found
            store.use(chain)
            store.put([one for one in chain if one not in store.held])
        assert hits / sum(map(len, hashes)) == pytest.approx(rate, abs=0.0025)  # the order in a prompt differs
