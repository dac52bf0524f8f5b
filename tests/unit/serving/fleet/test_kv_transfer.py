"""Caches that move from prefill to decode replicas: how long, in which order, and what a full decode pool does."""

from dataclasses import replace
from typing import Any

import pytest

from simulator import collectives, fabric, units
from simulator.engine.agenda import Agenda
from simulator.fabric.sharing import max_min
from simulator.random import stream
from simulator.results.serving.service import FINISHED, REJECTED
from simulator.serving.fleet.fleet import Fleet
from simulator.serving.fleet.kv_transfer import KvTransfer
from simulator.serving.fleet.router import ROUTERS, Choice
from simulator.serving.replica.batch import Batch
from simulator.serving.replica.ledger import open_ledger
from simulator.serving.replica.lockstep import Lockstep
from simulator.serving.workload.generate import Workload
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from tests.machines import cluster, profile
from tests.replicas import ENDLESS, Price, Setting, System, asked, check, replica, run

TOKEN = 1e5
LAYERS = 4
PLAIN = Price(row=10_000, sample=0, read=0, edge=ENDLESS, base=0, overhead=50_000, each=0)
APART = Setting(decoders=1, price=PLAIN, budget=1 << 20, most=8)


def moved(
    workload: Workload,
    setting: Setting = APART,
    places: dict[int, tuple[int, ...]] | None = None,
    *,
    in_step: bool = False,
    by_decode: bool = False,
    **of_cluster: Any,
) -> tuple[System, KvTransfer]:
    """A run on devices of a cluster: prefill replicas first, which may run in step, then decode replicas."""
    network = fabric.build(cluster(**of_cluster))
    agenda = Agenda(network.capacity / units.TICKS_PER_SECOND, max_min)
    ledger = open_ledger(workload)
    fleet = Fleet(agenda, ledger, workload, ROUTERS.get("round-robin"), Choice(stream(0, "router")))
    roles = ["prefill"] * setting.replicas + ["decode"] * setting.decoders
    replicas = tuple(replica(setting, number, role, fleet, True) for number, role in enumerate(roles))
    where = places or {number: (number,) for number in range(len(roles))}
    transfer = fleet.kv_transfer = KvTransfer(
        agenda, ledger, network, profile(), where, TOKEN, LAYERS, setting.by_layer, first_by_decode=by_decode
    )
    transfer.decoders = replicas[setting.replicas :]
    if in_step:
        Lockstep(agenda, list(replicas[: setting.replicas]))
    fleet.open(replicas[: setting.replicas])
    agenda.run()
    ran = System(workload, ledger, replicas, fleet, agenda)
    check(ran)
    return ran, transfer


def sent(tokens: int, pairs: list[tuple[int, int]], **of_cluster: Any) -> int:
    """Ticks of that cache sent alone, from device to device in equal shares."""
    network = fabric.build(cluster(**of_cluster))
    cost = collectives.cost_of("send", pairs, tokens * TOKEN / len(pairs), network, profile())
    return int(cost.ticks.max())


@pytest.mark.parametrize("of_cluster", [{}, {"nodes": 4, "devices": 1, "nics": 1}])
@pytest.mark.parametrize("tokens", [40, 4000])
def test_alone_it_lasts_what_the_collective_costs(tokens: int, of_cluster: dict[str, Any]) -> None:
    ran, transfer = moved(asked([(0, tokens, 3)]), replace(APART, blocks=2000), **of_cluster)
    ((request, start, end, size),) = transfer.rows
    assert (request, start, size) == (0, ran.ledger.first_token[0], tokens * TOKEN)
    assert end - start == pytest.approx(sent(tokens, [(0, 1)], **of_cluster), rel=1e-6, abs=2)
    assert ran.ledger.finish[0] == end + 2 * (10_000 + 50_000)
    assert ran.ledger.replica == [1]


def test_a_decode_engine_looks_for_caches_once_an_iteration() -> None:
    """The first token of a cache that comes while an iteration of 60,000 ticks runs goes out when that ends."""
    ran, transfer = moved(asked([(0, 40, 400), (10_000_000, 40, 3)]), by_decode=True)
    here = {request: end for request, _, end, _ in transfer.rows}
    first = ran.ledger.first_token
    assert first[0] == here[0]
    assert here[1] < first[1] < here[1] + 60_000 and (first[1] - first[0]) % 60_000 == 0
    assert ran.ledger.finish[1] == first[1] + 2 * 70_000


