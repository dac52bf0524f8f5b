"""What a worker is likely to do: its step at the mean batch, with prompts in steps of their own. Order, not proof."""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from simulator.serving.costs.iteration import StageCost
from simulator.serving.fleet.system import System
from simulator.study.frontier.hull import counts
from simulator.study.frontier.work import Work
from simulator.units import TICKS_PER_SECOND

Floats = NDArray[np.float64]

_BUSY = 0.97
"""Share of its time above which a worker is taken to have no end of its queue."""


@dataclass(frozen=True)
class Guess:
    """Rates in requests per second of a worker, rising, and seconds between two tokens at them."""

    rate: Floats
    """With prompts."""
    gap: Floats
    decode_rate: Floats
    """Without prompts."""
    decode_gap: Floats
    prompt_s: float
    """Seconds until the first token of a mean prompt, alone."""
    prompt_busy_s: float
    """Seconds of a worker that such a prompt takes from others."""
    decodes: Floats
    """Decodes of a rank at once at these rates."""
    peers: int
    """Ranks in step."""

    def latency(self, rate: float, alone: bool) -> float:
        """Seconds between two tokens; infinite where the rate is not carried."""
        rates, gaps = (self.rate, self.gap) if alone else (self.decode_rate, self.decode_gap)
        return inf if rate > rates[-1] else float(np.interp(rate, rates, gaps))

    def first(self, rate: float) -> float:
        """Seconds until a first token in the mean, where the prompts come at a rate."""
        busy = rate * self.prompt_busy_s
        return inf if busy >= _BUSY else self.prompt_s + self.prompt_busy_s * busy / (2.0 * (1.0 - busy))


def guess(system: System, work: Work, sequences: int, chunk: int) -> Guess:
    """The likely course of a worker of a resolved system."""
    at, peers, stages = counts(sequences), system.peers, system.cost.stages
    tokens = max(round(float(np.mean(work.prompts[-1]))), 1)
    steps = np.array([[_step(stage, int(n), peers, work) for n in at] for stage in stages])
    alone, joint = (max(_prompt(stage, tokens, chunk, ranks) for stage in stages) for ranks in (1, peers))
    tokens_each = 1.0 if system.cost.speculation is None else system.cost.speculation.mean()
    wanted = 0.0 if work.shares else tokens_each * work.prompt_share / tokens
    each, slowest = wanted * at * peers * alone, steps.max(axis=0)
    busy = each / (slowest + each)
    each = (1.0 - busy) * each + busy * wanted * at * joint  # the busier, the more ranks have prompts in one step
    decoded = tokens_each * at * peers / work.least_decoded
    rate, decode_rate = np.maximum.accumulate(decoded / (slowest + each)), np.maximum.accumulate(decoded / slowest)
    first = sum(_prompt(stage, tokens, chunk, 1) for stage in stages)
    gap, alone_gap = (steps.sum(axis=0) + each) / tokens_each, steps.sum(axis=0) / tokens_each
    return Guess(rate, gap, decode_rate, alone_gap, first, joint / peers, at / 1.0, peers)


def _step(stage: StageCost, decodes: int, peers: int, work: Work) -> float:
    context = decodes * work.mean_context
    _, base, slope = next(line for line in stage.decode(decodes) if context <= line[0])
    rows = stage.verified(decodes)
    own = stage.rows(rows, rows) + stage.host(decodes) + base + slope * context
    shared = stage.together(rows * peers, rows * peers) + stage.exchanged(rows, rows * peers)
    drafts = 0 if stage.drafting is None else stage.drafting.ticks(rows, decodes, decodes)
    return max(own + shared + drafts, stage.least(decodes, rows)) / TICKS_PER_SECOND


def _prompt(stage: StageCost, tokens: int, chunk: int, ranks: int) -> float:
    """Seconds of a stage for a prompt in pieces, where so many ranks have one each."""
    pieces = [(min(chunk, tokens - done), done) for done in range(0, tokens, chunk)]
    ticks = 0
    for size, done in pieces:
        ticks += stage.rows(size, 1) + stage.host(1) + stage.launches(size) + stage.prompt(size, done)
        ticks += stage.together(ranks * size, ranks) + stage.exchanged(size, ranks * size)
    return ticks / TICKS_PER_SECOND
