"""Lengths of prompts and answers of conversations (ShareGPT) of which only the means are known.

Both are lognormal, cut where clients cut them, with the mean kept: the longest answers decide when a batch ends, and
short ones when a place in it becomes free.
"""

from math import erf, exp, log, sqrt

from simulator.specs.distribution import Distribution

PROMPT, ANSWER = 1.335, 0.674
"""Standard deviations of the logarithm in ShareGPT (arXiv:2408.12757)."""
LONGEST = 1024
"""Tokens of a prompt, and of its answer: clients leave out longer prompts, and requests of more than 2,048 in all
(vllm/benchmarks/datasets.py, `is_valid_sequence`)."""


def cut_lognormal(mean: float, sigma: float) -> Distribution:
    """Lognormal of a mean, with what is longer than clients send cut to it."""
    high, least, most = max(LONGEST, 2 * mean), 0.0, mean
    for _ in range(40):
        median = (least + most) / 2
        least, most = (median, most) if _mean(median, sigma, high) < mean else (least, median)
    return Distribution(lognormal=(median, sigma), low=1, high=high)


def _mean(median: float, sigma: float, high: float) -> float:
    end = log(high / median) / sigma
    return median * exp(sigma * sigma / 2) * _normal(end - sigma) + high * (1 - _normal(end))


def _normal(deviations: float) -> float:
    return (1 + erf(deviations / sqrt(2))) / 2
