"""Rollouts of an iteration: all requests, or enough of them, the others going on in the next one (partial rollouts).

A request that is stopped keeps its tokens; in the next iteration they are read again as part of its prompt, as an
engine does whose cache belongs to old weights. How far it came is read off between its first and its last token, in
which a token takes as long as the others.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import Result
from simulator.run.serve import run_serving
from simulator.run.service import gather
from simulator.serving.fleet.system import System
from simulator.serving.workload.generate import NEVER, Workload, generate
from simulator.specs.scenario import ServingScenario

Ints = NDArray[np.int64]


def _none() -> tuple[Ints, Ints, Ints]:
    return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Rollout:
    """What one iteration generated."""

    ticks: int
    """Until enough requests were done."""
    finished: int
    """Requests."""
    carried: int
    """Requests that go on."""
    tokens: int
    """That came out until then."""
    reread: int
    """Tokens of requests from before that were read again."""
    result: Result
    """Of the run to its last request."""


@dataclass(slots=True)
class Rollouts:
    """Iteration after iteration of one stage; each is run once."""

    scenario: ServingScenario
    systems: tuple[System, ...]
    enough: float
    found: list[Rollout] = field(default_factory=list)
    _left: tuple[Ints, Ints, Ints] = field(default_factory=_none)
    """Prompt, tokens out so far and tokens still to come of requests that go on."""

    def of(self, iteration: int) -> Rollout:
        """The rollout of an iteration."""
        if self.enough >= 1:
            return self._same()
        while len(self.found) <= iteration:
            self._next()
        return self.found[iteration]

    def _same(self) -> Rollout:
        """Every iteration is alike."""
        if not self.found:
            run = run_serving(self.scenario, systems=self.systems)
            ledger = run.ledger
            ticks = int(np.asarray(ledger.finish).max(initial=0))
            out = int(np.asarray(ledger.done).sum())
            self.found.append(Rollout(max(ticks, 0), len(run.workload), 0, out, 0, gather(run)))
        return self.found[0]

    def _next(self) -> None:
        count = self.scenario.requests.count or 0
        prompt, done, still = self._left
        fresh = generate(
            self.scenario.requests.model_copy(update={"count": max(count - len(prompt), 1)}),
            self.scenario.seed + len(self.found),
            model=self.scenario.model,
        )
        prompts, outs = np.append(prompt + done, fresh.prompt), np.append(still, fresh.output)
        origin, before = np.append(prompt, fresh.prompt), np.append(done, np.zeros(len(fresh), np.int64))
        run = run_serving(self.scenario, systems=self.systems, workload=at_once(prompts, outs))
        finish, first = np.asarray(run.ledger.finish), np.asarray(run.ledger.first_token)
        wanted = max(round(self.enough * len(prompts)), 1)
        ended = np.sort(finish[finish >= 0])
        stop = int(ended[min(wanted, len(ended)) - 1]) if len(ended) else 0
        here = out_by(stop, first, finish, outs)
        open_ = (finish > stop) | (finish < 0)
        self._left = origin[open_], (before + here)[open_], (outs - here)[open_]
        tokens, finished = int(here.sum()), int((~open_).sum())
        self.found.append(Rollout(stop, finished, int(open_.sum()), tokens, int(done.sum()), gather(run)))


def out_by(tick: int, first: Ints, finish: Ints, output: Ints) -> Ints:
    """Tokens of each request that were out by a tick; all but the last of one that is not done at most."""
    span = np.maximum(finish - first, 1)
    gone = np.floor(1 + (output - 1) * np.clip((tick - first) / span, 0, 1)).astype(np.int64)
    found = np.where((first < 0) | (first > tick), 0, np.minimum(gone, np.maximum(output - 1, 0)))
    return np.where((finish >= 0) & (finish <= tick), output, found)


def at_once(prompt: Ints, output: Ints) -> Workload:
    """Requests that are all there at the start."""
    zeros = np.zeros(len(prompt), np.int64)
    never = np.full(len(prompt), NEVER, np.int64)
    return Workload(zeros.copy(), prompt.astype(np.int64), output.astype(np.int64), zeros.copy(), never, zeros.copy())
