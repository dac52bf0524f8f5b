r"""What a worker can reach at best, in closed form: a floor of its step, and from it of its rate and of its latency.

A run of a worker takes $I$ steps with $n_i$ decodes and $c_i$ tokens of prompts. Each lasts at least a sum of convex
functions that never fall: of the rows $n_i + c_i$, of the decodes, and of the cached tokens that they read. Two means
follow (Jensen's inequality), with $\bar n = \sum n_i / I$ and prompts of $\rho$ tokens for each decoded one:

* all steps last at least $I F(\bar n)$, so that no more than $\bar n / F(\bar n)$ tokens a second are decoded;
* a decoded token waits at least $\sum n_i t_i / \sum n_i \ge f(\sum n_i^2 / \sum n_i) \ge f(\bar n)$, $f$ being $F$
  without prompts.

So more tokens a second need a larger $\bar n$, and that a longer step: the rate that is wanted bounds what a user gets.
Queueing, uneven lengths, chance and prompts that hold up decodes only add to both. Where replicas are in step, the
slowest of them has at least the mean of their rows, and what they do together is at least that of the sum. With drafted
tokens a step gives each sequence at most all of them.
"""

from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from simulator.axes import CP, EP, TP
from simulator.serving.costs.iteration import StageCost
from simulator.serving.fleet.system import System
from simulator.study.frontier.guess import Guess, guess
from simulator.study.frontier.hull import Hull, counts, hull
from simulator.study.frontier.work import Promise, Work
from simulator.units import TICKS_PER_SECOND

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_RATIO = 1.02
"""Of neighbouring mean numbers of decodes that are looked at."""


@dataclass(frozen=True)
class Ceiling:
    """The best that a worker can do; rates are requests per second of the whole worker."""

    tokens: float
    """Of an answer in the mean."""
    fits: bool
    """Whether weights and the longest request fit into memory."""
    shortest_step: float
    """Seconds of a step with one decode."""
    ttft_token: float
    """Seconds that a token of a prompt takes at least until the first token of its answer."""
    prompt_rate: float
    """Requests whose prompts it can work on, where it does nothing else."""
    most: float
    """Decodes of an attention rank at once."""
    means: Floats
    """Mean numbers of decodes in a step of an attention rank, rising."""
    step: Floats
    """Seconds between two tokens of a request at least, for these means."""
    rate: Floats
    """Requests that it can decode at most with these means or smaller ones, where it works on their prompts too."""
    decode_rate: Floats
    """The same where others work on prompts."""
    guess: Guess
    """What is likely rather than possible: says only what is simulated first."""

    def limited(self, sequences: int) -> "Ceiling":
        """The same with fewer sequences at once."""
        most = min(self.most, float(sequences))
        kept = int(np.searchsorted(self.means, most)) + 1
        rates, alone = self.rate[:kept], self.decode_rate[:kept]
        return replace(self, most=most, means=self.means[:kept], step=self.step[:kept], rate=rates, decode_rate=alone)

    def capacity(self, mean: float, alone: bool) -> float:
        """Requests per second with at most `mean` decodes at once; `alone`: where it works on prompts too."""
        rates = self.rate if alone else self.decode_rate
        place = int(np.searchsorted(self.means, min(mean, self.most), side="right"))
        return float(rates[min(place, len(rates) - 1)])

    def mean_at(self, rate: float, alone: bool) -> int | None:
        """Place in `means` of the fewest decodes that can carry a rate; None where none can."""
        place = int(np.searchsorted(self.rate if alone else self.decode_rate, rate))
        return None if place >= len(self.means) else place

    def latency(self, rate: float, alone: bool) -> float:
        """Seconds between two tokens at least, at a rate of requests; infinite where it cannot be carried."""
        place = self.mean_at(rate, alone)
        return inf if place is None else float(self.step[max(place - 1, 0)])

    def mean_within(self, limit: float) -> float:
        """The largest mean number of decodes whose steps are within a limit in seconds; 0 where none is."""
        place = int(np.searchsorted(self.step, limit, side="right"))
        return 0.0 if place == 0 else float(self.means[min(place, len(self.means) - 1)])


