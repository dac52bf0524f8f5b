"""Attention whose query heads share key and value heads in groups: multi-head, grouped and multi-query alike.

Heads are cut over tensor parallelism; key heads are copied where there are fewer than devices (arXiv:2305.13245).
"""

from collections.abc import Iterator

from simulator.axes import TP
from simulator.model.blocks.around import across_heads, gate, head_norms, rotary
from simulator.model.blocks.base import ATTENTIONS, KEYS, QUERIES, WHOLE, enter, leave
from simulator.model.cut import Cut
from simulator.model.ops import COLUMN, ROW, AttentionCore, CacheWrite, Linear, Op
from simulator.specs.model import Model


@ATTENTIONS.add("grouped")
def grouped(model: Model, cut: Cut, window: int | None, part: str = WHOLE) -> Iterator[Op]:
    """From the normed rows to what the residual stream adds."""
    heads = 0 if part == KEYS else cut.share(model.heads)
    kv_heads = 0 if part == QUERIES else cut.share(model.kv_heads)
    size, values = model.head_dim, model.v_head_dim or model.head_dim
    own = 0 if model.keys_as_values else values  # of a value's matrix and cache
    gated = heads * values if model.attention_gate else 0
    width = heads * size + kv_heads * (size + own)
    biases = bool(model.biases if model.attention_biases is None else model.attention_biases)
    yield from enter(cut, "attention", model.hidden, 3 if part == WHOLE else 1)
    yield Op("attention in", Linear(model.hidden, width + gated, COLUMN, TP, bias=biases))
    if model.norm_across_heads:
        yield from across_heads(cut, float((heads + kv_heads) * size), (heads > 0) + (kv_heads > 0))
    if model.head_norms and cut.norms_apart:
        yield head_norms(float((heads + kv_heads) * size))
    if model.position == "rotary":
        yield rotary((heads + kv_heads) * size)
    if kv_heads:
        yield Op("cache", CacheWrite(float(kv_heads * (size + own))))
    if part != KEYS:
        found = cut.share(model.kv_heads)
        core = AttentionCore(
            heads,
            found,
            size,
            window,
            cut.causal,
            kept=width,
            value_dim=model.v_head_dim,
            sinks=model.attention_sinks,
            chunked=model.chunked_window,
            blocks=model.block_mask,
        )
        yield Op("attention", core)
        if gated:
            yield gate(gated)
        yield Op("attention out", Linear(core.attended, model.hidden, ROW, TP, bias=model.biases))
        yield from leave(cut, "attention", model.hidden)
