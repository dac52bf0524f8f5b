# my_attention.py
from simulator.axes import TP
from simulator.model.blocks import ATTENTIONS
from simulator.model.blocks.base import enter, leave
from simulator.model.ops import COLUMN, ROW, AttentionCore, CacheWrite, Linear, Op


@ATTENTIONS.add("keys-as-values")
def keys_as_values(model, cut, window, part):
    """Queries, and keys that are the values too."""
    heads, kv_heads, size = cut.share(model.heads), cut.share(model.kv_heads), model.head_dim
    width = (heads + kv_heads) * size
    yield from enter(cut, "attention", model.hidden)
    yield Op("attention in", Linear(model.hidden, width, COLUMN, TP))
    yield Op("cache", CacheWrite(kv_heads * size))
    yield Op("attention", AttentionCore(heads, kv_heads, size, window, cut.causal, kept=width))
    yield Op("attention out", Linear(heads * size, model.hidden, ROW, TP))
    yield from leave(cut, "attention", model.hidden)
