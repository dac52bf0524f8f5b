"""How a module for multi-token prediction begins: rows of the module before it beside the embedding of the next token.

Both are normed, put together, and brought back to the width of the stream by one matrix (DeepSeek-V3, arXiv:2412.19437,
section 2.2, equation 21). The matrix is cut by its outputs, which every tensor-parallel device then gathers; the table
is that of the input embedding (Megatron-Core's multi_token_prediction.py).
"""

from collections.abc import Iterator
from dataclasses import replace

from simulator.axes import TP
from simulator.model.blocks.around import norm
from simulator.model.blocks.base import enter
from simulator.model.blocks.ends import embedding
from simulator.model.cut import Cut
from simulator.model.ops import COLUMN, TIED, Comm, Elementwise, Linear, Op, Traffic
from simulator.specs.model import Model

JOIN = "join"


def joined(model: Model, cut: Cut) -> Iterator[Op]:
    """From the rows of the last layer to those of the module's own layer."""
    width = model.hidden
    yield from (replace(op, owner=TIED) for op in embedding(model, cut))
    yield norm(model, cut)
    yield norm(model, cut)
    both = Traffic(2.0 * width, 2.0 * width)
    yield Op(JOIN, Elementwise(JOIN, both, ((JOIN, both),), axis=cut.rows))
    yield from enter(cut, "next token", 2 * width)
    yield Op("next token", Linear(2 * width, cut.share(width), COLUMN, TP))
    if cut.over(TP) > 1:
        yield Op("gather columns", Comm("all_gather", TP, width))
