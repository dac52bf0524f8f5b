"""Where the tokens of a mixture of experts go: how many copies of each a rank or a node gets.

A token chooses K of E experts, all choices alike. Of n equal parts of the experts it reaches

    D(n) = n (1 - C(E - E / n, K) / C(E, K))

in the mean. With `group_limit` M of `groups` G it keeps the experts of the M groups whose best expert scores highest
(DeepSeek takes the best two, which is nearly the same), so it reaches min(M, groups of K random experts) groups. A load
says how much hotter than the mean each rank is: copies for each expert follow it, and a rank is reached as if it had so
many more of the experts. Source: combinatorics; the tests hold it to random draws.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem, nearest

Floats = NDArray[np.float64]

TOKEN_FORMATS: Mapping[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1 + 4 / 128,
    "fp8_tensor": 1.0,
    "mxfp8": 1 + 1 / 32,
    "int8": 1.0,
    "nvfp4": 0.5625,
    "mxfp4": 0.53125,
}
"""Bytes of an element of a token with its scales: `fp8` has one of 4 bytes for 128 elements (DeepSeek-V3), mxfp8 and
mxfp4 one of 1 byte for 32, nvfp4 one of 1 byte for 16; the scales of whole rows and tensors are left out."""


def token_bytes(hidden: int, form: str, header: float = 0.0) -> float:
    """Bytes of one token on its way, `header` bytes of addresses included; InputError for an unknown format."""
    if form not in TOKEN_FORMATS:
        raise InputError(Problem(f"unknown format of tokens `{form}`", hint=nearest(form, TOKEN_FORMATS)))
    return hidden * TOKEN_FORMATS[form] + header


@dataclass(frozen=True, slots=True)
class Routing:
    """What tokens choose; raises InputError where that cannot be."""

    experts: int
    """Places for experts over all ranks of a group, replicas included; equally many on each rank."""
    top_k: int
    """Experts of a token."""
    groups: int = 1
    """Parts of the experts that a limit counts."""
    group_limit: int = 0
    """Groups that a token may use at most; 0: all."""
    load: tuple[float, ...] = ()
    """Tokens of each rank's experts, in the order of ranks and in any unit; empty: all alike."""

    def __post_init__(self) -> None:
        limit = self.group_limit or self.groups
        wrong = {
            f"{self.top_k} experts a token of {self.experts}": not 1 <= self.top_k <= self.experts,
            f"{self.groups} groups do not divide {self.experts} experts": self.groups < 1
            or self.experts % max(self.groups, 1) != 0,
            f"{self.group_limit} of {self.groups} groups": not 1 <= limit <= self.groups,
            "a load below 0, or of nothing at all": bool(self.load) and (min(self.load) < 0 or not sum(self.load)),
        }
        for problem, there in wrong.items():
            if there:
                raise InputError(Problem(f"no such routing: {problem}"))
        if limit * self.experts // self.groups < self.top_k:
            raise InputError(Problem(f"{limit} of {self.groups} groups hold fewer than {self.top_k} experts"))

    def check(self, members: int) -> None:
        """InputError where a group of so many ranks cannot share these experts."""
        if self.experts < members:
            raise InputError(Problem(f"{self.experts} experts for {members} ranks", hint="every rank needs one"))
        if self.load and len(self.load) != members:
            raise InputError(Problem(f"a load of {len(self.load)} ranks for {members}", hint="one number a rank"))

    def loads(self, members: int) -> Floats:
        """Load of each rank over the mean; (members,)."""
        load = np.asarray(self.load or (1.0,) * members, np.float64)
        relative: Floats = load / load.mean()
        return relative

    def distinct(self, parts: int) -> float:
        """D(parts): of so many equal parts of the experts those that a token reaches, in the mean."""
        return parts * self.chance(1 / parts)

    def chance(self, part: float, load: float = 1.0) -> float:
        """Probability that a token reaches a part of all experts, whose load is so many times the mean."""
        even = self._even_chance(part)
        if load == 1.0:
            return even
        hotter = [1 - _missed(self.experts, part * self.experts * hot, self.top_k) for hot in (load, 1.0)]
        return min(1.0, even * hotter[0] / hotter[1])

    def _even_chance(self, part: float) -> float:
        limit, groups = self.group_limit or self.groups, self.groups
        if limit == groups:
            return 1 - _missed(self.experts, part * self.experts, self.top_k)
        counts = _groups_reached(self.experts, self.top_k, groups)
        reached = [(min(count, limit), chance) for count, chance in enumerate(counts) if chance > 0]
        if part * groups >= 1 - 1e-9:
            return sum(chance * (1 - _missed(groups, part * groups, count)) for count, chance in reached)
        size = self.experts // groups
        inner = max(1, round(part * self.experts))
        return sum(chance * count / groups * _within(size, inner, self.top_k, count) for count, chance in reached)


def _missed(count: int, part: float, drawn: int) -> float:
    """Probability that none of `drawn` of `count` things is in a part of them, which need not be whole."""
    return prod(max(0.0, count - part - i) / (count - i) for i in range(drawn))


@cache
def _within(size: int, part: int, top_k: int, groups: int) -> float:
    """Probability that experts drawn from so many groups of a size, some of each, lie in one part of the first too."""
    others = range(groups)
    signs = [(-1) ** (groups - 1 - j) * comb(groups - 1, j) for j in others]
    each, without = (
        sum(
            sign * (comb(j * size + first, top_k) - comb(j * size, top_k))
            for j, sign in zip(others, signs, strict=True)
        )
        for first in (size, size - part)
    )
    return float(1 - without / each)


@cache
def _groups_reached(experts: int, top_k: int, groups: int) -> tuple[float, ...]:
    """Probability that random experts lie in exactly 0, 1, 2, ... groups."""
    size, every = experts // groups, comb(experts, top_k)
    return tuple(
        comb(groups, k) * sum((-1) ** (k - j) * comb(k, j) * comb(j * size, top_k) for j in range(k + 1)) / every
        for k in range(min(groups, top_k) + 1)
    )
