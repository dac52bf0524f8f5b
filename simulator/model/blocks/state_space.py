"""State-space layers: Mamba-1 (arXiv:2312.00752) and Mamba-2 (arXiv:2405.21060).

The inner width has `value_heads` heads of `value_dim` channels (Mamba-1: channels of their own), each channel with a
state of `key_dim` numbers. Inner widths are cut over tensor parallelism; groups of Mamba-2 are copied where there are
fewer than devices. Mamba-1 reads its states' inputs and time steps from the convolved rows, whose parts are summed.
"""

from collections.abc import Iterator

from simulator.axes import TP
from simulator.model.blocks.base import ATTENTIONS, WHOLE, enter
from simulator.model.blocks.linear import WIDE_ELEMENTS, convolution, decays, gate, out, scan, sizes
from simulator.model.cut import Cut
from simulator.model.ops import COLUMN, COPY, ROW, Comm, Linear, Op
from simulator.specs.model import Model


@ATTENTIONS.add("mamba2")
def mamba2(model: Model, cut: Cut, window: int | None, part: str = WHOLE) -> Iterator[Op]:
    """Gate, rows, states' inputs and outputs of each group, and a time step of each head in one product."""
    own = sizes(model)
    heads = cut.share(own.value_heads)
    inner, groups = heads * own.value_dim, cut.share(own.key_heads) * own.key_dim
    yield from enter(cut, "attention", model.hidden)
    yield Op("attention in", Linear(model.hidden, 2 * inner + 2 * groups + heads, COLUMN, TP))
    yield from convolution(inner + 2 * groups, own.conv, bias=True)
    yield scan("mamba2", own, cut, WIDE_ELEMENTS * heads, inner + 2 * groups)
    yield gate(inner, inner, 3 * heads)
    yield from out(model, inner, cut)


@ATTENTIONS.add("mamba1")
def mamba1(model: Model, cut: Cut, window: int | None, part: str = WHOLE) -> Iterator[Op]:
    """Gate and rows in one product; states' inputs, outputs and time steps from a second one."""
    own = sizes(model)
    inner = cut.share(own.value_heads) * own.value_dim
    rank = own.decay_rank or -(-model.hidden // 16)
    narrow = rank + 2 * own.key_heads * own.key_dim
    yield from enter(cut, "attention", model.hidden)
    yield Op("attention in", Linear(model.hidden, 2 * inner, COLUMN, TP))
    yield from convolution(inner, own.conv, bias=True)
    yield Op("state in", Linear(inner, narrow, ROW, TP))
    if cut.over(TP) > 1:
        yield Op("reduce state in", Comm("all_reduce", TP, narrow))
        yield Op("copy state in", Comm(COPY, TP, narrow))
    yield from decays(rank, inner, inner)
    yield scan("mamba1", own, cut, WIDE_ELEMENTS * inner, inner)
    yield gate(inner, 0, inner * (own.key_dim + 1))
    yield from out(model, inner, cut)
