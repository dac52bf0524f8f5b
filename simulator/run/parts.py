"""What operations consist of: the time of passes, sends, collectives and the optimizer by part of the step.

A pass is split by its price list into kernels, recomputed kernels, exposed tensor parallelism and waiting for the
host; what it lasted longer than its price, because something ran beside it, is stall.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import Timeline
from simulator.program import draft as d
from simulator.training.lowering import Columns, Prices
from simulator.training.pricing import PassCost

Ints = NDArray[np.int64]

PARTS = ("compute", "recompute", "exposed_tp", "host", "stall", "exposed_pp", "exposed_dp", "optimizer", "bubble")
"""What the time of a step is made of, in the order of the page."""

_WHOLE = {
    d.SEND_FORWARD: "exposed_pp",
    d.SEND_BACKWARD: "exposed_pp",
    d.GATHER: "exposed_dp",
    d.REDUCE: "exposed_dp",
    d.EMBEDDING: "exposed_pp",
    d.OPTIMIZER: "optimizer",
}
_AXES = {d.KINDS[kind]: part.removeprefix("exposed_") for kind, part in _WHOLE.items() if part.startswith("exposed_")}
_FIELDS = (("compute", "compute"), ("recompute", "recompute"), ("tensor", "exposed_tp"), ("host", "host"))


def axis_of(operation: str) -> str | None:
    """The mesh axis along which an operation communicates (`reduce gradients`, `all_reduce tp`); None for others."""
    return "tp" if operation.endswith(" tp") else _AXES.get(operation)


def busy(columns: Columns, timeline: Timeline, prices: Prices, operations: Ints | slice) -> dict[str, int]:
    """Ticks of operations of one chain by what they consist of; their sum is what they lasted."""
    ticks = dict.fromkeys(PARTS, 0)
    lasted = timeline.end[operations] - timeline.start[operations]
    kind, stage, piece = columns.kind[operations], columns.stage[operations], columns.piece[operations]
    for code, name in _WHOLE.items():
        ticks[name] += int(lasted[kind == code].sum())
    halves = [[cost] for cost in prices.input_gradient], [[cost] for cost in prices.weight_gradient]
    tables = {d.FORWARD: prices.forward, d.BACKWARD: prices.backward, d.INPUT: halves[0], d.WEIGHT: halves[1]}
    for code, table in tables.items():
        for chunk in np.unique(stage[kind == code]).tolist():
            chosen = (kind == code) & (stage == chunk)
            _passes(table[chunk], piece[chosen], int(lasted[chosen].sum()), ticks)
    return ticks


def _passes(pieces: Sequence[PassCost], piece: Ints, lasted: int, ticks: dict[str, int]) -> None:
    """Passes through one chunk: what they cost alone by part, and what they lasted longer."""
    whole = int((piece < 0).sum())
    counts = np.bincount(piece[piece >= 0], minlength=len(pieces)) + whole
    alone = 0
    for cost, count in zip(pieces, counts.tolist(), strict=True):
        for field, name in _FIELDS:
            ticks[name] += getattr(cost, field) * count
        alone += cost.total * count
    ticks["stall"] += lasted - alone
