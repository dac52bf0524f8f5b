"""Attention ranks in step that let prompts join together (TensorRT-LLM's `attention_dp_config`, `enable_balance`)."""

import pytest

from tests.replicas import Price, Setting, asked, check, run

LONG = (0, 4, 200)
"""A request of each of two ranks that decodes for 199 iterations."""
STEP = Price(row=1, sample=0, read=0, edge=1 << 62, base=0, overhead=1000, each=0)
"""Iterations of 1,000 ticks, and one for each row."""


def setting(every: int, wait: int = 0, ranks: int = 2) -> Setting:
    return Setting(policy="guaranteed", price=STEP, replicas=ranks, sharers=ranks, balance=(every, wait))


@pytest.mark.parametrize("every", [1, 10, 40])
def test_a_prompt_alone_joins_one_iteration_of_so_many(every: int) -> None:
    """Its wait is less than `every` iterations and ends at a multiple of them from the first on."""
    done = run(asked([LONG, LONG, (15_500, 4, 2)]), setting(every))
    check(done)
    (begun, _, decodes) = next(one for replica in done.replicas for one in replica.admitted if one[0] > 0)
    number = round(begun / 1001)
    assert decodes == 1
    assert 16 <= number < 17 + every
    assert number % every == 0


def test_prompts_of_all_ranks_join_at_once() -> None:
    """Two that come together find each rank with one."""
    rows = [LONG, LONG, (15_500, 4, 2), (15_500, 4, 2)]
    together, held = (run(asked(rows), setting(1000, wait)) for wait in (0, 5))
    begun = [sorted(one[0] for replica in done.replicas for one in replica.admitted)[2:] for done in (together, held)]
    assert begun[0][0] == begun[0][1] <= 17 * 1001
    assert [round((late - early) / 1001) for early, late in zip(*begun, strict=True)] == [5, 5]


def test_prompts_join_where_a_rank_has_nothing_to_do() -> None:
    done = run(asked([LONG, (500, 4, 2)]), setting(1000))
    check(done)
    assert done.ledger.first_token[1] < 3 * 1001 + 4


@pytest.mark.parametrize("balance", [(7, 0), (7, 3), (1000, 0)])
def test_fast_forward_changes_nothing(balance: tuple[int, int]) -> None:
    rows = [(2711 * i, 3 + i % 5, 20 + 7 * (i % 11)) for i in range(60)]
    one, other = (run(asked(rows), setting(*balance, ranks=3), fast_forward=leap) for leap in (True, False))
    check(one)
    assert one.ledger.first_token == other.ledger.first_token
    assert one.ledger.finish == other.ledger.finish
    plain = run(asked(rows), setting(0, ranks=3))
    assert sum(one.ledger.first_token) > sum(plain.ledger.first_token)