def test_a_cache_that_leaves_wakes_nobody_who_has_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    begin = Batch.begin

    def noted(batch: Batch, appointment: Any) -> None:
        begun.append(batch.replica.role)
        begin(batch, appointment)

    monkeypatch.setattr(Batch, "begin", noted)
    ran, transfer = moved(asked([(0, 4000, 3)]), replace(APART, blocks=2000))
    ((_, _, end, _),) = transfer.rows
    assert end > ran.ledger.first_token[0]  # the cache leaves after the prompt is done
    assert begun.count("prefill") == 2  # the prompt, and to go idle


def test_a_prompt_under_way_goes_on_with_the_memory_of_a_cache_that_leaves() -> None:
    """30 blocks of 4 tokens hold either prompt, not both."""
    setting = Setting(policy="sarathi", decoders=1, budget=8, most=2, blocks=30, block_size=4)
    ran, transfer = moved(asked([(0, 40, 2), (0, 90, 1)]), setting)
    assert ran.ledger.finish[1] > transfer.rows[0][2]


def test_all_devices_of_a_replica_send_at_once() -> None:
    _, transfer = moved(asked([(0, 4000, 3)]), replace(APART, blocks=2000), {0: (0, 1), 1: (2, 3)})
    ((_, start, end, _),) = transfer.rows
    assert end - start == pytest.approx(sent(4000, [(0, 2), (1, 3)]), rel=1e-6, abs=2)
    assert end - start < sent(4000, [(0, 2)])


def test_a_wide_replica_feeds_a_narrow_one() -> None:
    _, transfer = moved(asked([(0, 4000, 3)]), replace(APART, blocks=2000), {0: (0, 1, 2, 3), 1: (4,)})
    ((_, start, end, _),) = transfer.rows
    assert end - start == pytest.approx(sent(4000, [(source, 4) for source in range(4)]), rel=1e-6, abs=2)


def test_two_at_once_share_the_link_that_both_need() -> None:
    """Two prefill replicas, one decode replica: its way in carries both."""
    setting = replace(APART, replicas=2, blocks=2000)
    _, alone = moved(asked([(0, 4000, 3)]), setting)
    _, both = moved(asked([(0, 4000, 3)] * 2), setting)
    single = alone.rows[0][2] - alone.rows[0][1]
    latency = 1_000_000
    for _, start, end, _ in both.rows:
        assert end - start == pytest.approx(latency + 2 * (single - latency), rel=1e-3)


def test_two_on_ways_of_their_own_do_not_meet() -> None:
    setting = replace(APART, replicas=2, decoders=2, blocks=2000)
    _, alone = moved(asked([(0, 4000, 3)]), setting)
    _, both = moved(asked([(0, 4000, 3)] * 2), setting)
    assert [end - start for _, start, end, _ in both.rows] == [alone.rows[0][2] - alone.rows[0][1]] * 2


def test_the_decode_replica_with_the_fewest_requests_takes_it() -> None:
    ran, _ = moved(asked([(0, 40, 400), (10_000_000, 40, 400), (20_000_000, 40, 400)]), replace(APART, decoders=3))
    assert ran.ledger.replica == [1, 2, 3]


def test_finished_prompts_are_pulled_first_come_first_served() -> None:
    """One place to decode: transfers start one after the other, in the order in which prompts were done."""
    ran, transfer = moved(asked([(i, 40, 30) for i in range(6)]), replace(APART, most=1))
    assert [request for request, *_ in transfer.rows] == list(range(6))
    starts = [start for _, start, *_ in transfer.rows]
    assert starts[1:] == ran.ledger.finish[:-1]


def test_a_large_one_at_the_head_keeps_small_ones_behind_it_waiting() -> None:
    setting = replace(APART, blocks=1000, decode_blocks=30)
    ran, transfer = moved(asked([(0, 60, 40), (1, 100, 10), (2, 8, 2)]), setting)
    starts = {request: start for request, start, *_ in transfer.rows}
    assert starts[1] == ran.ledger.finish[0]
    assert starts[2] >= starts[1]


