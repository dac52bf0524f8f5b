"""From the door to the queue: front ends, looks for new requests, iterations fixed ahead, prompts that wait."""

import pytest

from simulator.serving.workload.generate import NEVER
from tests.replicas import ENDLESS, Price, Setting, asked, run

FLAT = Price(row=0, sample=0, read=0, edge=ENDLESS, base=0, overhead=100, each=0)
"""Every iteration lasts 100 ticks."""
LEAP = pytest.mark.parametrize("leap", [True, False])


def starts(setting: Setting, leap: bool, *later: int) -> list[int]:
    """When prompts that come at some ticks are first worked on, beside one that decodes from 100 on."""
    ran = run(asked([(0, 8, 60), *((tick, 8, 5) for tick in later)]), setting, fast_forward=leap)
    return ran.ledger.scheduled[1:]


@LEAP
def test_a_request_is_looked_at_every_so_many_decodes_and_at_once_after_a_prompt(leap: bool) -> None:
    """Decodes since the prompt end at 200, 300, 400, ...: looks at 100, 500, and at once after the prompt of 500."""
    setting = Setting("prefill-first", price=FLAT, poll=4)
    assert starts(setting, leap, 130) == [500]
    assert starts(setting, leap, 130, 520) == [500, 600]
    assert starts(setting, leap, 500, 610) == [500, 1000]
    assert starts(Setting("prefill-first", price=FLAT), leap, 130) == [200]


@LEAP
def test_an_idle_engine_takes_what_comes_at_once(leap: bool) -> None:
    setting = Setting("prefill-first", price=FLAT, poll=50, ahead=True)
    assert run(asked([(30, 8, 5), (5000, 8, 5)]), setting, fast_forward=leap).ledger.scheduled == [30, 5000]


@LEAP
def test_an_iteration_fixed_ahead_is_missed_by_what_comes_while_one_runs(leap: bool) -> None:
    """It comes while 100 to 200 runs, of which the next was fixed at 100: it joins the one after, at 300."""
    assert starts(Setting(price=FLAT, ahead=True), leap, 130) == [300]
    assert starts(Setting(price=FLAT, ahead=True), leap, 130, 250) == [300, 400]
    assert starts(Setting(price=FLAT, ahead=True, poll=4), leap, 130) == [600]


@LEAP
def test_a_front_end_hands_over_a_wave_one_by_one(leap: bool) -> None:
    ran = run(asked([(0, 8, 3)] * 3), Setting(price=FLAT, handling=40), fast_forward=leap)
    assert ran.ledger.scheduled == [40, 140, 140]


@LEAP
def test_prompts_wait_beside_decodes_until_they_are_enough_or_long_enough(leap: bool) -> None:
    """Half of 64 tokens: two prompts of 16 and a decode go at once, one of 16 waits for three iterations."""
    setting = Setting("guaranteed", price=FLAT, wait=3)
    alone = run(asked([(0, 16, 60), (130, 16, 5)]), setting, fast_forward=leap)
    assert alone.ledger.scheduled == [0, 500]
    together = run(asked([(0, 16, 60), (130, 16, 5), (230, 16, 5)]), setting, fast_forward=leap)
    assert together.ledger.scheduled == [0, 300, 300]


def test_what_is_at_the_door_counts_as_tokens_of_the_replica() -> None:
    rows = [(0, 8, 60), (0, 8, 60), (50, 40, 5), (60, 8, 5), (NEVER, 8, 5)]
    ran = run(
        asked(rows, follows=[NEVER] * 4 + [3], delay=[0] * 5),
        Setting(price=FLAT, replicas=2, router="shortest-queue", poll=50),
    )
    assert ran.ledger.replica[2] != ran.ledger.replica[3]
    assert all(replica.intake is not None and replica.intake.tokens == 0 for replica in ran.replicas)
