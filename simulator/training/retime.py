"""A program on disturbed devices: what its operations last where kernels take a factor as long.

Kernels (passes, recomputation, the optimizer) stretch; collectives and sends take what they took. A device that waited
for its host in a pass waits as much less as its kernels take longer. Each piece of a pass is rounded to ticks on its
own, so that a lumped pass lasts as long as its layers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simulator.engine.rendezvous import lone_ticks
from simulator.engine.tape import Activity, Tape
from simulator.program import draft as d
from simulator.training.lowering import Prices, Program
from simulator.training.pricing import PassCost

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_KERNELS = (d.FORWARD, d.BACKWARD, d.INPUT, d.WEIGHT, d.OPTIMIZER)


def stretched(cost: PassCost, factors: Floats) -> tuple[Ints, Ints, Ints]:
    """(compute, recompute, host) ticks of a pass whose kernels take `factors` as long; shape of `factors` each."""
    compute, again = (np.rint(ticks * factors).astype(np.int64) for ticks in (cost.compute, cost.recompute))
    longer = compute + again - cost.compute - cost.recompute
    return compute, again, np.maximum(cost.host - longer, 0) * bool(cost.host)


def slowed(prices: Prices, factors: Floats, home: Sequence[int]) -> Prices:
    """The prices of a chain whose stages take `factors`, shape (pp,), as long; `home` is the stage of each chunk."""
    known: dict[tuple[int, PassCost], PassCost] = {}

    def one(chunk: int, cost: PassCost) -> PassCost:
        return at(home[chunk], cost)

    def at(rank: int, cost: PassCost) -> PassCost:
        key = (rank, cost)
        if key not in known:
            known[key] = _slowed(cost, float(factors[rank]))
        return known[key]

    return replace(
        prices,
        forward=[[one(i, piece) for piece in pieces] for i, pieces in enumerate(prices.forward)],
        backward=[[one(i, piece) for piece in pieces] for i, pieces in enumerate(prices.backward)],
        input_gradient=[one(i, cost) for i, cost in enumerate(prices.input_gradient)],
        weight_gradient=[one(i, cost) for i, cost in enumerate(prices.weight_gradient)],
        optimizer=[at(rank, cost) for rank, cost in enumerate(prices.optimizer)],
    )


def _slowed(cost: PassCost, factor: float) -> PassCost:
    """A pass of which the parts that memory and launches bound stretch like the whole."""
    compute, again, host = (int(ticks) for ticks in stretched(cost, np.array(factor)))
    memory = round(cost.memory * factor)
    latency = min(round(cost.latency * factor), compute + again - memory)
    return replace(cost, compute=compute, recompute=again, host=host, memory=memory, latency=latency)


def durations(program: Program, prices: Sequence[Prices], pace: Floats) -> Ints:
    """Ticks of every operation, alone, in every step; (classes, pp, steps) factors to shape (n, steps)."""
    tape, columns = program.tape, program.columns
    ticks = np.repeat(lone_ticks(tape)[:, None], pace.shape[2], axis=1)
    parts = np.stack([columns.kind, columns.stage, columns.piece], axis=1)
    kernels = np.isin(columns.kind, _KERNELS)
    for lane, (chain, rank, name) in enumerate(program.lanes):
        factors = pace[chain, rank]
        if name != "compute" or (factors == 1.0).all():
            continue
        operations = np.arange(tape.lane_start[lane], tape.lane_start[lane + 1])
        operations = operations[kernels[operations]]
        kinds, which = np.unique(parts[operations], axis=0, return_inverse=True)
        stretch = _Stretch(prices[chain], rank, factors)
        ticks[operations] = np.array([stretch.ticks(*kind) for kind in kinds.tolist()])[which.reshape(-1)]
    return ticks


class _Stretch:
    """What operations of one place of one chain last, by step."""

    def __init__(self, prices: Prices, rank: int, factors: Floats) -> None:
        self.prices, self.rank, self.factors = prices, rank, factors
        self.known: dict[PassCost, Ints] = {}

    def ticks(self, kind: int, stage: int, piece: int) -> Ints:
        """Of an operation of a kind, of a chunk or a piece of it; shape (steps,)."""
        if kind == d.OPTIMIZER:
            return self._of(self.prices.optimizer[self.rank])
        if kind == d.INPUT:
            return self._of(self.prices.input_gradient[stage])
        if kind == d.WEIGHT:
            return self._of(self.prices.weight_gradient[stage])
        pieces = (self.prices.forward if kind == d.FORWARD else self.prices.backward)[stage]
        chosen = pieces if piece < 0 else pieces[piece : piece + 1]
        whole = np.zeros(len(self.factors), np.int64)
        for cost, count in Counter(chosen).items():
            whole += count * self._of(cost)
        return whole

    def _of(self, cost: PassCost) -> Ints:
        if cost not in self.known:
            compute, again, host = stretched(cost, self.factors)
            self.known[cost] = compute + again + host + cost.tensor
        return self.known[cost]


def retimed(tape: Tape, ticks: Ints) -> Tape:
    """The tape with operations that last `ticks`, shape (n,), alone; activities work longer or shorter."""
    activity = tape.activity.copy()
    shared = np.flatnonzero(activity >= 0)
    kinds, which = np.unique(np.stack([activity[shared], ticks[shared]], axis=1), axis=0, return_inverse=True)
    activity[shared] = which.reshape(-1)
    made = tuple(_lasting(tape.activities[number], length) for number, length in kinds.tolist())
    return replace(tape, duration=ticks, activity=activity, activities=made if len(shared) else tape.activities)


def _lasting(activity: Activity, ticks: int) -> Activity:
    return activity._replace(work=ticks - activity.latency)
