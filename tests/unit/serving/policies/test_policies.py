"""Batching policies: which prompts an iteration works on, in which order, within which limits."""

from typing import Any

import pytest

from simulator.errors import InputError
from simulator.serving.policies import POLICIES
from tests.replicas import ENDLESS, TOKENS, Price, Setting, System, asked, check, run

Admitted = list[tuple[int, list[tuple[int, int]], int]]


def admitted(rows: list[tuple[int, int, int]], policy: str, **setting: Any) -> Admitted:
    """(tick, [(request, tokens of its prompt)], decodes in the batch) of every iteration with prompts."""
    return served(rows, policy, **setting).replicas[0].admitted


def served(rows: list[tuple[int, int, int]], policy: str, priority: list[int] | None = None, **setting: Any) -> System:
    columns = {} if priority is None else {"priority": priority}
    ran = run(asked(rows, **columns), Setting(policy, **setting))
    check(ran)
    return ran


def prompts(admitted: Admitted) -> list[list[tuple[int, int]]]:
    return [chunks for _, chunks, _ in admitted]


THREE = [(0, 40, 5), (0, 30, 5), (0, 20, 5)]
WHOLE = ("static", "orca", "vllm-v0", "guaranteed", "whole-prompts")
CUT = ("vllm-v1", "fair", "sarathi", "splitfuse", "shortest-first", "priority", "deadline", "prefill-first")


def test_every_policy_is_either_kind() -> None:
    assert set(WHOLE) | set(CUT) == set(POLICIES.names())
    assert {name for name in POLICIES.names() if not POLICIES.get(name).chunked} == set(WHOLE)


@pytest.mark.parametrize("policy", WHOLE)
def test_whole_prompts(policy: str) -> None:
    for chunks in prompts(admitted(THREE, policy, budget=64, most=2)):
        assert all(tokens == THREE[request][1] for request, tokens in chunks)


@pytest.mark.parametrize("policy", CUT)
def test_prompts_cut_to_the_budget(policy: str) -> None:
    ran = served(THREE, policy, budget=16)
    done = dict.fromkeys(range(3), 0)
    for _, chunks, _ in ran.replicas[0].admitted:
        for request, tokens in chunks:
            done[request] += tokens
    assert done == {0: 40, 1: 30, 2: 20}
    assert (ran.log()[:, 4] + ran.log()[:, 5] <= 16).all()


def test_static_batches_enter_and_leave_together() -> None:
    ran = served([(0, 10, 3), (0, 10, 9), (50, 10, 2), (60, 10, 4)], "static", most=2)
    first, second, third, fourth = zip(ran.ledger.scheduled, ran.ledger.finish, strict=True)
    assert first == second and third == fourth
    assert third[0] == first[1]
    rows = ran.log()
    assert (rows[rows[:, 6] > 0][:, 4] == 0).all()  # nobody decodes beside prompts


def test_a_static_batch_computes_rows_of_members_that_are_done() -> None:
    price = Price(row=10, sample=0, read=0, edge=ENDLESS, base=0, overhead=0, each=0)
    ran = served([(0, 10, 2), (0, 10, 11)], "static", price=price)
    assert ran.ledger.finish == [10 * 20 + 10 * 2 * 10] * 2


def test_orca_takes_memory_for_the_whole_answer() -> None:
    rows = [(0, 20, 60), (0, 20, 60)]
    ran = served(rows, "orca", blocks=30)
    assert ran.ledger.scheduled[1] == ran.ledger.finish[0]
    assert ran.ledger.preemptions == [0, 0]
    assert served(rows, "vllm-v1", blocks=30).ledger.scheduled[1] < ran.ledger.scheduled[1]


def test_orca_decodes_beside_prompts_without_a_budget() -> None:
    ran = served([(0, 40, 9), (700, 100, 2), (700, 100, 2)], "orca", budget=8)
    assert prompts(ran.replicas[0].admitted) == [[(0, 40)], [(1, 100), (2, 100)]]
    assert ran.log()[ran.log()[:, 5] == 200][0, 4] == 1


def test_guaranteed_keeps_to_the_budget_and_never_evicts() -> None:
    ran = served([(0, 40, 60), (0, 30, 60), (0, 30, 60)], "guaranteed", budget=64, blocks=60)
    assert prompts(ran.replicas[0].admitted) == [[(0, 40)], [(1, 30)], [(2, 30)]]
    assert not any(ran.ledger.preemptions)


def test_v0_works_on_prompts_alone_and_first() -> None:
    ran = served([(0, 40, 30), (500, 30, 5), (500, 30, 5)], "vllm-v0", budget=64)
    assert prompts(ran.replicas[0].admitted) == [[(0, 40)], [(1, 30), (2, 30)]]
    rows = ran.log()
    assert (rows[rows[:, 5] > 0][:, 4] == 0).all()
    assert max(ran.ledger.first_token[1:]) < ran.ledger.finish[0]


