"""The words that say what a runner-up lacks."""

from types import SimpleNamespace
from typing import Any

import pytest

from simulator.study.frontier.why import _lacks


@pytest.mark.parametrize(("second", "words"), [(32.0, "wait 25 % longer"), (50.0, "wait 20 % less long")])
def test_users_of_a_runner_up_with_the_same_rate_wait_longer_or_less_long(second: float, words: str) -> None:
    best: Any = SimpleNamespace(rate=2.0, per_user=40.0)
    other: Any = SimpleNamespace(rate=2.0, per_user=second)
    found: Any = None
    assert words in _lacks(found, best, other)
