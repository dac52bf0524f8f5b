"""Lengths of conversations of which the means are known."""

import pytest

from simulator.interop.rows.conversations import ANSWER, LONGEST, PROMPT, cut_lognormal
from simulator.random import stream
from simulator.specs.distributions import sample


@pytest.mark.parametrize("sigma", [PROMPT, ANSWER])
@pytest.mark.parametrize("mean", [40.0, 220.0, 500.0, 3000.0])
def test_the_mean_is_kept_where_the_longest_are_cut(mean: float, sigma: float) -> None:
    found = cut_lognormal(mean, sigma)
    drawn = sample(found, stream(1, "x"), 200_000)
    assert drawn.mean() == pytest.approx(mean, rel=0.01)
    assert drawn.max() <= max(LONGEST, 2 * mean)
