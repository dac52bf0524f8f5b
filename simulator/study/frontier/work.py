"""What requests ask for, in the few numbers that closed forms need, and what they are promised."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.interop import traces
from simulator.serving.workload.generate import generate
from simulator.specs.requests import Slo
from simulator.specs.scenario import ServingScenario

Ints = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Promise:
    """Objectives, in seconds, and the share of requests that must meet them all."""

    ttft: float | None
    tpot: float | None
    e2e: float | None
    share: float

    @classmethod
    def of(cls, slo: Slo) -> "Promise":
        """Those of a scenario."""
        return cls(slo.ttft, slo.tpot, slo.e2e, slo.attainment)


@dataclass(frozen=True)
class Work:
    """Tokens of the requests of runs of several lengths; each number is that of the easiest of these runs."""

    prompts: tuple[Ints, ...]
    """Tokens of the prompts of each run."""
    outputs: tuple[Ints, ...]
    """Tokens of the answers."""
    shares: bool
    """Whether prompts may find what they need in the cache, so that they ask for nothing certain."""

    @cached_property
    def mean_output(self) -> float:
        """Tokens of an answer, of the longest run."""
        return float(self.outputs[-1].mean())

    @cached_property
    def mean_prompt(self) -> float:
        """Tokens of a prompt that must be worked on."""
        return 0.0 if self.shares else min(float(each.mean()) for each in self.prompts)

    @cached_property
    def least_decoded(self) -> float:
        """Tokens of a request after the first one."""
        return max(min(float((each - 1).mean()) for each in self.outputs), 1e-9)

    @cached_property
    def prompt_share(self) -> float:
        """Tokens of prompts for each decoded token."""
        if self.shares:
            return 0.0
        pairs = zip(self.prompts, self.outputs, strict=True)
        return min(float(p.sum()) / max(float((o - 1).sum()), 1.0) for p, o in pairs)

    @cached_property
    def least_context(self) -> float:
        """Cached tokens of a decode."""
        return 1.0 if self.shares else float(min(each.min() for each in self.prompts))

    @cached_property
    def least_cached(self) -> float:
        """Tokens of the cache that a decode holds for itself."""
        return 0.0 if self.shares else self.least_context

    @cached_property
    def mean_context(self) -> float:
        """Cached tokens of a decode in the mean of all: the prompt and half of the answer."""
        if self.shares:
            return 1.0
        pairs = zip(self.prompts, self.outputs, strict=True)
        return min(_context(p.astype(np.float64), o.astype(np.float64)) for p, o in pairs)

    @cached_property
    def longest_prompt(self) -> int:
        """Tokens of the longest prompt."""
        return int(max(each.max() for each in self.prompts))

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest request."""
        return int(max((p + o).max() for p, o in zip(self.prompts, self.outputs, strict=True)))

    def kept_share(self, share: float) -> float:
        """Share of the decoded tokens that the given share of requests has at least."""
        return min(_least(each, share) for each in self.outputs)

    def above(self, ttft_token: float, step: float, promise: Promise) -> float:
        """Share of the requests that miss a promise even if each takes as little time as it can."""
        prompts: list[Floats] = [each * (0.0 if self.shares else ttft_token) for each in self.prompts]
        return min(_missed(p, (o - 1) * step, step, promise) for p, o in zip(prompts, self.outputs, strict=True))


def _context(prompt: NDArray[np.float64], output: NDArray[np.float64]) -> float:
    decoded = output - 1.0
    return float((decoded * (prompt + output / 2.0)).sum() / max(decoded.sum(), 1.0))


def _least(outputs: Ints, share: float) -> float:
    decoded = np.sort(outputs - 1)
    few = max(int(np.floor(share * len(decoded) + 1e-9)), 1)
    return max(float(decoded[:few].sum()) / max(float(decoded.sum()), 1.0), 1e-9)


def _missed(first: Floats, rest: Floats, step: float, promise: Promise) -> float:
    late = np.zeros(len(first), np.bool_)
    if promise.ttft is not None:
        late |= first > promise.ttft
    if promise.tpot is not None:
        late |= (rest > 0) & (step > promise.tpot)
    if promise.e2e is not None:
        late |= first + rest > promise.e2e
    return float(late.mean())


def work_of(scenario: ServingScenario, sizes: Sequence[int]) -> Work:
    """The requests of a scenario for runs of so many; InputError where they cannot be drawn."""
    requests = scenario.requests
    trace = None if requests.trace is None else traces.read(requests.trace)
    counts = [requests.model_copy(update={"count": size}) for size in sizes]
    drawn = [generate(each, scenario.seed, trace, model=scenario.model) for each in counts]
    shares = (
        scenario.model.prompt_layers is not None
        or requests.sessions is not None
        or any(one.prefix is not None for one in drawn)
    )
    return Work(tuple(one.prompt for one in drawn), tuple(one.output for one in drawn), shares)
