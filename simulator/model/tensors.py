"""What operations imply: tensors of parameters, what is kept for the backward pass, the cache."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from simulator.axes import TP, Axis
from simulator.model.backward import GATHER
from simulator.model.ops import (
    COLUMN,
    LAYER,
    TABLE,
    TIED,
    WIDE,
    AttentionCore,
    CacheWrite,
    Comm,
    Does,
    Elementwise,
    Experts,
    Linear,
    Lookup,
    Masked,
    Op,
    StateScan,
)

MATRIX, BIAS, SCALE = "matrix", "bias", "scale"


@dataclass(frozen=True, slots=True)
class Tensor:
    """Parameters of an operation on one device."""

    name: str
    kind: str
    """`matrix`, `bias`, or `scale` (of a norm)."""
    elements: float
    format: str = WIDE
    cut: tuple[Axis, ...] = ()
    """Axes that cut it; all others copy it."""
    rows: Axis | None = None
    """The axis that cuts the rows which it works on."""
    frozen: bool = False
    """Whether it is not trained."""

    @property
    def summed(self) -> tuple[Axis, ...]:
        """Axes that copy it while they cut the rows it works on, apart from those of the batch: each device has a part
        of its gradient, and they have to be summed."""
        return () if self.rows is None or self.rows in self.cut else (self.rows,)


def tensors(ops: Iterable[Op]) -> Iterator[Tensor]:
    """Parameters of operations, in their order."""
    for op in ops:
        if op.owner != TIED:
            yield from (replace(one, frozen=True) for one in _tensors(op)) if op.frozen else _tensors(op)


def _tensors(op: Op) -> Iterator[Tensor]:
    does = op.does
    if isinstance(does, Linear):
        cut = _only(does.axis) + _only(does.spread)
        yield Tensor(op.name, MATRIX, does.weights - does.copied, does.format, cut, does.rows)
        if does.bias:
            cut, rows = cut if does.cut == COLUMN else _only(does.spread), does.rows if does.spread else None
            yield Tensor(op.name, BIAS, float(does.outputs * does.matrices), WIDE, cut, rows)
    elif isinstance(does, Elementwise):
        yield from (Tensor(op.name, SCALE, float(size), rows=does.axis) for size in does.weights)
    elif isinstance(does, AttentionCore) and does.sinks:
        yield Tensor(op.name, SCALE, float(does.heads), WIDE, (TP,))
    elif isinstance(does, Experts):
        one = float(does.hidden * does.inner * (3 if does.gated else 2))
        yield Tensor(op.name, MATRIX, one * (does.experts / does.sharers), LAYER, (does.axis,))
    elif isinstance(does, Lookup):
        yield Tensor(op.name, MATRIX, float(does.entries * does.width), TABLE, _only(does.axis))
        if does.positions:
            yield Tensor("positions", MATRIX, float(does.positions * does.width), TABLE, rows=does.rows)


def _only(axis: Axis | None) -> tuple[Axis, ...]:
    return () if axis is None else (axis,)


FACTOR, PLAIN, MASK = "factor", "plain", "mask"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a row leaves on the device between its forward and its backward pass."""

    name: str
    elements: float
    form: str
    """`factor`: as a product of the layers read it; `plain`: in the working precision; `mask`: one byte each."""
    rows: Axis | None = None
    """The axis that cuts the rows."""


def kept(ops: Iterable[Op]) -> Iterator[Kept]:
    """What operations keep, tensor by tensor: inputs of products, attention, scans and of what states it; masks.

    Gathered rows are not kept, only the device's own; scores and statistics of attention are left to the caller.
    """
    gathered: Axis | None = None
    for op in ops:
        does = op.does
        if isinstance(does, Linear):
            if does.keeps and not op.frozen:
                form = FACTOR if does.format == LAYER else PLAIN
                yield Kept(op.name, does.inputs * does.visits, form, does.rows or gathered)
        elif isinstance(does, (AttentionCore, StateScan)):
            yield Kept(op.name, does.kept, PLAIN)
        elif isinstance(does, Masked) and does.returns:
            yield Kept(op.name, does.slots * does.width, PLAIN, does.rows)
        elif isinstance(does, Elementwise):
            if does.kept:
                yield Kept(op.name, does.kept, PLAIN, does.axis)
            if does.forward.masks_written:
                yield Kept(op.name, does.forward.masks_written, MASK, does.axis)
        elif isinstance(does, Lookup) and does.masked:
            yield Kept(op.name, does.masked, MASK, does.rows)
        gathered = _gathered(does)


def kept_for_weights(ops: Iterable[Op]) -> Iterator[Kept]:
    """What gradients of weights read: the rows of products, the device's own where they are gathered again, and the
    gradients of what the products wrote."""
    gathered: Axis | None = None
    for op in ops:
        does = op.does
        if isinstance(does, Linear) and not op.frozen:
            form = FACTOR if does.format == LAYER else PLAIN
            yield Kept(op.name, does.inputs * does.visits * does.keeps, form, does.rows or gathered)
            yield Kept(f"gradient of {op.name}", does.outputs * does.visits, form, does.rows)
        gathered = _gathered(does)


def _gathered(does: Does) -> Axis | None:
    """The axis over which the next operation's rows are gathered, and gathered again in the backward pass."""
    return does.axis if isinstance(does, Comm) and does.operation == GATHER and not does.kept else None


def cached(ops: Iterable[Op]) -> float:
    """Elements that a row leaves in the cache."""
    return sum(op.does.elements for op in ops if isinstance(op.does, CacheWrite))


def cached_bytes(ops: Iterable[Op], element: float) -> float:
    """Bytes that a row leaves in the cache where an element takes so many."""
    return sum(op.does.elements * element + op.does.fixed for op in ops if isinstance(op.does, CacheWrite))


def core(ops: Iterable[Op]) -> AttentionCore | None:
    """The attention among operations; None where there is none."""
    return next((op.does for op in ops if isinstance(op.does, AttentionCore)), None)


def cores(ops: Iterable[Op]) -> list[AttentionCore]:
    """All attention among operations: of a decoder's layer its own and that to an encoder."""
    return [op.does for op in ops if isinstance(op.does, AttentionCore)]


def scan(ops: Iterable[Op]) -> StateScan | None:
    """The recurrence among operations; None where there is none."""
    return next((op.does for op in ops if isinstance(op.does, StateScan)), None)


def results(ops: Iterable[Op]) -> Iterator[tuple[float, Axis | None]]:
    """(elements of a row, the axis that cuts the rows) of the results of column-cut products, on one device."""
    for op in ops:
        if isinstance(op.does, Linear) and op.does.cut == COLUMN:
            yield op.does.outputs * op.does.visits, op.does.rows


def multiplied(ops: Iterable[Op]) -> float:
    """Weights with which products multiply a row, those of the experts that it visits included."""
    total = 0.0
    for op in ops:
        if isinstance(op.does, Linear):
            total += op.does.inputs * op.does.outputs * op.does.visits
        elif isinstance(op.does, Experts):
            total += op.does.top_k * op.does.hidden * op.does.inner * (3 if op.does.gated else 2)
    return total
