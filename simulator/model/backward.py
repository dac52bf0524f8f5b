"""The backward pass of operations, by one rule a kind.

* A product has two: the gradient of its rows, and that of its matrix, which nothing waits for and which therefore runs
  after the collective of the former. Rows that were gathered were not kept and are gathered again (Megatron's sequence
  parallelism, arXiv:2205.05198, section 4.2.2).
* An all-gather becomes a reduce-scatter and the reverse. Partial sums that were reduced to all give every device the
  whole gradient, so an all-reduce becomes nothing but a copy; what every device took whole has partial gradients, so a
  copy becomes an all-reduce (Megatron's f and g, arXiv:1909.08053, section 3).
* An elementwise kernel states its own kernels; attention, scans, masks and the loss run backward; a table is scattered
  into.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from simulator.model.ops import (
    COPY,
    AttentionCore,
    CacheWrite,
    Comm,
    Elementwise,
    Linear,
    Lookup,
    Loss,
    Masked,
    Op,
    StateScan,
    Traffic,
    WeightGradient,
)

GATHER, SCATTER, REDUCE = "all_gather", "reduce_scatter", "all_reduce"
DISPATCH, COMBINE = "dispatch", "combine"
DUAL = {
    GATHER: SCATTER,
    SCATTER: GATHER,
    REDUCE: COPY,
    COPY: REDUCE,
    "all_to_all": "all_to_all",
    DISPATCH: COMBINE,
    COMBINE: DISPATCH,
}
"""The collective that carries the gradients back."""
EXPERT_EXCHANGES = (DISPATCH, COMBINE)
"""Operations that carry rows, or their gradients, to experts of other devices and back."""


def backward(ops: Iterable[Op]) -> Iterator[Op]:
    """The backward pass of operations that run one after the other; ValueError for a kind without a rule."""
    forward = list(ops)
    before = [None, *(op.does for op in forward)]
    waiting: list[Op] = []
    for op, source in zip(reversed(forward), reversed(before[:-1]), strict=True):
        if isinstance(op.does, Comm):
            operation = COPY if op.does.whole else DUAL[op.does.operation]
            yield Op(f"gradient of {op.name}", replace(op.does, operation=operation), owner=op.owner)
            continue
        yield from waiting
        waiting = []
        if isinstance(op.does, Linear):
            if isinstance(source, Comm) and source.operation == GATHER and not source.kept and not op.frozen:
                yield Op(f"input of {op.name} again", source, owner=op.owner)
            yield Op(op.name, op.does.to_input(), frozen=op.frozen, owner=op.owner)
            waiting = [] if op.frozen else [Op(op.name, WeightGradient(op.does), gradient=True, owner=op.owner)]
        else:
            yield from (replace(one, owner=op.owner) for one in _alone(op))
    yield from waiting


def _alone(op: Op) -> Iterator[Op]:
    """The backward pass of what is neither a product nor a collective."""
    does = op.does
    if isinstance(does, Elementwise):
        yield from (Op(name, replace(does, forward=traffic, back=())) for name, traffic in does.back)
    elif isinstance(does, (AttentionCore, Masked, StateScan, Loss)):
        yield replace(op, does=replace(does, backward=True))
    elif isinstance(does, Lookup):
        yield Op(op.name, Elementwise("embedding", Traffic(2.0 * does.width, does.width)))
    elif not isinstance(does, CacheWrite):
        raise ValueError(f"no rule for the backward pass of {op.name}: {type(does).__name__}")
