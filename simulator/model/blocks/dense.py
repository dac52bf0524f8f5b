"""The dense MLP: two matrices, or three where a gate multiplies the activation (arXiv:2002.05202)."""

from collections.abc import Iterator

from simulator.axes import TP
from simulator.model.blocks.around import activation
from simulator.model.blocks.base import MLPS, enter, leave
from simulator.model.cut import Cut
from simulator.model.ops import COLUMN, ROW, Linear, Op
from simulator.specs.model import Model


@MLPS.add("dense")
def dense(model: Model, cut: Cut) -> Iterator[Op]:
    """From the normed rows to what the residual stream adds."""
    yield from enter(cut, "mlp", model.hidden, 2 if model.gated_ffn else 1)
    yield from matrices(model, cut.share(model.ffn))
    yield from leave(cut, "mlp", model.hidden)


def matrices(model: Model, inner: int) -> Iterator[Op]:
    """The products of an MLP of that inner width on a device."""
    columns = inner * (2 if model.gated_ffn else 1)
    yield Op("mlp in", Linear(model.hidden, columns, COLUMN, TP, bias=model.biases))
    yield activation(inner, model.gated_ffn)
    yield Op("mlp out", Linear(inner, model.hidden, ROW, TP, bias=model.biases))