def test_a_stretch_gives_back_what_it_took_ahead_for_a_cache_that_comes() -> None:
    """The first grows from 10 to 25 of 30 blocks in one stretch; the second needs 10, which are free when it comes."""
    requests, setting = asked([(0, 40, 60), (16_000_000, 40, 2)]), replace(APART, decode_blocks=30)
    ran, transfer = moved(requests, setting)
    assert ran.log(1)[:, 1].max() > 1
    assert transfer.rows[0][2] < transfer.rows[1][1] == ran.ledger.first_token[1] < ran.ledger.finish[0]


@pytest.mark.parametrize("policy", ["orca", "static", "guaranteed"])
def test_policies_that_take_memory_whole_do_so_where_the_cache_arrives(policy: str) -> None:
    """10 tokens and an answer of 40 are 13 blocks of 4 each, with `vllm-v1` only the 3 of the prompt at first."""
    for blocks, together in ((26, True), (25, False)):
        ran, transfer = moved(asked([(0, 10, 40)] * 2), replace(APART, policy=policy, decode_blocks=blocks))
        assert (ran.log(1)[:, 4] == 2).any() == together
        assert (transfer.rows[1][1] < ran.ledger.finish[0]) == together
        assert ran.log(1)[:, 8].max() == (26 if together else 13)
    ran, _ = moved(asked([(0, 10, 40)] * 2), replace(APART, decode_blocks=25))
    assert (ran.log(1)[:, 4] == 2).any()


def test_a_full_decode_pool_holds_prefill_up() -> None:
    """Prompts keep the memory of their replica until they have moved: the third finds none and waits."""
    setting = replace(APART, blocks=20, most=1)
    ran, transfer = moved(asked([(i, 32, 30) for i in range(4)]), setting)
    arrived = {request: end for request, _, end, _ in transfer.rows}
    assert ran.ledger.scheduled[2] >= arrived[0]
    assert ran.ledger.scheduled[3] >= arrived[1]


def test_an_answer_of_one_token_does_not_move() -> None:
    ran, transfer = moved(asked([(0, 40, 1), (5, 40, 2)]))
    assert [request for request, *_ in transfer.rows] == [1]
    assert ran.ledger.replica == [0, 1]


def test_what_no_decode_replica_could_hold_is_rejected_and_holds_nobody_up() -> None:
    setting = replace(APART, decode_blocks=20)
    ran, _ = moved(asked([(0, 100, 8), (1, 40, 8)]), setting)
    assert ran.ledger.status == [REJECTED, FINISHED]


def test_layer_by_layer_arrives_earlier_and_not_before_the_last_layer_is_done() -> None:
    setting = replace(APART, blocks=2000)
    at_end, whole = moved(asked([(0, 4000, 3)]), setting)
    by_layer, layers = moved(asked([(0, 4000, 3)]), replace(setting, by_layer=True))
    prompt = at_end.ledger.first_token[0]
    assert by_layer.ledger.first_token == at_end.ledger.first_token
    assert layers.rows[0][1] == prompt // LAYERS
    assert prompt < layers.rows[0][2] < whole.rows[0][2]
    moving = whole.rows[0][2] - prompt
    assert layers.rows[0][2] >= prompt + moving // LAYERS


def test_the_last_layer_moves_after_the_prompt_where_the_others_have_moved_before() -> None:
    """4000 tokens are 400 MB, 4/3 ms at 300 GB/s after 1 us; the prompt takes 8 ms from 1 us on, a layer 2 ms."""
    slow = replace(PLAIN, overhead=8_000_000_000 - 4000 * 10_000)
    _, transfer = moved(asked([(1_000_000, 4000, 3)]), replace(APART, blocks=2000, price=slow, by_layer=True))
    ((_, start, end, _),) = transfer.rows
    assert start == 1_000_000 + 2_000_000_000
    assert end == pytest.approx(1_000_000 + 8_000_000_000 + 1_333_333_333 / 4 + 1_000_000, abs=3)


