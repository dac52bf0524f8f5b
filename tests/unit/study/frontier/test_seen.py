"""What one simulation says of structures that share a side with its own."""

from typing import cast

import numpy as np
import pytest

from simulator.study.frontier.bounds import Ceiling
from simulator.study.frontier.options import Option
from simulator.study.frontier.run import Outcome
from simulator.study.frontier.seen import Seen
from simulator.study.frontier.space import Worker
from simulator.study.frontier.table import Table

SHARE = 0.9


def option(tp: int) -> Option:
    return Option(Worker(tp, 1, 1, tp, 1, 64, 1024), cast(Ceiling, None), 1.0)


def seen() -> Seen:
    """Rows: two prefill sides of one decode side, the same decode workers at twice the load, another decode side, and
    replicas that do both."""
    columns = [(0, 4, 1, 4, 1), (0, 4, 2, 2, 1), (0, 2, 1, 4, 1), (1, 4, 1, 2, 1), (0, 1, -1, 0, 4)]
    decode, decodes, prefill, prefills, copies = np.array(columns).T
    own = Table([option(1), option(2), option(4)], 8, decode, decodes, prefill, prefills, copies, np.ones(5))
    return Seen(own, SHARE)


def outcome(state: str, ttft: float = 1.0, tpot: float = 1.0) -> Outcome:
    """Of a run in which these shares of the requests kept to their objectives."""
    return Outcome(state, objectives=(("ttft", 1.0, ttft, None), ("tpot", 0.05, tpot, None)))


def test_a_decode_side_speaks_for_all_that_bring_it_prompts_and_for_higher_loads() -> None:
    found = seen()
    found.note(0, 8.0, outcome("meets"), 50.0, 50.0)
    assert found.at_most(8.0).tolist() == [50.0, 50.0, 50.0, np.inf, np.inf]
    assert found.at_most(6.0).tolist() == [np.inf, np.inf, 50.0, np.inf, np.inf]
    found.note(2, 8.0, outcome("meets"), 30.0, 30.0)
    assert found.at_most(8.0).tolist() == [50.0, 50.0, 30.0, np.inf, np.inf]


def test_what_is_slow_on_the_decode_side_stays_slow_at_higher_loads() -> None:
    found = seen()
    found.note(2, 4.0, outcome("misses", tpot=0.5), 20.0, 25.0)
    assert found.hopeful(4.0).tolist() == [True, True, False, True, True]
    assert found.hopeful(8.0).tolist() == [False, False, False, True, True]


def test_what_is_late_on_the_prefill_side_stays_late_at_higher_loads() -> None:
    found = seen()
    found.note(3, 4.0, outcome("misses", ttft=0.5), 20.0, 25.0)  # two prefill workers of option 1: 2 requests/s each
    assert found.hopeful(4.0).tolist() == [True, True, True, False, True]
    assert found.hopeful(8.0).tolist() == [False, True, False, False, True]


@pytest.mark.parametrize(("ttft", "tpot", "guess"), [(0.5, 0.5, 25.0), (0.5, 1.0, 0.0), (1.0, 1.0, 25.0)])
def test_prefill_workers_are_not_blamed_where_decode_workers_may_be(ttft: float, tpot: float, guess: float) -> None:
    found = seen()
    found.note(3, 4.0, outcome("grows", ttft, tpot), 20.0, guess)
    assert np.isinf(found.late).all()


def test_a_layout_that_fell_short_of_its_guess_is_expected_to_do_so_again() -> None:
    found, guess = seen(), np.full(5, 40.0)
    found.note(4, 4.0, outcome("meets"), 20.0, 40.0)
    assert found.corrected(guess).tolist() == [40.0, 40.0, 40.0, 40.0, 20.0]
    found.note(4, 4.0, outcome("meets"), 30.0, 40.0)  # the best of a rate
    assert found.corrected(guess)[4] == 30.0
    found.note(4, 8.0, outcome("meets"), 24.0, 40.0)  # the last rate
    assert found.corrected(guess)[4] == 24.0
    found.note(0, 8.0, outcome("meets"), 50.0, 40.0)  # more than the guess does not raise it
    assert found.corrected(guess).tolist() == [40.0, 40.0, 40.0, 40.0, 24.0]


def test_decode_sides_are_the_same_whatever_brings_them_prompts() -> None:
    sides = seen().sides(np.arange(5))
    assert sides[0] == sides[1]
    assert len(set(sides)) == 4
