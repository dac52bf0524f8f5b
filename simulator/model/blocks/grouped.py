"""Attention whose query heads share key and value heads in groups: multi-head, grouped and multi-query alike.

Heads are cut over tensor parallelism; key heads are copied where there are fewer than devices (arXiv:2305.13245).
"""

from collections.abc import Iterator

from simulator.axes import TP
from simulator.model.blocks.around import rotary
from simulator.model.blocks.base import ATTENTIONS, KEYS, QUERIES, WHOLE, enter, leave
from simulator.model.cut import Cut
from simulator.model.ops import COLUMN, ROW, AttentionCore, CacheWrite, Linear, Op
from simulator.specs.model import Model


@ATTENTIONS.add("grouped")
def grouped(model: Model, cut: Cut, window: int | None, part: str = WHOLE) -> Iterator[Op]:
    """From the normed rows to what the residual stream adds."""
    heads = 0 if part == KEYS else cut.share(model.heads)
    kv_heads = 0 if part == QUERIES else cut.share(model.kv_heads)
    width, size = (heads + 2 * kv_heads) * model.head_dim, model.head_dim
    yield from enter(cut, "attention", model.hidden)
    yield Op("attention in", Linear(model.hidden, width, COLUMN, TP, bias=model.biases))
    if model.position == "rotary":
        yield rotary((heads + kv_heads) * size)
    if kv_heads:
        yield Op("cache", CacheWrite(2.0 * kv_heads * size))
    if part != KEYS:
        core = AttentionCore(heads, cut.share(model.kv_heads), size, window, cut.causal, kept=width)
        yield Op("attention", core)
        yield Op("attention out", Linear(core.attended, model.hidden, ROW, TP, bias=model.biases))
        yield from leave(cut, "attention", model.hidden)
