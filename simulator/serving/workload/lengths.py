"""How long prompts and answers are.

Prompt and answer are tied by a Gaussian copula: two normal scores with Pearson's correlation r = 2 sin(pi rho / 6)
have Spearman's correlation rho, and so have all rising functions of them (Kruskal, JASA 53 (1958) 814).
"""

from math import pi, sin, sqrt

import numpy as np

from simulator import units
from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.specs.distribution import Distribution
from simulator.specs.distributions import Floats, Integers, from_scores, sample
from simulator.specs.requests import MOST_TOKENS, Lengths


def lengths(given: Lengths, count: int, seed: int) -> tuple[Integers, Integers]:
    """Tokens of `count` prompts and of their answers, at least 1 each."""
    prompts, outputs = stream(seed, "prompts"), stream(seed, "outputs")
    if not given.correlation:
        return (
            whole(sample(given.prompt, prompts, count, step=1), "requests.lengths.prompt"),
            whole(sample(given.output, outputs, count, step=1), "requests.lengths.output"),
        )
    tied = 2 * sin(pi * given.correlation / 6)
    first = prompts.standard_normal(count)
    second = tied * first + sqrt(max(0.0, 1 - tied * tied)) * outputs.standard_normal(count)
    return (
        whole(from_scores(given.prompt, first, step=1), "requests.lengths.prompt"),
        whole(from_scores(given.output, second, step=1), "requests.lengths.output"),
    )


def whole_numbers(distribution: Distribution, count: int, seed: int, name: str, path: str) -> Integers:
    """Whole numbers of at least 1 from the stream `name`."""
    return whole(sample(distribution, stream(seed, name), count, step=1), path)


def whole(values: Floats, path: str) -> Integers:
    """Values to the nearest whole numbers, at least 1; InputError where one is beyond all reason."""
    if len(values) and not np.max(values) <= MOST_TOKENS:
        problem = f"the distribution reaches {units.plain(float(np.max(values)))} in {len(values)} draws"
        raise InputError(Problem(problem, path=path, hint=f"bound it with `high`, at most {MOST_TOKENS:,}"))
    return np.maximum(np.rint(values), 1).astype(np.int64)
