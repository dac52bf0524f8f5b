"""Prefill and decode apart: what is conserved, what saturates first, what moving layer by layer hides."""

import pytest

from simulator.errors import InputError
from simulator.results.serving.service import FINISHED
from simulator.run.serve import ServingRun, run_serving, serve
from simulator.serving.fleet.rates import first_to_saturate, pool_rates
from simulator.serving.fleet.system import resolve
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario

FILE = "scenarios/serving/disaggregated-70b-h100.yaml"
SMALL = ("model=models/llama-3.1-8b", "stack=vllm", "serving.precision={}")
PROMPT, OUTPUT = 1500, 120


def pools(prefill: int, decode: int, more: str = "") -> str:
    reads = f"{{name: p, role: prefill, replicas: {prefill}, batching: {{token_budget: 8192}}}}"
    return (
        f"serving.pools=[{reads}, {{name: d, role: decode, replicas: {decode}, batching: {{max_sequences: 64{more}}}}}]"
    )


def asked(count: int, arrivals: str = "{at_once: true}", prompt: str = f"{{fixed: {PROMPT}}}") -> str:
    return (
        f"requests={{count: {count}, arrivals: {arrivals}, lengths: {{prompt: {prompt}, output: {{fixed: {OUTPUT}}}}}}}"
    )


def scenario(*changes: str) -> ServingScenario:
    found = load_scenario(FILE, [*SMALL, *changes]).scenario
    assert isinstance(found, ServingScenario)
    return found


def ran(*changes: str) -> ServingRun:
    run = run_serving(scenario(*changes))
    assert run.ledger.status == [FINISHED] * len(run.ledger)
    return run


UNEVEN = "{uniform: [100, 3000]}"
POISSON = "{poisson: 40 /s}"


@pytest.mark.parametrize("transfer", ["end", "layer"])
@pytest.mark.parametrize("router", ["least-outstanding", "round-robin", "random", "shortest-queue", "power-of-two"])
def test_requests_tokens_and_moved_bytes_are_conserved(router: str, transfer: str) -> None:
    given = (
        pools(2, 2),
        asked(60, POISSON, UNEVEN),
        f"serving.transfer={transfer}",
        f"+serving.decode_router={router}",
    )
    run = ran(*given)
    ledger, moves = run.ledger, run.kv_transfer
    assert moves is not None
    assert ledger.done == ledger.output
    assert sorted(request for request, *_ in moves.rows) == list(range(60))
    for request, start, end, size in moves.rows:
        assert size == pytest.approx(ledger.prompt[request] * run.systems[0].cost.kv_replica_bytes)
        assert start < end <= ledger.finish[request]
    assert all(not replica.blocks.held for replica in run.replicas)


def test_links_carry_what_moved() -> None:
    """Each pool on a node of its own: all caches leave by the cards of one and enter by those of the other."""
    where = ("cluster.nodes=2", "+serving.parallel={tp: 8}")
    result = serve(scenario(pools(1, 1), asked(20, POISSON, UNEVEN), *where))
    assert result.service is not None and result.service.transfers is not None
    moved = float(result.service.transfers.bytes.sum())
    for way in ("NIC up", "NIC down"):
        (card,) = (link for link in result.links if link.name == way)
        assert card.by_operation == {"kv transfer": pytest.approx(moved / 8, rel=0.02)}  # with what protocols add


@pytest.mark.parametrize(("prefill", "decode", "first"), [(1, 4, "p"), (4, 1, "d"), (2, 2, None)])
def test_a_burst_is_taken_up_at_the_rate_of_the_slower_pool(prefill: int, decode: int, first: str | None) -> None:
    given = scenario(pools(prefill, decode), asked(1200))
    systems = resolve(given)
    least = first_to_saturate(systems, PROMPT, OUTPUT)
    rates = {rate.name: rate.requests_per_s for rate in pool_rates(systems, PROMPT, OUTPUT)}
    assert least.requests_per_s == min(rates.values())
    assert first is None or least.name == first
    run = run_serving(given, systems=systems)
    finish = sorted(run.ledger.finish)
    middle = finish[300], finish[900]
    assert 600 / ((middle[1] - middle[0]) / 1e12) == pytest.approx(least.requests_per_s, rel=0.1)


def test_the_report_names_the_pool_that_saturates_first() -> None:
    told = [text for text in serve(scenario(pools(1, 4), asked(5))).assumptions if "saturates first" in text]
    assert len(told) == 1 and "`p` saturates first" in told[0]