def test_layers_leave_replicas_that_run_in_step_by_the_length_of_the_common_iteration() -> None:
    """Alone the prompts would take 40.05 and 10.05 us; the first of four layers of both is done at 40.05 / 4."""
    setting = replace(APART, replicas=2, blocks=2000, by_layer=True)
    ran, transfer = moved(asked([(0, 4000, 3), (0, 1000, 3)]), setting, in_step=True)
    assert ran.ledger.first_token == [40_050_000, 40_050_000]
    assert [start for _, start, *_ in transfer.rows] == [40_050_000 // 4] * 2


@pytest.mark.parametrize("policy", ["vllm-v1", "orca", "static", "guaranteed"])
def test_a_replica_that_only_works_on_prompts_keeps_no_answer(policy: str) -> None:
    """40 tokens are 10 blocks of 4; with their answers of 60 two of them would be 50, and one 25."""
    setting = replace(APART, policy=policy, blocks=20, decode_blocks=100)
    ran, _ = moved(asked([(0, 40, 60)] * 2), setting)
    assert ran.ledger.status == [FINISHED] * 2
    assert ran.ledger.scheduled == [0, 0]
    assert ran.log(0)[:, 8].tolist() == [20]
    ran, _ = moved(asked([(0, 40, 60), (0, 41, 1)]), replace(setting, blocks=10))
    assert ran.ledger.status == [FINISHED, REJECTED]


def test_prompts_that_end_together_are_pulled_in_the_order_of_their_arrival() -> None:
    """Both end at 0.8 us, the later one in the iteration that began first: 50 rows and 20, 10 rows and 60."""
    rows = [(0, 50, 1), (0, 10, 1), (1, 20, 3), (2, 60, 3)]
    ran, transfer = moved(asked(rows), replace(APART, replicas=2, most=1))
    assert ran.ledger.first_token[2:] == [800_000, 800_000]
    assert [request for request, *_ in transfer.rows] == [2, 3]


def test_a_trunk_that_is_wide_enough_for_both_slows_neither() -> None:
    """Two cards of 25 GB/s of one leaf send over its trunk of 50 GB/s."""
    setting, nodes = replace(APART, replicas=2, decoders=2, blocks=2000), {"nodes": 4, "devices": 1, "nics": 1}
    _, both = moved(asked([(0, 4000, 3)] * 2), setting, **nodes)
    for _, start, end, _ in both.rows:
        assert end - start == pytest.approx(5_000_000 + 16_000_000_000, rel=1e-4)


def test_the_first_gap_holds_the_move() -> None:
    ran = run(asked([(0, 400, 3)]), Setting(decoders=1, price=PLAIN, budget=1000))
    longest = max(ran.replicas[1].record.gap_ticks)
    assert longest == ran.ledger.finish[0] - ran.ledger.first_token[0] - 60_000


def test_a_place_far_away_takes_longer() -> None:
    setting = replace(APART, blocks=2000)
    near = moved(asked([(0, 4000, 3)]), setting, {0: (0,), 1: (1,)}, nodes=2)[1].rows[0]
    far = moved(asked([(0, 4000, 3)]), setting, {0: (0,), 1: (8,)}, nodes=2)[1].rows[0]
    assert far[2] - far[1] > 5 * (near[2] - near[1])


def test_ways_between_single_devices_are_those_that_are_planned_for_each() -> None:
    """A way is planned once for all that lead over links of the same kinds; its links are its own."""
    network = fabric.build(load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": 40}))
    agenda = Agenda(network.capacity / units.TICKS_PER_SECOND, max_min)
    library = load_spec(CollectiveProfile, "nccl-h100")
    transfer = KvTransfer(agenda, open_ledger(asked((0, 1, 1))), network, library, {}, 1.0, 1, False)
    random = stream(1, "pairs")
    for source, target in (random.choice(320, 2, replace=False).tolist() for _ in range(60)):
        route = transfer._measured((source,), (target,))
        assert route == transfer._planned([(source, target)])
        assert {type(number) for use in route.uses for number in use} == {int, float}  # not numpy's, which are slow
    assert len(transfer._alike) < 10
