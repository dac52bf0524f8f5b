"""Elementwise operations around the matrices: norms, residual additions, rotary positions, activations."""

from collections.abc import Iterator

from simulator.axes import TP, Axis
from simulator.model.cut import Cut
from simulator.model.ops import Comm, Elementwise, Op, Traffic
from simulator.specs.model import Model

NORM, RESIDUAL, ROTARY, ACTIVATION, BRANCHES = "norm", "residual", "rotary", "activation", "branches"
GATE, CLAMP, PARTED = "gate", "clamp", "keys of two parts"
SQUARES, ACROSS, HEADS = "squares of heads", "norm across heads", "head norms"
"""Kinds of elementwise operations that stacks have rules for."""


def norm(model: Model, cut: Cut) -> Op:
    """The norm before a block."""
    width = model.hidden
    back = ((NORM, Traffic(2.0 * width, width, 2)),)
    vectors = (width,) * (2 if model.norm == "layernorm" else 1)  # scales, and shifts of a layer norm
    return Op(NORM, Elementwise(NORM, Traffic(width, width), back, width, vectors, cut.rows))


def residual(model: Model, cut: Cut) -> Op:
    """Adding what a block found to the stream, with its dropout; kernels of the backward pass are apart."""
    width = float(model.hidden)
    masked = width if cut.dropout else 0.0
    back: tuple[tuple[str, Traffic], ...] = ((RESIDUAL, Traffic(2 * width, width)),)
    if masked:
        back += (("dropout", Traffic(width, width, masks_read=masked)),)
    return Op(RESIDUAL, Elementwise(RESIDUAL, Traffic(2 * width, width, masks_written=masked), back, axis=cut.rows))


def rotary(width: float) -> Op:
    """Turning queries and keys by their positions."""
    traffic = Traffic(width, width, 2)
    return Op(ROTARY, Elementwise(ROTARY, traffic, ((ROTARY, traffic),)))


def across_heads(cut: Cut, width: float, sums: int) -> Iterator[Op]:
    """Norms of queries and of keys over the heads of all devices: `sums` squares of each row in fp32 are added over
    tensor parallelism, in one collective (vLLM's `MiniMaxText01RMSNormTP.forward_qk`), before rows are scaled."""
    squares = Traffic(width, 2.0 * sums)
    yield Op(SQUARES, Elementwise(SQUARES, squares, ((SQUARES, squares),)))
    if cut.over(TP) > 1:
        yield Op("sum squares", Comm("all_reduce", TP, 2.0 * sums))
    scaled = Traffic(width, width)
    yield Op(ACROSS, Elementwise(ACROSS, scaled, ((ACROSS, scaled),)))


def head_norms(width: float) -> Op:
    """Norms of queries and of keys head by head, `width` elements of a row: each is copied out of the product's result,
    as Transformer Engine's norms take rows without gaps, and normed; backward each has a kernel for its rows and one
    that sums the gradients of its scales."""
    back = ((HEADS, Traffic(2.0 * width, width, 4)),)
    return Op(HEADS, Elementwise(HEADS, Traffic(2.0 * width, 2.0 * width, 4), back, kept=width))


def activation(inner: float, gated: bool, rows: Axis | None = None) -> Op:
    """The nonlinearity of an MLP of that inner width, times its gate, on rows that an axis may cut."""
    read = 2.0 if gated else 1.0
    back = ((ACTIVATION, Traffic((read + 1) * inner, read * inner)),)
    return Op(ACTIVATION, Elementwise(ACTIVATION, Traffic(read * inner, inner), back, read * inner, axis=rows))


def clamp(inner: float, rows: Axis | None = None) -> Op:
    """Cutting gate and rows off at a limit, before a fused nonlinearity that does not do it itself (Megatron-Core's
    `weighted_bias_quick_geglu_impl`): two passes and one that joins their results.

    Backward, PyTorch compares with a limit on one side and with two on the other, writes masks of a byte, joins these
    two, takes the gradients that the masks leave, and joins both.
    """
    back = ((CLAMP, Traffic(7.0 * inner, 4.0 * inner, 7, masks_read=4.0 * inner, masks_written=4.0 * inner)),)
    return Op(CLAMP, Elementwise(CLAMP, Traffic(4.0 * inner, 4.0 * inner, 3), back, 2.0 * inner, axis=rows))


def branches(model: Model) -> Op:
    """Adding attention and MLP where they stand side by side."""
    return Op(BRANCHES, Elementwise(BRANCHES, Traffic(2.0 * model.hidden, model.hidden)))


def gate(width: int) -> Op:
    """Multiplying the result of attention by a sigmoid of its gate, which is kept with the result."""
    back = ((GATE, Traffic(3.0 * width, 2.0 * width)),)
    return Op(GATE, Elementwise(GATE, Traffic(2.0 * width, width), back, kept=2.0 * width))