def test_moving_by_layer_hides_all_but_the_last_layer() -> None:
    """A prompt alone: its cache is there one layer's way after it is done, where the rest fits beside the reading."""
    one = asked(1)
    late, early = (ran(pools(1, 1), one, f"serving.transfer={how}") for how in ("end", "layer"))
    ((_, start, end, _),) = late.kv_transfer.rows if late.kv_transfer else ()
    whole = end - start
    ((_, begun, here, _),) = early.kv_transfer.rows if early.kv_transfer else ()
    done = early.ledger.first_token[0]
    assert begun < done
    layers = late.scenario.model.layers
    assert whole / layers <= here - done < whole / layers + 10e6  # its share, and 10 us of latency at most
    assert late.ledger.finish[0] - early.ledger.finish[0] == pytest.approx(whole * (1 - 1 / layers), rel=0.05)


def test_the_first_token_of_the_decode_side_comes_with_the_cache() -> None:
    here, there = (ran(pools(1, 1), asked(1), f"+serving.first_token={side}") for side in ("prefill", "decode"))
    assert there.kv_transfer is not None
    assert there.ledger.first_token[0] == there.kv_transfer.rows[0][2] > here.ledger.first_token[0]
    assert there.ledger.finish == here.ledger.finish


def test_short_prompts_are_read_where_answers_are_written() -> None:
    run = ran(pools(1, 1), asked(60, POISSON, UNEVEN), "+serving.local_prompts={tokens: 1000}")
    assert run.kv_transfer is not None
    moved = {request for request, *_ in run.kv_transfer.rows}
    short = {request for request, prompt in enumerate(run.ledger.prompt) if prompt <= 1000}
    assert short and moved == set(range(60)) - short


def test_prompts_stay_while_many_wait_for_the_prefill_side() -> None:
    none, some = (ran(pools(1, 1), asked(100), *rule) for rule in ((), ("+serving.local_prompts={queue: 8}",)))
    assert none.kv_transfer is not None and some.kv_transfer is not None
    assert len(none.kv_transfer.rows) == 100 > len(some.kv_transfer.rows) >= 8


def test_roles_change_towards_the_side_that_has_too_much() -> None:
    rule = "+serving.switching={check: 200 ms, above: 4, below: 2, delay: 100 ms}"
    busy = asked(600, "{poisson: 50 /s}")
    fixed, changed = ran(pools(1, 4), busy), ran(pools(1, 4), busy, rule)
    assert changed.roles is not None
    roles = [role for _, _, role in changed.roles.changes]
    assert roles and roles[0] == "prefill"
    assert max(changed.ledger.finish) < max(fixed.ledger.finish)
    gaps = [tick for tick, *_ in changed.roles.changes]
    assert gaps == sorted(gaps)
    sides = changed.roles.sides
    assert all(sides.values()) and sum(map(len, sides.values())) + (changed.roles.leaving is not None) == 5


@pytest.mark.parametrize(
    "key", ["first_token=decode", "local_prompts={tokens: 9}", "switching={}", "decode_router=random"]
)
def test_keys_of_two_sides_need_two_sides(key: str) -> None:
    with pytest.raises(InputError, match="is for `pools` with the roles"):
        load_scenario("serving/quickstart", [f"+serving.{key}"])


def test_an_unknown_router_of_caches_is_refused() -> None:
    with pytest.raises(InputError, match=r"serving\.decode_router"):
        ran(pools(1, 1), asked(1), "+serving.decode_router=by-luck")


def test_pools_that_do_not_fit_the_devices_are_named() -> None:
    with pytest.raises(InputError, match=r"pool `d`.*devices"):
        resolve(scenario(pools(4, 5)))


def test_a_pool_that_can_never_start_is_infeasible() -> None:
    """The model does not fit into one pool's memory, or no request fits into its cache: nothing is served."""
    small = "kv_cache: {blocks: 20}, "
    tiny = pools(1, 1).replace("name: d, ", f"name: d, {small}")
    result = serve(scenario(tiny, asked(3)))
    assert not result.feasible
    huge = load_scenario(FILE, ["model=models/llama-3.1-405b", pools(1, 1), asked(3)]).scenario
    assert isinstance(huge, ServingScenario)
    assert not serve(huge).feasible