class StageFloor:
    """Convex floors of the parts of a step on one stage, in seconds."""

    def __init__(self, stage: StageCost, peers: int, work: Work, rows: int, sequences: int) -> None:
        """Of at most `rows` rows and `sequences` decodes of each of `peers` ranks in step."""
        self.peers = peers
        beside = stage.overlap is not None
        body = stage.unfilled or stage.body  # what fills graphs up comes in steps, which a hull could lie above
        self.body = hull(lambda at: _seconds(body(at), beside), rows)
        ending = lambda at: _seconds(stage.ending(at), beside)  # noqa: E731
        self.ending, self.some_ending = hull(ending, sequences), hull(ending, sequences, origin=True)
        self.together: Hull | None = None
        if stage.common is not None:
            common = stage.common[0]
            self.together = hull(lambda at: _seconds(common(at), beside), rows * peers)
        self.sent: Hull | None = None
        if stage.exchanges is not None and not beside:
            leaving = stage.exchanges[0]
            self.sent = hull(lambda at: _seconds(leaving(at), beside), rows)
        self.host = stage.host_ticks[0] / TICKS_PER_SECOND, stage.host_ticks[1] / TICKS_PER_SECOND
        self.base, self.some_base, self.token = _decode(stage, work, sequences)

    def latency(self, decodes: Floats, context: float) -> Floats:
        """Seconds at least of a step in which ranks have so many decodes in the mean, each of `context` tokens."""
        own = np.maximum(decodes, 1.0)
        found = self.body(own) + self.ending(own) + self.base(own)
        found = found + self.host[0] + (self.host[1] + self.token * context) * own
        return found + self._shared(decodes)

    def step(self, rows: Floats, decodes: Floats, context: float) -> Floats:
        """Mean seconds at least of steps, some of which may have no decode, for mean rows and decodes of a rank."""
        found = self.body(np.maximum(rows, 1.0)) + self.some_ending(decodes) + self.some_base(decodes)
        found = found + self.host[0] + (self.host[1] + self.token * context) * decodes
        return found + self._shared(rows)

    def _shared(self, rows: Floats) -> Floats:
        """What ranks in step do together, with so many rows of each in the mean; the one with most has as many."""
        found = np.zeros(len(rows)) if self.together is None else self.together(rows * self.peers)
        return found if self.sent is None else found + self.sent(np.maximum(rows, 1.0))

    def prompt(self, rows: Floats) -> Floats:
        """Seconds at least of a step whose rank has so many rows of prompts and no decode."""
        found = self.body(rows) + self.host[0]
        return found if self.together is None else found + self.together(rows)

    def prompts(self, rows: Floats) -> Floats:
        """The same where all ranks in step have as many."""
        return self.body(rows) + self.host[0] + self._shared(rows)


def ceiling(system: System, work: Work, sequences: int, chunk: int) -> Ceiling:
    """The best that a worker of a resolved system can do with requests of `work` within its limits."""
    cost, peers = system.cost, system.peers
    held = cost.blocks * cost.block_size
    most = min(float(sequences), held / work.least_cached) if work.least_cached else float(sequences)
    rows = max(chunk, sequences) + work.longest_prompt
    floors = [StageFloor(stage, peers, work, rows, sequences) for stage in cost.stages]
    means = _means(1.0 / peers, max(most, 1.0))
    step = sum((floor.latency(means, work.least_context) for floor in floors), np.zeros(1))
    own = _slowest([floor.step(means, means, work.mean_context) for floor in floors])
    full = [floor.step(means * (1.0 + work.prompt_share), means, work.mean_context) for floor in floors]
    some = counts(rows).astype(np.float64)
    one = max(float((floor.prompt(some) / some).min()) for floor in floors)
    most_tokens = 1.0 if cost.speculation is None else 1.0 + cost.speculation.longest
    each = max(float((floor.prompts(some) / some).min()) for floor in floors)
    step = step / most_tokens
    decoded = most_tokens * means * peers / work.least_decoded
    return Ceiling(
        tokens=work.mean_output,
        fits=cost.fits and held >= work.longest and system.context >= work.longest,
        shortest_step=float(step[0]),
        ttft_token=one,
        prompt_rate=peers / (each * work.mean_prompt) if work.mean_prompt else inf,
        most=most,
        means=means,
        step=step,
        rate=np.maximum.accumulate(decoded / _slowest(full)),
        decode_rate=np.maximum.accumulate(decoded / own),
        guess=guess(system, work, sequences, chunk),
    )


def within(ceiling_: Ceiling, promise: Promise, work: Work) -> float:
    """Mean decodes at once above which too few requests keep to the promised time per token; infinite without one.

    Those that keep to it have at least `work.kept_share` of the decoded tokens, and the steps that they are in are at
    least as long as steps with them alone.
    """
    if promise.tpot is None:
        return inf
    return ceiling_.mean_within(promise.tpot) / work.kept_share(promise.share)


def _means(low: float, high: float) -> Floats:
    steps = max(int(np.ceil(np.log(high / low) / np.log(_RATIO))), 1)
    return np.asarray(low * (high / low) ** (np.arange(steps + 1) / steps), dtype=np.float64)


def _slowest(stages: list[Floats]) -> Floats:
    return np.asarray(np.max(np.stack(stages), axis=0), dtype=np.float64)


def _seconds(parts: dict[str, Floats], beside: bool) -> Floats:
    """Seconds of the parts together; of work that runs `beside` collectives without these, which it may hide."""
    hidden = (TP.name, EP.name, CP.name) if beside else ()
    return np.asarray(sum(cost for part, cost in parts.items() if part not in hidden), dtype=np.float64)


def _decode(stage: StageCost, work: Work, sequences: int) -> tuple[Hull, Hull, float]:
    """Floors of attention: (seconds for so many decodes, the same where some steps have none, seconds for each cached
    token that they read)."""
    at = counts(sequences)
    lines = [_lines(stage, int(n), work) for n in at]
    token = min(slope for each in lines for _, _, slope in each)
    base = [min(start + (slope - token) * first for first, start, slope in each) for each in lines]
    least = np.maximum(np.array(base), 0.0)
    return Hull(at, least), Hull(at, least, origin=True), token


def _lines(stage: StageCost, decodes: int, work: Work) -> list[tuple[float, float, float]]:
    """(first cached token, base, slope) in seconds of the lines that so many decodes of the workload are on."""
    low, high = decodes * work.least_context, decodes * work.longest
    found, first = [], 0.0
    for limit, base, slope in stage.decode(decodes):
        if limit >= low and first <= high:
            found.append((max(first, low), base / TICKS_PER_SECOND, slope / TICKS_PER_SECOND))
        first = float(limit)
    return found
