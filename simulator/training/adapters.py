"""Adapters of low rank beside frozen matrices (LoRA, arXiv:2106.09685; QLoRA, arXiv:2305.14314).

Everything of the model is frozen: products have a gradient of their rows only, norms, embedding and head none for their
parameters. A target of m x n gets two small products of r(m + n) parameters, in 16 bits, and the sum of both ways. They
read the same rows, so that those are gathered in 16 bits and not in a recipe's format. Where a column is cut the first
matrix is whole on every rank, where a row is cut the second is, so that the base's own collectives suffice.

Where `lora.dropout` is given, the first product reads rows that a pass of its own thinned out, one kernel in all stacks
(huggingface/peft src/peft/tuners/lora/layer.py: `lora_B(lora_A(dropout(x))) * scaling` beside the result). The scale is
part of the sum, which has two kernels where a stack runs passes one by one.

Left out: that gradients of rows stop below the lowest adapter (the first products of the first layer), the sum over
tensor-parallel ranks of gradients of the whole matrices.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from simulator.errors import InputError, Problem, nearest
from simulator.model.ops import COLUMN, ROW, WIDE, Elementwise, Linear, Op, Traffic
from simulator.specs.training import Lora

DROPOUT = "adapter dropout"
"""Kind of a pass that is one kernel in all stacks."""
STORED = {"nf4": 0.5 + 1 / 64 + 4 / (64 * 256)}
"""Bytes of a frozen element: 4 bits, one byte for each 64, 4 bytes for each 256 of those (double quantisation)."""


def adapted(ops: Iterable[Op], lora: Lora) -> Iterator[Op]:
    """Operations of a layer, frozen, with adapters beside the targets; InputError for one that is no product here."""
    listed = list(ops)
    _check(listed, lora)
    for op in listed:
        if op.name in lora.targets and isinstance(op.does, Linear):
            if lora.dropout:
                yield _thinned(op.name, op.does)
            yield from _beside(op.name, op.does, lora.rank)
            yield replace(op, frozen=True)
            yield _sum(op.name, op.does)
        else:
            yield replace(op, frozen=True)


def frozen(ops: Iterable[Op]) -> Iterator[Op]:
    """Operations none of whose parameters are trained."""
    return (replace(op, frozen=True) for op in ops)


def reads_attention(lora: Lora) -> bool:
    """Whether an adapter keeps what attention wrote as it is, which attention's own backward pass reads too."""
    return "attention out" in lora.targets and not lora.dropout


def _check(ops: Sequence[Op], lora: Lora) -> None:
    products = [op.name for op in ops if isinstance(op.does, Linear)]
    for target in lora.targets:
        if target not in products:
            message = f"`{target}` is no product of a layer, which has {', '.join(f'`{name}`' for name in products)}"
            raise InputError(Problem(message, path="training.lora.targets", hint=nearest(target, products)))


def _beside(name: str, base: Linear, rank: int) -> Iterator[Op]:
    """The two products of an adapter."""
    row, column = base.cut == ROW, base.cut == COLUMN
    first = Linear(base.inputs, rank, ROW if row else "", base.axis if row else None, WIDE)
    second = Linear(rank, base.outputs, COLUMN if column else "", base.axis if column else None, WIDE)
    yield Op(f"adapter of {name}, down", first)
    yield Op(f"adapter of {name}, up", second)


def _thinned(name: str, base: Linear) -> Op:
    """Dropout of the rows that an adapter reads: the thinned rows are kept by the product that reads them, which a
    frozen base does not do with its own."""
    width = float(base.inputs)
    back = ((f"adapter of {name}, dropout", Traffic(width, width, masks_read=width)),)
    does = Elementwise(DROPOUT, Traffic(width, width, masks_written=width), back)
    return Op(f"adapter of {name}, dropout", does)


def _sum(name: str, base: Linear) -> Op:
    """Adding what an adapter found; backward the gradients of the rows that both read."""
    back = ((f"adapter of {name}", Traffic(2.0 * base.inputs, base.inputs)),)
    return Op(f"adapter of {name}", Elementwise("adapter", Traffic(2.0 * base.outputs, base.outputs), back))
