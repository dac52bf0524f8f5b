"""Linear attention: gated delta net, Kimi delta attention, gated linear attention, lightning attention.

A state of key x value numbers a head stands for all tokens before: decays forget, an outer product adds a token, the
delta rule first takes out what the state says of its key. Heads are cut over tensor parallelism; those of keys are
copied where there are fewer than devices, and narrow inner widths are whole on each. Sources: gated delta net
arXiv:2412.06464 as in Qwen3-Next, `kda` arXiv:2510.26692, `gla` arXiv:2312.06635, `lightning` arXiv:2501.08313.

Left out: norms of queries and keys, and decays of a head (they run inside other kernels).
"""

from collections.abc import Iterator

from simulator.axes import TP
from simulator.model.blocks.base import ATTENTIONS, WHOLE, enter, leave
from simulator.model.cut import Cut
from simulator.model.ops import COLUMN, ROW, Elementwise, Linear, Op, StateScan, Traffic
from simulator.specs.model import LinearSizes, Model

CONVOLUTION, GATE, DECAY = "convolution", "output gate", "decay"
"""Kinds of elementwise operations around a state."""
WIDE_ELEMENTS = 2.0
"""Elements of the working precision that a number in fp32 takes: decays and time steps."""


def convolution(width: int, taps: int, bias: bool = False) -> Iterator[Op]:
    """The causal convolution of each channel over the last `taps` rows, with its activation."""
    if taps:
        back = ((CONVOLUTION, Traffic(2.0 * width, width)),)
        weights = (width * (taps + bias),)
        yield Op(CONVOLUTION, Elementwise(CONVOLUTION, Traffic(width, width), back, width, weights))


def gate(width: int, scales: int, others: int = 0) -> Op:
    """The norm of the results, of `scales` weights, times a gate; `others` are small parameters of the recurrence."""
    back = ((GATE, Traffic(3.0 * width, 2.0 * width)),)
    weights = tuple(size for size in (scales, others) if size)
    return Op(GATE, Elementwise(GATE, Traffic(2.0 * width, width), back, 2.0 * width, weights))


def sizes(model: Model) -> LinearSizes:
    """Sizes of the layers with a state; the spec has checked that they are there."""
    assert model.linear is not None
    return model.linear


def scan(kind: str, own: LinearSizes, cut: Cut, kept: float, convolved: int = 0) -> Op:
    """The recurrence of the heads of a device; `kept` without queries, keys and values, which it keeps too."""
    heads, key_heads = cut.share(own.value_heads), cut.share(own.key_heads)
    kept += 2 * key_heads * own.key_dim + heads * own.value_dim
    tail = convolved * max(own.conv - 1, 0)
    shape = (own.key_dim, own.value_dim, own.chunk)
    return Op("state", StateScan(kind, heads, key_heads, *shape, kept, tail, own.state_bytes))


def out(model: Model, width: int, cut: Cut) -> Iterator[Op]:
    """The product with the results, and their sum over devices."""
    yield Op("attention out", Linear(width, model.hidden, ROW, TP))
    yield from leave(cut, "attention", model.hidden)


@ATTENTIONS.add("delta")
def delta(model: Model, cut: Cut, window: int | None, part: str = WHOLE) -> Iterator[Op]:
    """Gated delta net: queries, keys, values, gate, and a decay and a rate of each head in one product."""
    own = sizes(model)
    heads = cut.share(own.value_heads)
    keys, values = cut.share(own.key_heads) * own.key_dim, heads * own.value_dim
    yield from enter(cut, "attention", model.hidden)
    yield Op("attention in", Linear(model.hidden, 2 * keys + 2 * values + 2 * heads, COLUMN, TP))
    yield from convolution(2 * keys + values, own.conv)
    kept = heads * (2 * WIDE_ELEMENTS + own.chunk)  # decay, rate, the inverse of the chunk
    yield scan("delta", own, cut, kept, 2 * keys + values)
    yield gate(values, own.value_dim, 2 * heads)
    yield from out(model, values, cut)


@ATTENTIONS.add("kda")
def kda(model: Model, cut: Cut, window: int | None, part: str = WHOLE) -> Iterator[Op]:
    """Kimi delta attention: a decay of each channel of the keys from a narrow projection, and an output gate."""
    own = sizes(model)
    heads = cut.share(own.value_heads)
    keys, values = cut.share(own.key_heads) * own.key_dim, heads * own.value_dim
    rank, narrow = own.decay_rank or own.key_dim, own.gate_rank
    columns = 2 * keys + values + heads + rank + (narrow or values)
    yield from enter(cut, "attention", model.hidden)
    yield Op("attention in", Linear(model.hidden, columns, COLUMN, TP))
    yield from convolution(2 * keys + values, own.conv)
    yield from decays(rank, keys, heads + keys)
    if narrow:
        yield Op("gate", Linear(narrow, values, COLUMN, TP))
    kept = heads * (WIDE_ELEMENTS + 2 * own.chunk) + WIDE_ELEMENTS * keys
    yield scan("kda", own, cut, kept, 2 * keys + values)
    yield gate(values, own.value_dim)
    yield from out(model, values, cut)


def decays(rank: int, keys: int, parameters: int) -> Iterator[Op]:
    """Decays of the channels of the keys, in fp32; their biases and scales are `parameters`."""
    yield Op(DECAY, Linear(rank, keys, COLUMN, TP))
    traffic = Traffic(keys, WIDE_ELEMENTS * keys)
    back = ((DECAY, Traffic((1 + WIDE_ELEMENTS) * keys, keys)),)
    yield Op(DECAY, Elementwise(DECAY, traffic, back, keys, (parameters,) if parameters else ()))


@ATTENTIONS.add("gla")
def gla(model: Model, cut: Cut, window: int | None, part: str = WHOLE) -> Iterator[Op]:
    """Gated linear attention: a decay of each channel of the keys, no delta rule."""
    yield from _without_delta(model, cut, "gla")


@ATTENTIONS.add("lightning")
def lightning(model: Model, cut: Cut, window: int | None, part: str = WHOLE) -> Iterator[Op]:
    """Lightning attention: the decay of a head is a constant."""
    yield from _without_delta(model, cut, "lightning")


def _without_delta(model: Model, cut: Cut, kind: str) -> Iterator[Op]:
    own, learned = sizes(model), kind == "gla"
    keys, values = cut.share(own.key_heads) * own.key_dim, cut.share(own.value_heads) * own.value_dim
    rank = (own.decay_rank or own.key_dim) if learned else 0
    yield from enter(cut, "attention", model.hidden)
    yield Op("attention in", Linear(model.hidden, 2 * keys + 2 * values + rank, COLUMN, TP))
    yield from convolution(2 * keys + values, own.conv)
    if learned:
        yield from decays(rank, keys, keys)
    yield scan(kind, own, cut, WIDE_ELEMENTS * keys if learned else 0.0, 2 * keys + values)
    yield gate(values, own.value_dim if learned else values)
    yield from out(model, values, cut)
