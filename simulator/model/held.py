"""Results that stay where whole layers are computed again, by operation (PyTorch's selective activation checkpointing).

`attention`: what attention gives; `reductions`: rows after the sums over tensor parallelism; `products`: results of all
products but those of experts and their router; `every-second-product`: the first, third ... of them (torchtitan); or
the name of an operation. With `summed`, kept products that tensor parallelism sums stay as they are after the sum, on
the ranks among which that spreads them (XLA, which names logical results). Everything else runs again, also what leads
to nothing but a kept result. Fused matrices count as what they were fused of: queries, keys and values as three, gate
and input of a gated MLP as two.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from simulator.axes import TP, Axis
from simulator.model.backward import REDUCE, SCATTER
from simulator.model.ops import AttentionCore, Comm, Linear, Op

ATTENTION, REDUCTIONS, PRODUCTS, SECOND = "attention", "reductions", "products", "every-second-product"
SUMMED = "summed"
GROUPS = (ATTENTION, REDUCTIONS, PRODUCTS, SECOND, SUMMED)
QKV, GATED = "attention in", ("mlp in", "experts in")
"""Operations that may be fused of several matrices."""


class Held(NamedTuple):
    """A result that is kept, on one device."""

    elements: float
    """Of a row."""
    rows: Axis | None = None
    """The axis that cuts the rows."""


def holdable(ops: Sequence[Op]) -> list[str]:
    """Names of the operations whose results can be kept."""
    return list(dict.fromkeys(op.name for op in ops if isinstance(op.does, (Linear, Comm, AttentionCore))))


def computed_beside(ops: Sequence[Op], keeps: Collection[str]) -> tuple[list[Op], list[Held]]:
    """The operations of a layer that run again, and the results that are kept."""
    again: list[Op] = []
    held: list[Held] = []
    products, sums = 0, False
    for i, op in enumerate(ops):
        does, kept = op.does, op.name in keeps or sums
        sums = False
        if isinstance(does, Linear):
            widths = fused_of(ops, i)
            counted = does.spread is None and op.name != "router"
            chosen = [kept or (counted and _chosen(products + n, keeps)) for n in range(len(widths))]
            products += counted * len(widths)
            stays = sum(width for width, stay in zip(widths, chosen, strict=True) if stay)
            sums = stays == does.outputs and SUMMED in keeps and _summed(ops, i)
            if stays and not sums:
                held.append(Held(stays * does.visits, does.rows))
            if stays < does.outputs:
                again.append(replace(op, does=replace(does, outputs=does.outputs - stays)) if stays else op)
        elif isinstance(does, AttentionCore) and (kept or ATTENTION in keeps):
            held.append(Held(does.attended))
        elif isinstance(does, Comm) and (kept or (REDUCTIONS in keeps and _reduces(does))):
            held.append(Held(does.width, does.axis if does.operation == SCATTER else does.rows))
        else:
            again.append(op)
    return again, held


def _chosen(number: int, keeps: Collection[str]) -> bool:
    """Whether the n-th product of a layer, from 0, is kept."""
    return PRODUCTS in keeps or (SECOND in keeps and number % 2 == 0)


def _summed(ops: Sequence[Op], i: int) -> bool:
    """Whether a sum over tensor parallelism follows an operation."""
    after = ops[i + 1].does if i + 1 < len(ops) else None
    return isinstance(after, Comm) and _reduces(after)


def _reduces(does: Comm) -> bool:
    return does.axis is TP and does.operation in (REDUCE, SCATTER)


def fused_of(ops: Sequence[Op], i: int) -> tuple[int, ...]:
    """Outputs of the matrices that a product was fused of: queries, keys and values, gate and input of a gated MLP."""
    does = ops[i].does
    assert isinstance(does, Linear)
    core = next((op.does for op in ops[i:] if isinstance(op.does, AttentionCore)), None)
    if ops[i].name == QKV and core is not None:
        parts = (core.heads * core.head_dim, core.kv_heads * core.head_dim, core.kv_heads * core.values)
        if sum(parts) == does.outputs:
            return parts
    after = next((op.does for op in ops[i + 1 :] if isinstance(op.does, Linear)), None)
    if ops[i].name in GATED and after is not None and does.outputs == 2 * after.inputs:
        return after.inputs, after.inputs
    return (does.outputs,)