def test_v0_puts_as_many_whole_prompts_into_an_iteration_as_fit() -> None:
    assert prompts(admitted([(0, 30, 2)] * 5, "vllm-v0", budget=64, most=8)) == [
        [(0, 30), (1, 30)],
        [(2, 30), (3, 30)],
        [(4, 30)],
    ]


def test_v0_works_on_a_prompt_longer_than_the_budget_in_an_iteration_of_its_own() -> None:
    assert prompts(admitted([(0, 10, 2), (0, 100, 2), (0, 10, 2)], "vllm-v0")) == [[(0, 10)], [(1, 100)], [(2, 10)]]


def test_prefill_first_cuts_what_v0_keeps_whole() -> None:
    ran = served([(0, 10, 30), (300, 100, 2)], "prefill-first", budget=64)
    assert prompts(ran.replicas[0].admitted) == [[(0, 10)], [(1, 64)], [(1, 36)]]
    rows = ran.log()
    assert (rows[rows[:, 5] > 0][:, 4] == 0).all()


def test_v1_decodes_first_and_fills_the_rest_in_order() -> None:
    ran = served([(0, 10, 30), (200, 100, 3), (200, 5, 3)], "vllm-v1", budget=16)
    assert prompts(ran.replicas[0].admitted)[1:] == [[(1, 15)]] * 6 + [[(1, 10), (2, 5)]]
    assert all(decodes == 1 for _, _, decodes in ran.replicas[0].admitted[1:])


def test_sarathi_fills_whole_tiles() -> None:
    """Rows of decodes and prompts together are a multiple of the tile wherever prompts fill them."""
    ran = served([(0, 10, 30), (200, 200, 3)], "sarathi", budget=50, tile=16)
    assert prompts(ran.replicas[0].admitted)[1:] == [[(1, 47)]] * 4 + [[(1, 12)]]
    assert prompts(admitted([(0, 100, 2)], "sarathi", budget=12, tile=16))[0] == [(0, 12)]  # less than a tile


def test_splitfuse_decides_like_v1_but_takes_memory_for_whole_prompts() -> None:
    rows = [(0, 10, 30), (200, 100, 3), (200, 5, 3)]
    assert prompts(admitted(rows, "splitfuse", budget=16)) == prompts(admitted(rows, "vllm-v1", budget=16))
    for policy, blocks in (("splitfuse", 25), ("vllm-v1", 4)):
        ran = served([(0, 100, 2)], policy, budget=16)
        assert ran.log()[0, 8] == blocks  # for the first piece


def test_shortest_first_overtakes_and_lets_small_ones_by() -> None:
    ran = served([(0, 10, 40), (50, 90, 2), (60, 50, 2), (70, 5, 2)], "shortest-first", most=2, budget=64)
    assert [chunks[0][0] for chunks in prompts(ran.replicas[0].admitted)[1:3]] == [3, 2]
    blocked = served([(0, 60, 20), (10, 100, 2), (10, 8, 2)], "shortest-first", blocks=30, budget=128)
    assert blocked.ledger.scheduled[2] < blocked.ledger.finish[0] <= blocked.ledger.scheduled[1]


def test_priority_goes_by_class_then_by_arrival() -> None:
    rows = [(0, 10, 5), (1, 10, 1), (2, 10, 1), (3, 10, 1), (4, 10, 1)]
    ran = served(rows, "priority", priority=[0, 2, 1, 0, 1], most=1)
    assert [chunks[0][0] for chunks in prompts(ran.replicas[0].admitted)] == [0, 3, 2, 4, 1]


def test_waiting_makes_urgent() -> None:
    rows = [(0, 100, 1), (1, 10, 1), (600, 10, 1)]
    setting: dict[str, Any] = {"priority": [0, 1, 0], "most": 1, "budget": 200, "price": TOKENS}
    assert served(rows, "priority", **setting).ledger.scheduled == [0, 1100, 1000]
    assert served(rows, "priority", ageing=500, **setting).ledger.scheduled == [0, 1000, 1100]
    assert served(rows, "priority", ageing=5000, **setting).ledger.scheduled == [0, 1100, 1000]


def test_deadline_goes_by_what_is_due_first() -> None:
    """A long prompt has to start earlier; one that is late already comes last."""
    rows = [(0, 100, 1), (1, 10, 1), (2, 60, 1)]
    setting: dict[str, Any] = {"most": 1, "budget": 200, "price": TOKENS}
    assert served(rows, "deadline", ttft_slo=5000, **setting).ledger.scheduled == [0, 1600, 1000]
    assert served(rows, "deadline", ttft_slo=1200, **setting).ledger.scheduled == [0, 1000, 1100]
    late_last = served([(0, 100, 1), (1, 10, 1), (990, 10, 1)], "deadline", ttft_slo=900, **setting)
    assert late_last.ledger.scheduled == [0, 1100, 1000]
    # Both late: by arrival, although the long one should have begun earlier. Just in time is not late.
    assert served(rows, "deadline", ttft_slo=500, **setting).ledger.scheduled == [0, 1000, 1100]
    just = [(0, 100, 1), (1, 10, 1), (2, 10, 1)]
    assert served(just, "deadline", ttft_slo=1099, **setting).ledger.scheduled == [0, 1000, 1100]


