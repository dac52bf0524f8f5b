"""Layers with a state: a sequence takes blocks whatever its length, gives them back, and loses them with the rest."""

import pytest

from simulator.results.serving.service import FINISHED, REJECTED
from simulator.serving.policies import POLICIES
from tests.replicas import ENDLESS, Price, Setting, System, asked, check, run

PLAIN = Price(row=10, sample=0, read=0, edge=ENDLESS, base=0, overhead=50, each=0)


def ran(rows: list[tuple[int, int, int]], **setting: int | str) -> System:
    found = run(asked(rows), Setting(price=PLAIN, budget=128, **setting))  # type: ignore[arg-type]
    check(found)
    assert all(replica.blocks.free == replica.blocks.memory.blocks for replica in found.replicas)
    return found


def test_blocks_in_use_are_those_of_the_tokens_and_of_the_state() -> None:
    found = run(asked([(0, 10, 12)]), Setting(price=PLAIN, state=7), fast_forward=False)
    assert found.log()[:, 8].tolist() == [10] * 4 + [11] * 4 + [12] * 4


def test_states_bound_how_many_run_together() -> None:
    rows = [(0, 8, 8)] * 4
    assert ran(rows, blocks=100, state=10).log()[:, 4].max() == 4
    assert ran(rows, blocks=30, state=10).log()[:, 4].max() == 2


def test_a_state_that_does_not_fit_is_rejected() -> None:
    found = ran([(0, 8, 8), (0, 8, 9)], blocks=24, state=20)
    assert found.ledger.status == [FINISHED, REJECTED]


@pytest.mark.parametrize("swap", [0, 1000])
def test_the_preempted_loses_its_state_and_gets_it_back(swap: int) -> None:
    rows = [(0, 40, 60), (1, 40, 60)]
    found = ran(rows, blocks=30 + 2 * 9, state=9, swap=swap)
    assert found.ledger.preemptions == [0, 1]
    again = sum(row[5] for row in found.log().tolist())
    assert again == (80 if swap else 80 + 60)


@pytest.mark.parametrize("policy", POLICIES.names())
@pytest.mark.parametrize("decoders", [0, 1])
def test_every_policy_gives_all_back(policy: str, decoders: int) -> None:
    rows = [(5 * i, 10 + 7 * i % 40, 3 + 5 * i % 20) for i in range(12)]
    found = ran(rows, policy=policy, blocks=40, state=6, decoders=decoders)
    assert set(found.ledger.status) == {FINISHED}
