"""Drawn arrivals and lengths against what their distributions are known to be; seeds are fixed, bounds wide."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from simulator.random import stream
from simulator.serving.workload.arrivals import times
from simulator.serving.workload.lengths import lengths
from simulator.specs.distribution import Distribution
from simulator.specs.distributions import from_scores, normal_cdf, sample, zipf
from simulator.specs.requests import Arrivals, Lengths

N = 100_000
KS = 1.95 / N**0.5
"""Kolmogorov and Smirnov's distance that is exceeded once in a thousand times."""


def gaps(**keys: Any) -> np.ndarray:
    """Gaps of an arrival process in seconds, the one before the first arrival included."""
    return np.diff(times(Arrivals.model_validate(keys), N, 5), prepend=0)


def test_poisson_gaps_are_exponential() -> None:
    assert stats.kstest(gaps(poisson="4 /s"), stats.expon(scale=0.25).cdf).statistic < KS


@pytest.mark.parametrize("burstiness", [0.1, 0.5, 1.0, 4.0])
def test_gamma_gaps_have_the_shape_that_burstiness_names(burstiness: float) -> None:
    drawn = gaps(gamma={"rate": "4 /s", "burstiness": burstiness})
    at = np.geomspace(1e-9, 100, 2000)  # below, gaps are lost beside the time that has passed
    found = np.searchsorted(np.sort(drawn), at, side="right") / N
    assert np.max(np.abs(found - stats.gamma(burstiness, scale=1 / (4 * burstiness)).cdf(at))) < KS
    assert np.std(drawn) / np.mean(drawn) == pytest.approx(burstiness**-0.5, rel=0.02)
    assert np.mean(drawn) == pytest.approx(0.25, rel=0.02)


def test_a_changing_rate_is_a_poisson_process_within_each_step() -> None:
    steps = [{"duration": "10 s", "rate": "8 /s"}, {"duration": "30 s", "rate": "2 /s"}, {"duration": "5 s", "rate": 0}]
    drawn = times(Arrivals.model_validate({"varying": steps}), N, 5)
    within = drawn % 45
    rounds = drawn[-1] // 45
    for start, end, rate in ((0, 10, 8), (10, 40, 2), (40, 45, 0)):
        inside = (within >= start) & (within < end)
        assert inside.sum() / (rounds * (end - start)) == pytest.approx(rate, rel=0.02)
        if rate:
            assert stats.kstest(within[inside], stats.uniform(start, end - start).cdf).statistic < 2 * KS


DISTRIBUTIONS: dict[str, tuple[dict[str, Any], Any]] = {
    "uniform": ({"uniform": [3, 11]}, stats.uniform(3, 8)),
    "normal": ({"normal": [100, 10]}, stats.norm(100, 10)),
    "lognormal": ({"lognormal": [100, 0.7]}, stats.lognorm(0.7, scale=100)),
    "exponential": ({"exponential": 30}, stats.expon(scale=30)),
    "cdf": ({"cdf": [[2, 0], [4, 0.5], [14, 1]]}, None),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_draws_follow_their_distribution(name: str) -> None:
    keys, exact = DISTRIBUTIONS[name]
    given = Distribution.model_validate(keys)
    cdf = exact.cdf if exact else lambda x: np.interp(x, [2, 4, 14], [0, 0.5, 1])
    assert stats.kstest(sample(given, stream(5, name), N), cdf).statistic < KS
    scores = stream(6, name).standard_normal(N)
    values = from_scores(given, scores)
    assert stats.kstest(values, cdf).statistic < KS
    assert (np.diff(values[np.argsort(scores)]) >= 0).all()


def test_a_cdf_may_begin_and_end_with_a_share_at_one_value() -> None:
    given = Distribution.model_validate({"cdf": [[5, 0.3], [9, 0.6], [9, 1]]})
    drawn = sample(given, stream(5, "cdf"), N)
    assert np.mean(drawn == 5) == pytest.approx(0.3, abs=0.01)
    assert np.mean(drawn == 9) == pytest.approx(0.4, abs=0.01)


def test_whole_uniform_lengths_are_equally_likely_up_to_both_ends() -> None:
    same = {"uniform": [1, 8]}
    prompt, output = lengths(Lengths.model_validate({"prompt": same, "output": same, "correlation": 0.5}), N, 5)
    for column in (prompt, output):
        assert np.bincount(column, minlength=9)[1:] / N == pytest.approx([1 / 8] * 8, rel=0.05)


@pytest.mark.parametrize(
    ("exponent", "low", "high"), [(1.1, 1, 4096), (0.5, 7, 300), (3.0, 1, 10**6), (1.0, 1, 10**6), (0.2, 50_000, 10**6)]
)
def test_zipf_probabilities_are_exact(exponent: float, low: int, high: int) -> None:
    drawn = zipf(exponent, low, high, stream(5, "zipf").random(N))
    values = np.arange(low, high + 1)
    weights = values**-exponent
    exact = np.cumsum(weights) / weights.sum()
    assert drawn.min() >= low
    assert drawn.max() <= high
    found = np.searchsorted(np.sort(drawn), values, side="right") / N
    assert np.max(np.abs(found - exact)) < KS


@pytest.mark.parametrize("exponent", [0.3, 1.0, 1.1, 2.5])
def test_zipf_joins_its_table_and_its_tail_without_a_seam(exponent: float) -> None:
    high = 200_000
    weights = np.arange(1, high + 1) ** -exponent
    middles = (np.cumsum(weights) - weights / 2) / weights.sum()
    assert (zipf(exponent, 1, high, middles) == np.arange(1, high + 1)).all()


def test_the_normal_distribution_function_is_accurate_far_out() -> None:
    scores = np.linspace(-30, 9, 1001)
    assert normal_cdf(scores) == pytest.approx(stats.norm.cdf(scores), rel=1e-12)


@pytest.mark.parametrize("correlation", [-0.8, -0.3, 0.4, 0.9])
def test_prompts_and_answers_have_the_rank_correlation_that_is_asked_for(correlation: float) -> None:
    given = {"prompt": {"lognormal": [1000, 1.2]}, "output": {"exponential": 900}, "correlation": correlation}
    drawn = lengths(Lengths.model_validate(given), N, 5)
    assert stats.spearmanr(*drawn).statistic == pytest.approx(correlation, abs=0.01)


def test_without_correlation_there_is_none() -> None:
    given = {"prompt": {"lognormal": [1000, 1.2]}, "output": {"exponential": 900}}
    assert stats.spearmanr(*lengths(Lengths.model_validate(given), N, 5)).statistic == pytest.approx(0, abs=0.01)
