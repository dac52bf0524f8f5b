"""Iterations priced by a latency model that authors fitted to their own measurements, in place of ours.

Running a scenario with them separates what its kernels cost from what its policies, queues and memory make of it. The
model is DistServe's (arXiv:2401.09670): a prefill takes a + b (sum of tokens) + c (sum of squares), a decode a + b
(cached tokens) + c (sequences); a pipeline stage takes its share of either.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import Result
from simulator.run.serve import run_serving
from simulator.run.service import gather
from simulator.serving.fleet.system import System, resolve
from simulator.specs.scenario import ServingScenario

MILLISECOND = 10**9
"""Ticks."""
FAR = 1 << 62

Coefficients = tuple[float, float, float]
Latencies = tuple[Coefficients, Coefficients, Coefficients]
"""Of prefill, of decodes in small batches and in large ones, in milliseconds."""


@dataclass(frozen=True, slots=True)
class FittedStage:
    """A stage of a replica, with the promises of `StageCost`."""

    latencies: Latencies
    threshold: int
    """Sequences from which a batch is large."""
    stages: int = 1
    """Stages that share the time."""
    common: None = None
    """Nothing is shared with other replicas."""
    sends: tuple[()] = ()
    """What moves between devices is part of the fit."""
    hop: None = None
    overlap: None = None
    """What runs beside what is part of the fit."""
    speculation: None = None
    drafting: None = None
    launching: None = None
    loads: None = None
    queue: None = None
    plain: bool = False
    stream_ticks: int = 0
    """All weights stay."""

    def verified(self, sequences: int) -> int:
        """A row for each decode."""
        return sequences

    def decodes(self, sequences: int) -> tuple[int, int, int, int]:
        """All of it is attention's."""
        return sequences, 0, 0, 0

    def together(self, tokens: int, sampled: int) -> int:
        """Nothing is shared with other replicas."""
        return 0

    def launches(self, tokens: int) -> int:
        """Part of the fit."""
        return 0

    def rows(self, tokens: int, sampled: int) -> int:
        """Nothing depends on the rows alone."""
        return 0

    def decode(self, sequences: int) -> tuple[tuple[int, int, int], ...]:
        """One line in the cached tokens."""
        a, b, c = self.latencies[1 if sequences < self.threshold else 2]
        return ((FAR, self._ticks(a + c * sequences), self._ticks(b)),)

    def prompt(self, chunk: int, before: int) -> int:
        """A prefill of one prompt."""
        return self.prompts([(chunk, before)])

    def prompts(self, pieces: Sequence[tuple[int, int]]) -> int:
        """A prefill of several."""
        a, b, c = self.latencies[0]
        return self._ticks(a + sum(b * chunk + c * chunk * (chunk + 2 * before) for chunk, before in pieces))

    def host(self, sequences: int) -> int:
        """Nothing beyond the fit."""
        return 0

    def least(self, sequences: int, rows: int, prompts: bool = False) -> int:
        """Nothing beyond the fit."""
        return 0

    def send(self, tokens: int) -> int:
        """Nothing beyond the fit."""
        return 0

    def saved(self, tokens: int, attention: int, shared: int | None = None, reading: int = 0) -> int:
        """Nothing beyond the fit."""
        return 0

    def body(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        """No parts are known."""
        return {}

    ending = body

    def _ticks(self, milliseconds: float) -> int:
        return round(milliseconds * MILLISECOND / self.stages)


def serve_fitted(scenario: ServingScenario, latencies: Callable[[System], Latencies], threshold: int) -> Result:
    """Simulate a serving scenario whose iterations take what was fitted; memory stays ours."""
    systems = tuple(_fitted(system, latencies(system), threshold) for system in resolve(scenario))
    return gather(run_serving(scenario, systems=systems))


def _fitted(system: System, latencies: Latencies, threshold: int) -> System:
    stages = len(system.cost.stages)
    stage: Any = FittedStage(latencies, threshold, stages)
    return replace(system, cost=replace(system.cost, stages=(stage,) * stages))
