"""Cross attention: rows of a decoder attend to the output of an encoder (arXiv:1706.03762, section 3.2.3).

Queries come from the decoder's rows, keys and values from those of the encoder, of which there are `Cut.encoded` for
each row. Heads are cut as those of grouped attention are. The encoder's output is kept once for all layers, so that no
layer keeps it.
"""

from collections.abc import Iterator

from simulator.axes import TP
from simulator.model.blocks.base import enter, leave
from simulator.model.cut import Cut
from simulator.model.ops import COLUMN, ROW, AttentionCore, Comm, Linear, Op
from simulator.specs.model import Model


def cross(model: Model, cut: Cut, cached: bool = False) -> Iterator[Op]:
    """From the normed rows to what the residual stream adds; `cached`: the keys and values are there already."""
    heads, kv_heads, size = cut.share(model.heads), cut.share(model.kv_heads), model.head_dim
    queries, keys = heads * size, 2 * kv_heads * size
    yield from enter(cut, "cross attention", model.hidden)
    yield Op("cross query", Linear(model.hidden, queries, COLUMN, TP, bias=model.biases))
    if cut.over(TP) > 1 and not cached:
        operation = "all_gather" if cut.scattered else "copy"
        yield Op("gather encoded", Comm(operation, TP, model.hidden * cut.encoded))
    if not cached:
        yield cross_keys(model, cut)
    core = AttentionCore(heads, kv_heads, size, causal=False, kept=queries + keys * cut.encoded, encoded=cut.encoded)
    yield Op("cross attention", core)
    yield Op("cross attention out", Linear(core.attended, model.hidden, ROW, TP, bias=model.biases))
    yield from leave(cut, "cross attention", model.hidden)


def cross_keys(model: Model, cut: Cut) -> Op:
    """Keys and values of the encoder's output for a layer of the decoder."""
    keys = 2 * cut.share(model.kv_heads) * model.head_dim
    into = Linear(model.hidden, keys, COLUMN, TP, bias=model.biases, visits=cut.encoded, keeps=False)
    return Op("cross key and value", into)