@pytest.mark.parametrize("policy", ["sarathi", "guaranteed", "vllm-v1", "orca"])
def test_decodes_ride_along(policy: str) -> None:
    """The first request decodes in the very iteration that works on the second one's prompt."""
    ran = served([(0, 10, 30), (200, 20, 3)], policy, budget=64)
    assert ran.log()[ran.log()[:, 5] == 20][:, 4].tolist() == [1]


@pytest.mark.parametrize("policy", WHOLE)
def test_a_whole_prompt_may_be_just_as_long_as_the_budget(policy: str) -> None:
    assert prompts(admitted([(0, 64, 2)], policy, budget=64)) == [[(0, 64)]]


def test_a_whole_prompt_waits_where_those_who_decode_leave_too_little() -> None:
    """One sequence that decodes leaves 63 of 64 tokens, too few for 64 but enough for 63."""
    for tokens, waits in ((64, True), (63, False)):
        ledger = served([(0, 10, 30), (1, tokens, 2)], "guaranteed", budget=64).ledger
        assert (ledger.scheduled[1] >= ledger.finish[0]) == waits


@pytest.mark.parametrize("policy", CUT)
def test_the_last_piece_of_a_prompt_may_be_a_single_token(policy: str) -> None:
    assert prompts(admitted([(0, 17, 2)], policy, budget=16)) == [[(0, 16)], [(0, 1)]]


def test_a_piece_of_a_prompt_is_cut_to_the_blocks_that_are_left() -> None:
    """Of 8 blocks of 4 the first takes 4 and then a fifth for its next token; the second has one with 3 places left
    in it, and two more are free: 11 of its 23 tokens."""
    assert prompts(admitted([(0, 16, 12), (0, 24, 2)], "vllm-v1", budget=17, blocks=8))[:2] == [
        [(0, 16), (1, 1)],
        [(1, 11)],
    ]


def test_a_prompt_under_way_takes_blocks_before_those_that_wait() -> None:
    """It needs both blocks that are free; the budget would have let the second one in."""
    found = prompts(admitted([(0, 19, 1), (0, 4, 1)], "vllm-v1", budget=12, blocks=5))
    assert found == [[(0, 12)], [(0, 7)], [(1, 4)]]


def test_many_short_prompts_take_a_block_each() -> None:
    """Eight tokens would fit into two blocks of 4, but every request has its own."""
    found = prompts(admitted([(0, 1, 1)] * 8, "vllm-v1", budget=16, blocks=6, most=8))
    assert found == [[(request, 1) for request in range(6)], [(6, 1), (7, 1)]]


def test_a_cached_prefix_takes_the_idle_blocks_that_it_pins() -> None:
    """10 blocks: 5 idle ones of a prefix, 5 of a sequence that decodes. A prompt of that prefix and one block more
    pins 5 and needs a sixth."""
    rows = [(0, 20, 1), (1000, 17, 8), (1001, 24, 1)]
    prefix: list[list[int]] = [[1, 2, 3, 4, 5], [], [1, 2, 3, 4, 5, 6]]
    ran = run(asked(rows, prefix, prefix_block=4), Setting(budget=8, blocks=10, cached=True))
    check(ran)
    assert ran.ledger.scheduled[2] == ran.ledger.finish[1]


@pytest.mark.parametrize("policy", POLICIES.names())
def test_no_more_sequences_than_places(policy: str) -> None:
    ran = served([(0, 5, 20)] * 12, policy, most=3)
    assert (ran.log()[:, 4] + ran.log()[:, 6]).max() == 3


@pytest.mark.parametrize("policy", POLICIES.names())
def test_the_watermark_keeps_blocks_free_at_admission(policy: str) -> None:
    rows = [(0, 40, 20), (0, 40, 20)]
    tight = served(rows, policy, blocks=31, watermark=0, budget=128)
    assert tight.ledger.status == [0, 0]
    kept = served(rows, policy, blocks=31, watermark=12, budget=128)
    assert kept.ledger.scheduled[1] >= kept.ledger.finish[0]


@pytest.mark.parametrize(("name", "nearest"), [("vllm", "vllm-v"), ("saratti", "sarathi"), ("statik", "static")])
def test_an_unknown_policy_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(InputError, match=nearest):
        POLICIES.get(name)
